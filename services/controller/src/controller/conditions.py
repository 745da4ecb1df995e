"""
Conditions of the config: what each says, how they sum up, and how a new one takes the place of an old one.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from fractioning_core.resource import Condition

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"

READY = "Ready"
DRIVER_UPGRADE = "DriverUpgradeInProgress"
# They sum up or stand beside; what they say is no component's health.
_NOT_COMPONENTS = frozenset({READY, DRIVER_UPGRADE})

RECONCILE_ERROR = "ReconcileError"
NO_TARGET_NODES = "NoTargetNodes"
ALL_PODS_READY = "AllPodsReady"
PARTIALLY_AVAILABLE = "PartiallyAvailable"
ROLLOUT_IN_PROGRESS = "RolloutInProgress"
ROLLOUT_HELD_BACK = "RolloutHeldBack"
NO_COMPONENTS = "NoComponents"
COMPONENT_NOT_READY = "ComponentNotReady"
COMPONENT_UNKNOWN = "ComponentUnknown"
ALL_COMPONENTS_READY = "AllComponentsReady"

# Long enough for what an API server says, short enough for a person.
_LINE_LIMIT = 1024
# For several of those. The API takes 32,768, and with a longer one it would refuse the whole status.
_MESSAGE_LIMIT = 4096
_NAMES_LIMIT = 5


@attrs.frozen
class Verdict:
    """
    What a condition says, apart from when.
    """

    status: str
    reason: str
    message: str


@attrs.frozen
class Health:
    """
    How a daemon's rollout stands.

    Attributes:
        desired: nodes that should have it, as its DaemonSet counts; 0 while that has not counted yet.
        ready: nodes that have it ready.
        error: why its DaemonSet cannot be as it should.
        held: why it has no DaemonSet yet.
        targets: nodes that should have it, as we count.
        is_observed: whether the DaemonSet's numbers are about its newest spec.
        obstacle: what keeps its pods from being created; a condition tells it.
        hint: why there may be no target.
    """

    desired: int = 0
    ready: int = 0
    error: str = ""
    held: str = ""
    targets: int = 0
    is_observed: bool = True
    obstacle: str = ""
    hint: str = ""


def component_type(component: str) -> str:
    """
    Name the condition of a component.
    """
    return f"{component[:1].upper()}{component[1:]}Ready"


def judge(health: Health) -> Verdict:
    """
    Say how a daemon is; the first that holds.

    There are no target nodes only where neither the DaemonSet nor we count one: no pod on a node that should have one
    is a fault, even if the DaemonSet controller keeps quiet about it.
    """
    if health.error:
        return Verdict(FALSE, RECONCILE_ERROR, line(health.error))
    if health.held:
        return Verdict(FALSE, ROLLOUT_HELD_BACK, line(f"rollout held back: {health.held}"))
    if not (health.desired or health.targets):
        return Verdict(TRUE, NO_TARGET_NODES, f"no target nodes found{health.hint and f': {health.hint}'}")
    return _judge_pods(health)


def aggregate(conditions: Sequence[Condition]) -> Verdict:
    """
    Sum the components up.
    """
    if not conditions:
        return Verdict(UNKNOWN, NO_COMPONENTS, "no components have been evaluated")
    false, unknown = (
        [one.type for one in conditions if one.status == status and one.type not in _NOT_COMPONENTS]
        for status in (FALSE, UNKNOWN)
    )
    if false:
        return Verdict(FALSE, COMPONENT_NOT_READY, f"not ready: {', '.join(false)}")
    if unknown:
        return Verdict(UNKNOWN, COMPONENT_UNKNOWN, f"unknown: {', '.join(unknown)}")
    return Verdict(TRUE, ALL_COMPONENTS_READY, "all components are healthy")


def upsert(
    conditions: Sequence[Condition], kind: str, verdict: Verdict, *, generation: int, now: str
) -> tuple[Condition, ...]:
    """
    Put a condition in the place of the one of its type, or at the end; its time moves with its status alone.
    """
    old = find(conditions, kind)
    since = old.last_transition_time if old and old.status == verdict.status else now
    new = Condition(kind, verdict.status, verdict.reason, _cut(verdict.message, _MESSAGE_LIMIT), generation, since)
    if old is None:
        return (*conditions, new)
    return tuple(new if one.type == kind else one for one in conditions)


def find(conditions: Sequence[Condition], kind: str) -> Condition | None:
    """
    Return the condition of a type.
    """
    return next((one for one in conditions if one.type == kind), None)


def line(text: str) -> str:
    """
    Make one line of foreign text, cut to what a person reads.
    """
    whole = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return _cut(whole, _LINE_LIMIT)


def some(names: Sequence[str], *, most: int = _NAMES_LIMIT) -> str:
    """
    List names of which there may be thousands.
    """
    untold = len(names) - most
    told = ", ".join(names[:most])
    return f"{told} and {untold} more" if untold > 0 else told


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def _judge_pods(health: Health) -> Verdict:
    desired = health.desired or health.targets
    counted = f"{min(health.ready, desired)} of {desired} pods ready"
    if health.is_observed and health.ready >= desired:
        return Verdict(TRUE, ALL_PODS_READY, counted)
    reason = PARTIALLY_AVAILABLE if health.is_observed and health.ready else ROLLOUT_IN_PROGRESS
    return Verdict(FALSE, reason, f"{counted}: {line(health.obstacle)}" if health.obstacle else counted)
