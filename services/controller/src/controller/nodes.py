"""
The condition of each node: whether fractions of its GPUs are fenced there.

True only if both daemons have a pod there that is ready. A node that no daemon belongs on and none has a pod on, or
where the driver is being upgraded, carries no condition. Nor does a node that has neither a pod nor the condition yet:
the scheduler keeps fractions away from it anyway, and a rollout costs each node one write less.

A node with the condition or a daemon's pod that loses a label of the selector keeps the condition, but False: for a
minute or so labels are gone whenever their discovery is restarted, and the daemons leave the node with them. It stays
so until the label is back; or, when the daemons' pods are gone and ten minutes have passed, until the loss counts as
meant, and the condition is removed. A label that changes to another value was meant at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import attrs
from fractioning_core.resource import Spec

from controller import drivers, identifiers, placement
from controller.actions import RemoveNodeCondition, SetNodeCondition
from controller.conditions import FALSE, TRUE, Verdict, line, some
from controller.memory import Memory, seconds_between
from controller.rollout import Rollout
from controller.world import NodeCondition, NodeView, PodView, World

ALL_DAEMONS_READY = "AllDaemonsReady"
POD_MISSING = "PodMissing"
TERMINATING = "Terminating"
LABEL_MISSING = "NodeLabelMissing"

# Of one node; a selector has up to 64, of 380 characters each.
_LABELS_TOLD = 2
# A restart of the feature discovery takes about one minute.
LOST_FOR_GOOD_SECONDS = 600.0

_HEALTHY = Verdict(TRUE, ALL_DAEMONS_READY, "all gpu-fractioning daemons are running")


@attrs.frozen
class NodeState:
    """
    What one node's condition is to be.

    Attributes:
        node: the node.
        verdict: None for no condition.
        lost: the labels that it lost.
    """

    node: NodeView
    verdict: Verdict | None
    lost: tuple[str, ...] = ()


class Pods:
    """
    The daemons' pods by node.
    """

    def __init__(self, pods: Sequence[PodView], rollouts: Sequence[Rollout]) -> None:
        self._owned: defaultdict[tuple[str, str], list[PodView]] = defaultdict(list)
        self._occupied = frozenset(pod.node for pod in pods)
        live = {rollout.live.uid: rollout.component for rollout in rollouts if rollout.live}
        self._live = frozenset(live.values())
        for pod in pods:
            # Others may have our label as well, and pods of a former DaemonSet are on their way out.
            if pod.node and live.get(pod.owner_uid) == pod.component:
                self._owned[pod.node, pod.component].append(pod)

    def of(self, node: NodeView, component: str) -> Sequence[PodView]:
        """
        Return the pods that one daemon has on a node.
        """
        return self._owned.get((node.name, component), ())

    def are_expected(self, component: str) -> bool:
        """
        Tell whether a daemon has a DaemonSet that makes pods.
        """
        return component in self._live

    def is_occupied(self, node: NodeView) -> bool:
        """
        Tell whether a node has any pod of ours, on its way out or not.
        """
        return node.name in self._occupied


def judge(world: World, spec: Spec, rollouts: Sequence[Rollout], memory: Memory) -> tuple[NodeState, ...]:
    """
    Say what the condition of each node is to be.
    """
    pods = Pods(world.pods, rollouts)
    return tuple(_judge(node, spec, pods, memory, world.now) for node in world.nodes)


def iter_actions(states: Sequence[NodeState], now: str) -> Iterator[SetNodeCondition | RemoveNodeCondition]:
    """
    Yield what makes the conditions so; what takes a node out of use goes first.
    """
    removed = [state.node.name for state in states if state.verdict is None and state.node.condition is not None]
    yield from map(RemoveNodeCondition, removed)
    for status in (FALSE, TRUE):
        for state in states:
            if state.verdict is not None and state.verdict.status == status:
                yield from iter_changes(state.node, state.verdict, now)


def iter_changes(node: NodeView, verdict: Verdict, now: str) -> Iterator[SetNodeCondition]:
    """
    Yield what makes a node's condition so.
    """
    old = node.condition
    if old and (old.status, old.reason, old.message) == (verdict.status, verdict.reason, verdict.message):
        return
    since = old.last_transition_time if old and old.status == verdict.status else now
    yield SetNodeCondition(node.name, NodeCondition(verdict.status, verdict.reason, verdict.message, since))


def lost_since(states: Sequence[NodeState], memory: Memory, now: str) -> Mapping[str, str]:
    """
    Remember since when nodes lack labels.
    """
    return {state.node.name: memory.lost_since.get(state.node.name, now) for state in states if state.lost}


def lost_message(states: Sequence[NodeState]) -> str:
    """
    Name the nodes that lost labels, for the config's condition; empty where none did.
    """
    lost = sorted(f"{state.node.name} ({_labels(state.lost)})" for state in states if state.lost)
    return f"labels are missing, and the daemons leave: {some(lost)}" if lost else ""


def _judge(node: NodeView, spec: Spec, pods: Pods, memory: Memory, now: str) -> NodeState:
    if placement.has_upgrade(node) and placement.is_selected(node, spec.node_selector):
        return NodeState(node, None)
    lost = placement.lost_labels(node, placement.node_selector(spec))
    if lost:
        return _judge_lost(node, lost, pods, memory, now)
    found = {component: pods.of(node, component) for component in identifiers.COMPONENTS}
    is_member = any(
        (pods.are_expected(component) and placement.belongs(component, node, spec))
        or any(not pod.is_terminating for pod in found[component])
        for component in identifiers.COMPONENTS
    )
    if not is_member or (node.condition is None and not any(found.values())):
        return NodeState(node, None)
    return NodeState(node, drivers.refine(_sum_up(found), node))


def _judge_lost(node: NodeView, lost: tuple[str, ...], pods: Pods, memory: Memory, now: str) -> NodeState:
    is_occupied = pods.is_occupied(node)
    elapsed = seconds_between(memory.lost_since.get(node.name, now), now)
    if not is_occupied and (node.condition is None or elapsed > LOST_FOR_GOOD_SECONDS):
        return NodeState(node, None)
    message = f"node label {_labels(lost)} is missing, so the daemons leave the node"
    return NodeState(node, Verdict(FALSE, LABEL_MISSING, message), lost)


def _labels(lost: Sequence[str]) -> str:
    return some(lost, most=_LABELS_TOLD)


def _sum_up(found: Mapping[str, Sequence[PodView]]) -> Verdict:
    """
    Say whether all daemons run: one that does not belong here, say over an old driver, fences nothing either.
    """
    for component, pods in found.items():
        reason = _pod_fault(pods)
        if reason == POD_MISSING:
            return Verdict(FALSE, POD_MISSING, f"{component} pod is missing")
        if reason:
            return Verdict(FALSE, reason, line(f"{component} pod is not ready: {reason}"))
    return _HEALTHY


def _pod_fault(pods: Sequence[PodView]) -> str:
    staying = [pod for pod in pods if not pod.is_terminating]
    if not staying:
        return TERMINATING if pods else POD_MISSING
    return next((pod.reason or "NotReady" for pod in staying if not pod.is_ready), "")
