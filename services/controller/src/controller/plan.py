"""
What to do about the world: the one decision of the controller.

    claim           a config that another installation serves: stand by
    deletion        a config that is going: clean up, then let it go
    dependencies    what the GPU stack demands, and the gate before the first rollout
    rollout         the two DaemonSets (built by fractiond and mpsd around daemonset)
    nodes           the condition of each node (placement says which daemons belong there, drivers why they cannot work)
    status          the conditions of the config (conditions, upgrade)
    events          what is worth telling

Planning changes nothing: a plan of which every action was done leads to a plan without actions, as soon as the world
shows what was done.
"""

from __future__ import annotations

import attrs
from fractioning_core.resource import Config

from controller import claim, deletion, dependencies, events, nodes, rollout, status
from controller.actions import Action, Figures, Plan, Rollup, WriteStatus
from controller.conditions import TRUE
from controller.memory import Memory
from controller.nodes import NodeState
from controller.rollout import Rollout
from controller.status import Status
from controller.world import World

# Changes call for a new plan at once; this is for what changes without telling.
REQUEUE_SECONDS = 30.0


def plan(world: World, memory: Memory) -> Plan:
    """
    Plan the next steps.

    Args:
        world: everything there is.
        memory: of the last plan, with what became of its DaemonSets.
    """
    config = world.config
    if config is None:
        return Plan(tuple(deletion.iter_remains(world)), Memory())
    if not claim.is_ours(config, world.options.namespace):
        return claim.stand_by(config, world.options.namespace, memory)
    memory = claim.resumed(memory)
    if config.is_deleting:
        return deletion.plan(world, config, memory)
    if not claim.is_complete(config):
        # Alone: nothing may be made before it is sure to be cleaned up.
        return claim.complete(config, world.options.namespace, memory)
    return _reconcile(world, config, memory)


def plan_blind(config: Config, outage: str, *, namespace: str, now: str) -> tuple[Action, ...]:
    """
    Plan what there is to do without a world: tell the config so, where that is not told yet.
    """
    if not claim.is_ours(config, namespace):
        return ()
    found = status.blind(config, outage, now=now)
    return () if found == config.conditions else (WriteStatus(found, config.observed_generation),)


def _reconcile(world: World, config: Config, before: Memory) -> Plan:
    memory = dependencies.remember_mode(world, attrs.evolve(before, deleting_since=""))
    rollouts = rollout.plan(world, config, memory, dependencies.gate(world))
    # A config that has lost its selector says nothing about nodes.
    states = nodes.judge(world, config.spec, rollouts, memory) if world.has_selector else ()
    found = status.judge(world, config, rollouts, states, memory)
    actions: list[Action] = [one.action for one in rollouts if one.action]
    if (config.conditions, config.observed_generation) != (found.conditions, config.generation):
        actions.append(WriteStatus(found.conditions, config.generation))
    actions += events.iter_mode_events(config, before, memory)
    actions += events.iter_events(config, found)
    actions += nodes.iter_actions(states, world.now)
    memory = attrs.evolve(memory, lost_since=nodes.lost_since(states, memory, world.now))
    return Plan(tuple(actions), memory, _requeue_seconds(found, states, memory), _figures(rollouts, states))


def _requeue_seconds(found: Status, states: tuple[NodeState, ...], memory: Memory) -> float | None:
    are_well = all(state.verdict is None or state.verdict.status == TRUE for state in states)
    is_settled = found.is_ready and are_well and not memory.policy_lost_since
    return None if is_settled else REQUEUE_SECONDS


def _figures(rollouts: tuple[Rollout, ...], states: tuple[NodeState, ...]) -> Figures:
    verdicts = [state.verdict for state in states if state.verdict]
    ready = sum(verdict.status == TRUE for verdict in verdicts)
    daemons = {one.component: Rollup(one.live.desired, one.live.ready) if one.live else Rollup() for one in rollouts}
    return Figures(daemons, ready, len(verdicts) - ready)
