"""
What to do about the world: the one decision of the controller.

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

from controller import deletion, dependencies, events, identifiers, nodes, rollout, status
from controller.actions import Action, AddFinalizer, Figures, Plan, RemoveNodeCondition, Rollup, WriteStatus
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
        return _without_config(world)
    if config.is_deleting:
        return deletion.plan(world, config, memory)
    if identifiers.FINALIZER not in config.finalizers:
        # Alone: nothing may be made before it is sure to be cleaned up.
        finalizers = (*config.finalizers, identifiers.FINALIZER)
        return Plan((AddFinalizer(finalizers, config.resource_version),), memory)
    return _reconcile(world, config, memory)


def _without_config(world: World) -> Plan:
    """
    Take back what a config left behind whose finalizer somebody removed by hand: no node may go on looking fenced.
    """
    return Plan(tuple(RemoveNodeCondition(node.name) for node in world.nodes if node.condition), Memory())


def _reconcile(world: World, config: Config, before: Memory) -> Plan:
    memory = attrs.evolve(before, is_nri=dependencies.nri_mode(world, before.is_nri), deleting_since="")
    rollouts = rollout.plan(world, config, memory, dependencies.gate(world))
    # A config that is not usable may have lost its selector: it says nothing about nodes.
    states = () if world.config_problem else nodes.judge(world, config.spec, rollouts, memory)
    found = status.judge(world, config, rollouts, states)
    actions: list[Action] = [one.action for one in rollouts if one.action]
    if (config.conditions, config.observed_generation) != (found.conditions, config.generation):
        actions.append(WriteStatus(found.conditions, config.generation))
    actions += events.iter_mode_events(config, before, memory)
    actions += events.iter_events(config, found)
    actions += nodes.iter_actions(states, world.now)
    memory = attrs.evolve(memory, lost_since=nodes.lost_since(states, memory, world.now))
    return Plan(tuple(actions), memory, _requeue_seconds(found, states), _figures(rollouts, states))


def _requeue_seconds(found: Status, states: tuple[NodeState, ...]) -> float | None:
    is_well = found.is_ready and all(state.verdict is None or state.verdict.status == TRUE for state in states)
    return None if is_well else REQUEUE_SECONDS


def _figures(rollouts: tuple[Rollout, ...], states: tuple[NodeState, ...]) -> Figures:
    verdicts = [state.verdict for state in states if state.verdict]
    ready = sum(verdict.status == TRUE for verdict in verdicts)
    daemons = {one.component: Rollup(one.live.desired, one.live.ready) if one.live else Rollup() for one in rollouts}
    return Figures(daemons, ready, len(verdicts) - ready)
