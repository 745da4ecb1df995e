"""
What is to be done about each DaemonSet.

A DaemonSet is applied when it is missing, when it is not what we would make now, or when it is not as we left it: its
generation moves with every change of its spec, whoever makes it. One that belongs to somebody else is never touched.
One of a former GpuFractioningConfig is taken over, and so is one that nobody owns and that has our labels.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from fractioning_core.resource import Config

from controller import conditions, daemonset, fractiond, identifiers, mpsd
from controller.actions import ApplyDaemonSet
from controller.conditions import Health, line, some
from controller.daemonset import Input, Manifest
from controller.dependencies import Finding
from controller.memory import Memory
from controller.placement import belongs, is_selected
from controller.world import DaemonSetView, FailedCreate, World

_BUILDERS = {identifiers.FRACTIOND: fractiond.build, identifiers.MPSD: mpsd.build}
# What a component's condition says only when it has had a DaemonSet.
_BEGUN = frozenset(
    {
        conditions.NO_TARGET_NODES,
        conditions.ALL_PODS_READY,
        conditions.PARTIALLY_AVAILABLE,
        conditions.ROLLOUT_IN_PROGRESS,
    }
)
_MODE_UNKNOWN = "it is not known whether the GPU Operator runs its NRI plugin"


@attrs.frozen
class Rollout:
    """
    One DaemonSet.

    Attributes:
        component: the daemon.
        live: the DaemonSet as it is, if there is one of ours.
        action: what to do about it.
        error: why it cannot be as it should.
        held: why it is not created yet.
    """

    component: str
    live: DaemonSetView | None = None
    action: ApplyDaemonSet | None = None
    error: str = ""
    held: str = ""


def plan(world: World, config: Config, memory: Memory, gate: Finding | None) -> tuple[Rollout, ...]:
    """
    Decide about both DaemonSets.

    Args:
        world: the world.
        config: its config.
        memory: with the mode of the GPU Operator as known now.
        gate: what holds back the first rollout.
    """
    live = {one.name: one for one in world.daemonsets}
    ours = {name for name, one in live.items() if is_ours(one, config)}
    # Of a rollout that has begun, half would fence nothing, and what was deleted by hand is missed by what it fenced.
    held = gate.message if gate and not (ours or _has_begun(config)) else ""
    unmade = held or line(world.config_problem) or _MODE_UNKNOWN
    manifests = _manifests(world, config, memory)
    rollouts = []
    for component in identifiers.COMPONENTS:
        found = live.get(identifiers.daemonset_name(component))
        if found is not None and found.name not in ours:
            rollouts.append(Rollout(component, error=_foreign(found, component, world.options.namespace)))
        elif found is None and (held or component not in manifests):
            rollouts.append(Rollout(component, held=unmade))
        else:
            action = _action(component, found, manifests.get(component), memory)
            rollouts.append(Rollout(component, found, action, error=memory.errors.get(component, "")))
    return tuple(rollouts)


def health(world: World, config: Config, rollout: Rollout) -> Health:
    """
    Say how one rollout stands.
    """
    live = rollout.live
    targets = sum(belongs(rollout.component, node, config.spec) for node in world.nodes)
    if live is None:
        return Health(error=rollout.error, held=rollout.held, targets=targets, hint=_hint(world, config, targets))
    desired = live.desired or targets
    return Health(
        desired=live.desired,
        ready=live.ready,
        error=rollout.error,
        targets=targets,
        is_observed=live.observed_generation >= live.generation and not live.is_deleting,
        obstacle=_obstacle(world, live, desired),
        hint=_hint(world, config, targets),
    )


def is_ours(live: DaemonSetView, config: Config) -> bool:
    """
    Tell whether a DaemonSet may be overwritten, and deleted with the config.
    """
    if live.owner is not None:
        return live.owner.uid == config.uid or live.owner.is_config
    component = live.labels.get(identifiers.COMPONENT_LABEL, "")
    return live.name == identifiers.daemonset_name(component) and _has_labels(live, component)


def _manifests(world: World, config: Config, memory: Memory) -> Mapping[str, Manifest]:
    """
    Make both manifests; none of them for a config that is not usable, or while the mode is unknown.
    """
    if world.config_problem or memory.is_nri is None:
        return {}
    given = Input(config, world.options, memory.is_nri)
    return {component: build(given) for component, build in _BUILDERS.items()}


def _action(
    component: str, live: DaemonSetView | None, manifest: Manifest | None, memory: Memory
) -> ApplyDaemonSet | None:
    if manifest is None or (live is not None and live.is_deleting):
        return None
    wanted = daemonset.spec_hash(manifest)
    if live is not None and _is_as_left(live, wanted, memory, component):
        return None
    return ApplyDaemonSet(component, manifest, wanted)


def _is_as_left(live: DaemonSetView, wanted: str, memory: Memory, component: str) -> bool:
    left = memory.daemonsets.get(component)
    if left is None or left.uid != live.uid or left.spec_hash != wanted:
        return False
    # A lower generation is from before we wrote: the news of it is still on its way.
    if live.generation < left.generation:
        return True
    return live.generation == left.generation and live.spec_hash == wanted and _has_labels(live, component)


def _has_labels(live: DaemonSetView, component: str) -> bool:
    return identifiers.component_labels(component).items() <= live.labels.items()


def _foreign(live: DaemonSetView, component: str, namespace: str) -> str:
    where = f"DaemonSet {namespace}/{live.name}"
    if live.owner is not None:
        owner = f'{live.owner.kind} "{live.owner.name}" (UID {live.owner.uid})'
        return f"{where} belongs to {owner} and is left alone; delete it there to make room"
    labels = " and ".join(f"{key}={value}" for key, value in identifiers.component_labels(component).items())
    return f"{where} is not ours and is left alone; delete it, or label it {labels} to hand it over"


def _has_begun(config: Config) -> bool:
    kinds = map(conditions.component_type, identifiers.COMPONENTS)
    found = [conditions.find(config.conditions, kind) for kind in kinds]
    return any(one.reason in _BEGUN for one in found if one)


def _obstacle(world: World, live: DaemonSetView, desired: int) -> str:
    pods = [pod for pod in world.pods if pod.owner_uid == live.uid]
    if live.is_deleting:
        nodes = sorted({pod.node for pod in pods if pod.node})
        return f"the former DaemonSet waits for its pods on {some(nodes)}" if nodes else "the former DaemonSet is going"
    return _newest(world.failed_creates, live.uid) if len(pods) < desired else ""


def _newest(events: tuple[FailedCreate, ...], uid: str) -> str:
    found = max((event for event in events if event.daemonset_uid == uid), key=lambda event: event.time, default=None)
    return found.message if found else ""


def _hint(world: World, config: Config, targets: int) -> str:
    """
    Say why no node is a target although nodes are selected, in the one case that nobody expects.
    """
    if targets:
        return ""
    selected = [node for node in world.nodes if is_selected(node, config.spec.node_selector)]
    client = f"{identifiers.CLIENT_LABEL}={identifiers.CLIENT_VALUE}"
    if selected and all(node.labels.get(identifiers.CLIENT_LABEL) is None for node in selected):
        return f"no selected node has label {client}, which the GPU Operator sets"
    return ""
