"""
All that the controller reads of the cluster, and the world that it makes of it.

Every collection is mirrored, so that a plan costs the API server nothing. What belongs to us has to be there before
anything is planned, and what cannot be read any more is told in the world. What belongs to the GPU stack may be absent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import attrs
from fractioning_core import resource
from fractioning_core.kube.collections import Collection, Key
from fractioning_core.kube.mirror import Mirror
from fractioning_core.kube.transport import StreamingApi

from controller import identifiers
from controller.configreading import CONFIGS, ConfigReading
from controller.nodesource import NODES, NodeSource
from controller.options import Options
from controller.policy import ClusterPolicy, ServiceVersion
from controller.source import Source
from controller.world import DaemonSetView, FailedCreate, PodView, World, label_keys

T = TypeVar("T")
Select = Callable[[Mapping[str, Any]], T | None]

DAEMONSETS = Collection("apps", "v1", "daemonsets")
PODS = Collection("", "v1", "pods")
EVENTS = Collection("", "v1", "events")
CLUSTER_POLICIES = Collection("nvidia.com", "v1", "clusterpolicies")
SERVICE_VERSIONS = Collection("operators.coreos.com", "v1alpha1", "clusterserviceversions")

RESOURCES = tuple(
    collection.plural for collection in (CONFIGS, DAEMONSETS, PODS, NODES, EVENTS, CLUSTER_POLICIES, SERVICE_VERSIONS)
)
"""
All that is mirrored.
"""

_OUR_DAEMONSETS = frozenset(map(identifiers.daemonset_name, identifiers.COMPONENTS))
_FAILED_CREATES = "involvedObject.kind=DaemonSet,reason=FailedCreate"
_OUR_PODS = f"{identifiers.MANAGED_BY_LABEL}={identifiers.MANAGED_BY}"
# OLM copies each of these large objects into every namespace.
_ORIGINALS = "!olm.copiedFrom"


@attrs.frozen
class SourceState:
    """
    How far a collection can be relied on.
    """

    resource: str
    is_synced: bool
    problem: str


class Sources:
    """
    The mirrors, while it runs.

    Args:
        transport: The API server.
        options: The installation.
        changed: Called after anything that a plan could depend on changed.
        clock: The loop's time.
    """

    def __init__(
        self, transport: StreamingApi, *, options: Options, changed: Callable[[], None], clock: Callable[[], float]
    ) -> None:
        def source(collection: Collection, select: Select[T], *, fields: str = "", labels: str = "") -> Source[T]:
            def mirror(note: Callable[[], None]) -> Mirror[T]:
                return Mirror(
                    transport, collection, select=select, changed=note, field_selector=fields, label_selector=labels
                )

            return Source(mirror, changed=changed, clock=clock)

        self.namespace = namespace = options.namespace
        """
        Of the installation.
        """
        self._options = options
        self._configs = source(CONFIGS, ConfigReading.from_manifest, fields=f"metadata.name={resource.NAME}")
        self._daemonsets = source(DAEMONSETS.within(namespace), _our_daemonset)
        self._pods = source(PODS.within(namespace), PodView.from_manifest, labels=_OUR_PODS)
        self._failed_creates = source(EVENTS.within(namespace), FailedCreate.from_manifest, fields=_FAILED_CREATES)
        self._nodes = NodeSource(transport, changed=changed, clock=clock)
        self._policies = source(CLUSTER_POLICIES, ClusterPolicy.from_manifest)
        self._versions = source(SERVICE_VERSIONS, ServiceVersion.from_manifest, labels=_ORIGINALS)

    async def run(self) -> None:
        """
        Keep all of it up to date, for ever.
        """
        others = (self._failed_creates, self._policies, self._versions)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._nodes.run(), name="nodes")
            for source in (self._configs, self._daemonsets, self._pods, *others):
                group.create_task(source.mirror.run(), name=f"mirror {source.mirror.collection}")

    def config(self) -> ConfigReading | None:
        """
        Give the resource as it was last read; None while there is none.
        """
        return self._configs.mirror.items.get(Key("", resource.NAME))

    def world(self, config: ConfigReading | None, *, now: str) -> World | None:
        """
        Put together what is known; None while not everything that a plan needs was read.

        Args:
            config: The resource, perhaps newer than the mirror's.
            now: The time in RFC 3339.
        """
        if self._configs.mirror.is_synced:
            self._nodes.want(label_keys({} if config is None else config.config.spec.node_selector))
        nodes, policies, versions = self._nodes.source, self._policies.reading(), self._versions.reading()
        are_synced = all(source.mirror.is_synced for source in self._iter_needed())
        if nodes is None or policies is None or versions is None or not are_synced:
            return None
        return World(
            config=None if config is None else config.config,
            options=self._options,
            now=now,
            config_problem="" if config is None else config.problem,
            nodes=tuple(nodes.mirror.items.values()),
            pods=tuple(self._pods.mirror.items.values()),
            daemonsets=tuple(self._daemonsets.mirror.items.values()),
            cluster_policies=policies,
            service_versions=versions,
            failed_creates=tuple(self._failed_creates.mirror.items.values()),
            outage=self.outage(),
            failed_creates_outage=self._failed_creates.outage(),
        )

    def outage(self) -> str:
        """
        Say what of ours cannot be read, when that is no passing outage; else nothing.
        """
        return "; ".join(filter(None, (source.outage() for source in self._iter_needed())))

    def patience_seconds(self) -> float | None:
        """
        Say after how long the world is another although nothing changed; None if it is not going to be.
        """
        waits = [source.patience_seconds() for source in self._iter_all()]
        return min((wait for wait in waits if wait is not None), default=None)

    def complaint(self) -> str:
        """
        Say what keeps the world from being known, or known to be up to date; empty when nothing does.
        """
        if self._configs.mirror.is_absent:
            return f"there is no CustomResourceDefinition of {CONFIGS}"
        mirrors = [source.mirror for source in self._iter_needed()]
        waiting = [str(mirror.collection) for mirror in mirrors if not mirror.is_synced]
        waiting += [] if self._nodes.source else [str(NODES)]
        return self.problem() or (f"waiting for {', '.join(waiting)}" if waiting else "")

    def problem(self) -> str:
        """
        Say what cannot be read although it is there; empty when nothing is.
        """
        return "; ".join(filter(None, (source.mirror.problem for source in self._iter_needed())))

    def iter_states(self) -> Iterator[SourceState]:
        """
        Yield the state of each collection.
        """
        known = {source.mirror.collection.plural: source.mirror for source in self._iter_all()}
        for name in RESOURCES:
            mirror = known.get(name)
            yield SourceState(name, mirror is not None and mirror.is_synced, mirror.problem if mirror else "")

    def _iter_needed(self) -> Iterator[Source[Any]]:
        yield from (self._configs, self._daemonsets, self._pods)
        if self._nodes.source is not None:
            yield self._nodes.source

    def _iter_all(self) -> Iterator[Source[Any]]:
        yield from self._iter_needed()
        yield from (self._failed_creates, self._policies, self._versions)


def _our_daemonset(manifest: Any) -> DaemonSetView | None:  # noqa: ANN401 - what JSON holds
    view = DaemonSetView.from_manifest(manifest)
    return view if view.name in _OUR_DAEMONSETS else None
