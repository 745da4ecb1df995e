"""
All that the controller reads of the cluster, and the world that it makes of it.

Every collection is mirrored, so that a plan costs the API server nothing. What belongs to us has to be there before
anything is planned. What belongs to the GPU stack may be absent, and what we may not read of it is told in the world;
only a short outage is not, because the same outage is about to be over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

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
from controller.world import DaemonSetView, FailedCreate, PodView, Reading, World, label_keys

T = TypeVar("T")

DAEMONSETS = Collection("apps", "v1", "daemonsets")
PODS = Collection("", "v1", "pods")
EVENTS = Collection("", "v1", "events")
CLUSTER_POLICIES = Collection("nvidia.com", "v1", "clusterpolicies")
SERVICE_VERSIONS = Collection("operators.coreos.com", "v1alpha1", "clusterserviceversions")

OUTAGE_SECONDS = 60.0
"""
A mirror that was fine is asked again every half minute at most, so what lasts longer is no passing outage.
"""

RESOURCES = tuple(
    collection.plural for collection in (CONFIGS, DAEMONSETS, PODS, NODES, EVENTS, CLUSTER_POLICIES, SERVICE_VERSIONS)
)
"""
All that is mirrored.
"""

_OUR_DAEMONSETS = frozenset(map(identifiers.daemonset_name, identifiers.COMPONENTS))
_OUR_PODS = f"{identifiers.MANAGED_BY_LABEL}={identifiers.MANAGED_BY}"
# OLM copies each of these large objects into every namespace.
_ORIGINALS = "!olm.copiedFrom"


class ForeignSource(Generic[T]):
    """
    A mirror of what belongs to somebody else.

    Args:
        changed: Called as by a mirror.
        clock: The loop's time.
        mirror: Makes the mirror, given what it is to call.
    """

    def __init__(
        self,
        mirror: Callable[[Callable[[], None]], Mirror[T]],
        *,
        changed: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self.mirror = mirror(self._note)
        self._changed = changed
        self._clock = clock
        self._failing_since: float | None = None

    def reading(self) -> Reading[T] | None:
        """
        Tell what is known; None while nothing is, or whether there is anything.
        """
        mirror = self.mirror
        if mirror.problem and (not mirror.is_synced or self._outage_seconds() >= OUTAGE_SECONDS):
            return Reading(tuple(mirror.items.values()), mirror.problem)
        if mirror.is_synced or mirror.is_absent:
            return Reading(tuple(mirror.items.values()))
        return None

    def patience_seconds(self) -> float | None:
        """
        Say how long to wait until an outage is to be told; None while there is none to wait for.
        """
        if not (self.mirror.problem and self.mirror.is_synced):
            return None
        left = OUTAGE_SECONDS - self._outage_seconds()
        return left if left > 0 else None

    def _outage_seconds(self) -> float:
        return 0.0 if self._failing_since is None else self._clock() - self._failing_since

    def _note(self) -> None:
        if not self.mirror.problem:
            self._failing_since = None
        elif self._failing_since is None:
            self._failing_since = self._clock()
        self._changed()


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
        self._options = options
        self._configs = Mirror(
            transport,
            CONFIGS,
            select=ConfigReading.from_manifest,
            changed=changed,
            field_selector=f"metadata.name={resource.NAME}",
        )
        namespace = options.namespace
        self._daemonsets = Mirror(transport, DAEMONSETS.within(namespace), select=_our_daemonset, changed=changed)
        self._pods = Mirror(
            transport,
            PODS.within(namespace),
            select=PodView.from_manifest,
            changed=changed,
            label_selector=_OUR_PODS,
        )
        self._failed_creates = Mirror(
            transport,
            EVENTS.within(namespace),
            select=FailedCreate.from_manifest,
            changed=changed,
            field_selector="involvedObject.kind=DaemonSet,reason=FailedCreate",
        )
        self._nodes = NodeSource(transport, changed=changed)
        self._policies = ForeignSource(
            lambda note: Mirror(transport, CLUSTER_POLICIES, select=ClusterPolicy.from_manifest, changed=note),
            changed=changed,
            clock=clock,
        )
        self._versions = ForeignSource(
            lambda note: Mirror(
                transport,
                SERVICE_VERSIONS,
                select=ServiceVersion.from_manifest,
                changed=note,
                label_selector=_ORIGINALS,
            ),
            changed=changed,
            clock=clock,
        )

    async def run(self) -> None:
        """
        Keep all of it up to date, for ever.
        """
        mirrors = (
            self._configs,
            self._daemonsets,
            self._pods,
            self._failed_creates,
            self._policies.mirror,
            self._versions.mirror,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(self._nodes.run(), name="nodes")
            for mirror in mirrors:
                group.create_task(mirror.run(), name=f"mirror {mirror.collection}")

    def config(self) -> ConfigReading | None:
        """
        Give the resource as it was last read; None while there is none.
        """
        return self._configs.items.get(Key("", resource.NAME))

    def world(self, config: ConfigReading | None, *, now: str) -> World | None:
        """
        Put together what is known; None while not everything that a plan needs was read.

        Args:
            config: The resource, perhaps newer than the mirror's.
            now: The time in RFC 3339.
        """
        if self._configs.is_synced:
            self._nodes.want(label_keys({} if config is None else config.config.spec.node_selector))
        nodes, policies, versions = self._nodes.mirror, self._policies.reading(), self._versions.reading()
        are_synced = all(source.is_synced for source in self._iter_needed())
        if nodes is None or policies is None or versions is None or not are_synced:
            return None
        return World(
            config=None if config is None else config.config,
            options=self._options,
            now=now,
            config_problem="" if config is None else config.problem,
            nodes=tuple(nodes.items.values()),
            pods=tuple(self._pods.items.values()),
            daemonsets=tuple(self._daemonsets.items.values()),
            cluster_policies=policies,
            service_versions=versions,
            failed_creates=tuple(self._failed_creates.items.values()),
        )

    def patience_seconds(self) -> float | None:
        """
        Say after how long the world is another although nothing changed; None if it is not going to be.
        """
        waits = [source.patience_seconds() for source in (self._policies, self._versions)]
        return min((wait for wait in waits if wait is not None), default=None)

    def complaint(self) -> str:
        """
        Say what keeps the world from being known, or known to be up to date; empty when nothing does.
        """
        if self._configs.is_absent:
            return f"there is no CustomResourceDefinition of {CONFIGS}"
        waiting = [str(source.collection) for source in self._iter_needed() if not source.is_synced]
        waiting += [] if self._nodes.mirror else [str(NODES)]
        return self.problem() or (f"waiting for {', '.join(waiting)}" if waiting else "")

    def problem(self) -> str:
        """
        Say what cannot be read although it is there; empty when nothing is.
        """
        return "; ".join(source.problem for source in self._iter_needed() if source.problem)

    def iter_states(self) -> Iterator[SourceState]:
        """
        Yield the state of each collection.
        """
        known = {mirror.collection.plural: mirror for mirror in self._iter_all()}
        for name in RESOURCES:
            mirror = known.get(name)
            yield SourceState(name, mirror is not None and mirror.is_synced, mirror.problem if mirror else "")

    def _iter_needed(self) -> Iterator[Mirror[Any]]:
        yield from (self._configs, self._daemonsets, self._pods)
        if self._nodes.mirror is not None:
            yield self._nodes.mirror

    def _iter_all(self) -> Iterator[Mirror[Any]]:
        yield from self._iter_needed()
        yield from (self._failed_creates, self._policies.mirror, self._versions.mirror)


def _our_daemonset(manifest: Any) -> DaemonSetView | None:  # noqa: ANN401 - what JSON holds
    view = DaemonSetView.from_manifest(manifest)
    return view if view.name in _OUR_DAEMONSETS else None
