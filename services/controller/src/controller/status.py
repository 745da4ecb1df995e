"""
The conditions of the config, from everything that was found.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from fractioning_core.resource import Condition, Config

from controller import conditions, dependencies, drivers, nodes, rollout, upgrade
from controller.conditions import FALSE, TRUE, Verdict
from controller.dependencies import Finding
from controller.nodes import NodeState
from controller.rollout import Rollout
from controller.world import World

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


def judge(world: World, config: Config, rollouts: Sequence[Rollout], states: Sequence[NodeState]) -> Status:
    """
    Make the conditions, each in the place of its predecessor.
    """
    found = config.conditions
    for one in rollouts:
        verdict = conditions.judge(rollout.health(world, config, one))
        found = _upsert(world, config, found, conditions.component_type(one.component), verdict)
    health = _with_nodes(conditions.aggregate(found), states)
    finding = dependencies.check(world, health)
    ready = Verdict(FALSE, finding.reason, finding.message) if finding else health
    ready = _with_note(ready, dependencies.several_policies(world))
    found = _upsert(world, config, found, conditions.READY, ready)
    if not world.config_problem:
        upgrading = upgrade.judge(world.nodes, config.spec.node_selector)
        found = _upsert(world, config, found, conditions.DRIVER_UPGRADE, upgrading)
    return Status(found, finding)


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
