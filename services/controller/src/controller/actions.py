"""
What a plan asks for, one value for each write.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from fractioning_core.resource import Condition

from controller.daemonset import Manifest
from controller.memory import Memory
from controller.world import NodeCondition


@attrs.frozen
class AddFinalizer:
    """
    Set the finalizers of the config, and note from which namespace it is served; the resource version guards against
    another writer.
    """

    finalizers: tuple[str, ...]
    namespace: str
    resource_version: str


@attrs.frozen
class RemoveFinalizer:
    """
    Set the finalizers of the config, ours no longer among them, so that it can go.
    """

    finalizers: tuple[str, ...]
    resource_version: str


@attrs.frozen
class ApplyDaemonSet:
    """
    Make a DaemonSet what the manifest says, whatever others wrote into its spec.

    Whoever does it tells the memory what became of it: `Memory.applied` or `Memory.failed`, and plans again.
    """

    component: str
    manifest: Manifest
    spec_hash: str


@attrs.frozen
class DeleteDaemonSet:
    """
    Delete a DaemonSet of this UID, and let its pods follow; gone already is fine.
    """

    name: str
    uid: str


@attrs.frozen
class WriteStatus:
    """
    Make this the config's status.
    """

    conditions: tuple[Condition, ...]
    observed_generation: int


@attrs.frozen
class SetNodeCondition:
    """
    Set our condition on a node, with a heartbeat of now.
    """

    node: str
    condition: NodeCondition


@attrs.frozen
class RemoveNodeCondition:
    """
    Remove our condition from a node; a node that is gone is fine.
    """

    node: str


@attrs.frozen
class RemoveDriverLabel:
    """
    Remove what mpsd wrote on a node, the driver label and the driver-problem annotation; a node that is gone is fine.
    """

    node: str


@attrs.frozen
class EmitEvent:
    """
    Tell of something that happened, in an event about the config.
    """

    type: str
    reason: str
    message: str


# Those of which there may be thousands.
NodeAction = SetNodeCondition | RemoveNodeCondition | RemoveDriverLabel

Action = AddFinalizer | RemoveFinalizer | ApplyDaemonSet | DeleteDaemonSet | WriteStatus | NodeAction | EmitEvent


@attrs.frozen
class Rollup:
    """
    Nodes of one daemon: how many should have it, and how many have it ready.
    """

    desired: int = 0
    ready: int = 0


@attrs.frozen
class Figures:
    """
    What a plan counted, for metrics.

    Attributes:
        daemons: by component, as its DaemonSet counts.
        nodes_ready, nodes_degraded: nodes whose condition is to be True, or False.
    """

    daemons: Mapping[str, Rollup] = attrs.field(factory=dict)
    nodes_ready: int = 0
    nodes_degraded: int = 0


@attrs.frozen
class Plan:
    """
    What to do, in order, and when to look again at the latest.

    Attributes:
        actions: each is tried even where one before it failed.
        memory: for the next plan.
        requeue_seconds: None where only a change calls for another plan.
        figures: for metrics.
    """

    actions: tuple[Action, ...]
    memory: Memory
    requeue_seconds: float | None = None
    figures: Figures = Figures()
