"""
What the controller knows of the cluster when it plans: frozen values, read from manifests at the border.

Each value holds only what a plan asks for, since there are thousands of nodes and pods. A world is complete: whoever
makes one has read every collection at least once.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import attrs
from fractioning_core import names
from fractioning_core.resource import Config

from controller import identifiers, manifests
from controller.options import Options
from controller.policy import ClusterPolicy, ServiceVersion
from controller.workloads import DaemonSetView, FailedCreate, Owner, PodView

T = TypeVar("T")

__all__ = [
    "DaemonSetView",
    "FailedCreate",
    "NodeCondition",
    "NodeView",
    "Owner",
    "PodView",
    "Reading",
    "Taint",
    "World",
    "label_keys",
]


@attrs.frozen
class NodeCondition:
    """
    Our condition on a node.
    """

    status: str
    reason: str
    message: str
    last_transition_time: str


@attrs.frozen
class Taint:
    """
    A taint of a node.
    """

    key: str
    value: str
    effect: str


@attrs.frozen
class NodeView:
    """
    A node.

    Attributes:
        name: its name.
        labels: the labels that a plan asks for, and no others.
        condition: our condition.
        taints: its taints.
        driver_problem: what mpsd there says of the driver; empty when nothing is wrong.
    """

    name: str
    labels: Mapping[str, str] = attrs.field(factory=dict)
    condition: NodeCondition | None = None
    taints: tuple[Taint, ...] = ()
    driver_problem: str = ""

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any], keys: frozenset[str]) -> NodeView:
        """
        Read a node as the API server has it.

        Args:
            manifest: The node.
            keys: The labels to keep; see `label_keys`.
        """
        metadata = manifests.mapping(manifest, "metadata")
        labels = manifests.mapping(metadata, "labels")
        return cls(
            name=sys.intern(manifests.text(metadata, "name")),
            labels={key: sys.intern(str(labels[key])) for key in keys if key in labels},
            condition=_node_condition(manifest),
            taints=tuple(
                Taint(*(sys.intern(manifests.text(taint, field)) for field in ("key", "value", "effect")))
                for taint in manifests.iter_objects(manifest, "spec", "taints")
            ),
            driver_problem=manifests.text(metadata, "annotations", names.DRIVER_PROBLEM_ANNOTATION).strip(),
        )


@attrs.frozen
class Reading(Generic[T]):
    """
    A collection that belongs to somebody else: it may not exist, and we may not be allowed to read it.

    Attributes:
        items: what was read last; empty also where the API does not exist.
        error: why it cannot be read now; empty when it can.
    """

    items: tuple[T, ...] = ()
    error: str = ""


@attrs.frozen
class World:
    """
    All of it.

    Attributes:
        config: the GpuFractioningConfig; None where there is none.
        options: the installation.
        now: RFC 3339, in UTC.
        config_problem: what is wrong with the config; `config` then holds the rest of it. Empty when nothing is.
        nodes: every node of the cluster.
        pods: every pod of our namespace that is managed by us.
        daemonsets: the DaemonSets of our namespace under our names.
        cluster_policies: of the GPU Operator.
        service_versions: of the GPU Operator.
        failed_creates: about DaemonSets of our namespace.
        outage: which of what is ours cannot be read any more, and why; empty when all can.
        failed_creates_outage: the same of the events, which only explain.
    """

    config: Config | None
    options: Options
    now: str
    config_problem: str = ""
    nodes: tuple[NodeView, ...] = ()
    pods: tuple[PodView, ...] = ()
    daemonsets: tuple[DaemonSetView, ...] = ()
    cluster_policies: Reading[ClusterPolicy] = Reading()
    service_versions: Reading[ServiceVersion] = Reading()
    failed_creates: tuple[FailedCreate, ...] = ()
    outage: str = ""
    failed_creates_outage: str = ""

    @property
    def has_selector(self) -> bool:
        """
        Whether it is known which nodes the config is about: one that is not usable may have lost its selector.
        """
        return self.config is not None and bool(not self.config_problem or self.config.spec.node_selector)


def label_keys(node_selector: Mapping[str, str]) -> frozenset[str]:
    """
    Name the node labels that a plan asks for.
    """
    return frozenset(node_selector) | {
        identifiers.CLIENT_LABEL,
        identifiers.UPGRADE_LABEL,
        names.DRIVER_LABEL,
    }


def _node_condition(manifest: Mapping[str, Any]) -> NodeCondition | None:
    found = manifests.condition(manifest, identifiers.NODE_CONDITION)
    if not found:
        return None
    return NodeCondition(
        *(sys.intern(manifests.text(found, field)) for field in ("status", "reason", "message", "lastTransitionTime"))
    )
