"""
What is left to do before a config that is deleted can go.

Our condition goes from the nodes at once. The DaemonSets are deleted by us rather than left to garbage collection,
since an mpsd that still runs would write its label again behind our back: so each node is cleaned when its mpsd is
gone. Pods on a node that does not answer never go; after their grace and half a minute nobody waits for them.

Cleaned are the nodes that the selector names, and those that carry our condition: one may have lost its label.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from fractioning_core import names, resource
from fractioning_core.resource import Config

from controller import identifiers, mpsd, nodes, placement, rollout
from controller.actions import Action, DeleteDaemonSet, Plan, RemoveDriverLabel, RemoveFinalizer, RemoveNodeCondition
from controller.conditions import FALSE, Verdict
from controller.memory import Memory, seconds_between
from controller.world import NodeView, World

REQUEUE_SECONDS = 5.0
# On top of what a pod may take to end, for the kubelet and the API server.
_MARGIN_SECONDS = 30

_ORPHANED = Verdict(FALSE, nodes.TERMINATING, f"{resource.KIND} {resource.NAME} is gone, and mpsd is about to follow")


def plan(world: World, config: Config, memory: Memory) -> Plan:
    """
    Plan the next steps of the deletion.
    """
    if identifiers.FINALIZER not in config.finalizers:
        return Plan((), Memory())
    memory = attrs.evolve(memory, deleting_since=memory.deleting_since or world.now)
    actions: list[Action] = [*_iter_deletions(world, config), *_iter_cleanups(world, config, memory)]
    if actions or not _is_over(world, config, memory):
        return Plan(tuple(actions), memory, REQUEUE_SECONDS)
    left = tuple(name for name in config.finalizers if name != identifiers.FINALIZER)
    return Plan((RemoveFinalizer(left, config.resource_version),), memory, REQUEUE_SECONDS)


def iter_remains(world: World) -> Iterator[Action]:
    """
    Yield how to clean up after a config whose finalizer somebody removed by hand: no node may go on looking fenced.

    Only our condition tells that a label is ours, so it stays, but False, for as long as an mpsd may write the label.
    """
    labelling = _labelling(world)
    for node in world.nodes:
        if node.condition is None:
            continue
        if node.name in labelling:
            yield from nodes.iter_changes(node, _ORPHANED, world.now)
            continue
        if _is_marked(node):
            yield RemoveDriverLabel(node.name)
        yield RemoveNodeCondition(node.name)


def _iter_deletions(world: World, config: Config) -> Iterator[DeleteDaemonSet]:
    for live in world.daemonsets:
        if rollout.is_ours(live, config) and not live.is_deleting:
            yield DeleteDaemonSet(live.name, live.uid)


def _iter_cleanups(world: World, config: Config, memory: Memory) -> Iterator[Action]:
    waited_for = frozenset() if _is_overdue(world, config, memory) else _labelling(world)
    for node in world.nodes:
        is_selected = placement.is_selected(node, config.spec.node_selector)
        is_marked = _is_marked(node) and (is_selected or node.condition is not None)
        if is_marked and node.name not in waited_for:
            yield RemoveDriverLabel(node.name)
        # On a node that is no longer selected, only the condition tells that the label is ours: it goes after it.
        if node.condition is not None and (is_selected or not is_marked):
            yield RemoveNodeCondition(node.name)


def _labelling(world: World) -> frozenset[str]:
    """
    Name the nodes where an mpsd may still write its label.
    """
    return frozenset(pod.node for pod in world.pods if pod.component == identifiers.MPSD)


def _is_marked(node: NodeView) -> bool:
    return bool(node.labels.get(names.DRIVER_LABEL) or node.driver_problem)


def _is_over(world: World, config: Config, memory: Memory) -> bool:
    has_pods = any(pod.component in identifiers.COMPONENTS for pod in world.pods)
    has_daemonsets = any(rollout.is_ours(live, config) for live in world.daemonsets)
    return not (has_pods or has_daemonsets) or _is_overdue(world, config, memory)


def _is_overdue(world: World, config: Config, memory: Memory) -> bool:
    grace_seconds = mpsd.grace_seconds(config.spec.mps_daemon)
    return seconds_between(memory.deleting_since, world.now) > grace_seconds + _MARGIN_SECONDS
