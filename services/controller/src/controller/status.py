"""
The conditions of the config, from everything that was found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
from fractioning_core.resource import Condition, Config

from controller import conditions, dependencies, drivers, nodes, rollout, upgrade
from controller.conditions import FALSE, TRUE, UNKNOWN, Health, Verdict, line
from controller.dependencies import Finding
from controller.memory import Memory
from controller.nodes import NodeState
from controller.rollout import Rollout
from controller.world import World

NOT_READABLE = "ClusterNotReadable"

_DRIVER_REASONS = frozenset({drivers.UNSUPPORTED, drivers.PROBLEM, drivers.INVALID, drivers.MISSING})


@attrs.frozen
class Status:
    """
    What the config is told.

    Attributes:
        conditions: all of them.
        finding: what made `Ready` False beyond the daemons' health.
    """

    conditions: tuple[Condition, ...]
    finding: Finding | None

    @property
    def is_ready(self) -> bool:
        """
        Whether all is well.
        """
        found = conditions.find(self.conditions, conditions.READY)
        return found is not None and found.status == TRUE


def judge(
    world: World, config: Config, rollouts: Sequence[Rollout], states: Sequence[NodeState], memory: Memory
) -> Status:
    """
    Make the conditions, each in the place of its predecessor.
    """
    found = config.conditions
    healths = {one.component: rollout.health(world, config, one) for one in rollouts}
    for component, health in healths.items():
        found = _upsert(world, config, found, conditions.component_type(component), conditions.judge(health))
    ready = _with_nodes(_with_obstacles(conditions.aggregate(found), healths), states)
    finding = dependencies.check(world, ready)
    ready = Verdict(FALSE, finding.reason, finding.message) if finding else ready
    for note in (dependencies.several_policies(world), dependencies.lost_policy(memory), world.failed_creates_outage):
        ready = _with_note(ready, note)
    ready = _with_outage(ready, world.outage)
    found = _upsert(world, config, found, conditions.READY, ready)
    if world.has_selector:
        upgrading = upgrade.judge(world.nodes, config.spec.node_selector)
        found = _upsert(world, config, found, conditions.DRIVER_UPGRADE, upgrading)
    return Status(found, finding)


def blind(config: Config, outage: str, *, now: str) -> tuple[Condition, ...]:
    """
    Make the conditions where nothing is known but the config and why.
    """
    verdict = Verdict(UNKNOWN, NOT_READABLE, outage)
    return conditions.upsert(config.conditions, conditions.READY, verdict, generation=config.generation, now=now)


def _with_outage(ready: Verdict, outage: str) -> Verdict:
    """
    Say what cannot be read any more: nobody knows whether all is still well, but what was not well may be mended.
    """
    if not outage or ready.status != TRUE:
        return _with_note(ready, outage)
    return Verdict(UNKNOWN, NOT_READABLE, outage)


def _with_obstacles(ready: Verdict, healths: Mapping[str, Health]) -> Verdict:
    """
    Quote what keeps pods from being created, which nobody finds who looks at the pods.
    """
    if ready.reason != conditions.COMPONENT_NOT_READY:
        return ready
    told = (f"{component}: {line(health.obstacle)}" for component, health in healths.items() if health.obstacle)
    return _with_note(ready, "; ".join(told))


def _with_nodes(ready: Verdict, states: Sequence[NodeState]) -> Verdict:
    """
    Name the nodes that keep it from being ready: their drivers as the reason for a component that is not, and lost
    labels whatever else there is, since the daemons count such a node as none of theirs.
    """
    if ready.reason == conditions.COMPONENT_NOT_READY:
        ready = _with_drivers(ready, states)
    lost = nodes.lost_message(states)
    if not lost:
        return ready
    if ready.status == TRUE:
        return Verdict(FALSE, nodes.LABEL_MISSING, lost)
    return _with_note(ready, lost)


def _with_drivers(ready: Verdict, states: Sequence[NodeState]) -> Verdict:
    faulty = {
        state.node.name: state.node for state in states if state.verdict and state.verdict.reason in _DRIVER_REASONS
    }
    found = drivers.summarize(faulty)
    return _with_note(found, ready.message) if found else ready


def _with_note(verdict: Verdict, note: str) -> Verdict:
    return attrs.evolve(verdict, message=f"{verdict.message}; {note}") if note else verdict


def _upsert(
    world: World, config: Config, found: tuple[Condition, ...], kind: str, verdict: Verdict
) -> tuple[Condition, ...]:
    return conditions.upsert(found, kind, verdict, generation=config.generation, now=world.now)
