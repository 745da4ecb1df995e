"""
Every metric family of the controller, with its labels created at zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from controller import identifiers
from controller.sources import RESOURCES, SourceState

PREFIX = "gpu_fractioning"
OWN_PREFIX = f"{PREFIX}_controller"
# A pass that has nothing to write takes milliseconds; one that marks thousands of nodes takes a minute.
SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0)


class Outcome(Enum):
    """
    How a pass ended.
    """

    DONE = "done"
    WAITING = "waiting"
    """
    Not everything was read yet.
    """

    FAILED = "failed"
    """
    At least one write failed.
    """

    STOPPED = "stopped"
    """
    Its writes had to stop, as another may lead.
    """

    CRASHED = "crashed"
    """
    A fault of ours ended it.
    """


class WriteKind(Enum):
    """
    What a write is about.
    """

    FINALIZER = "finalizer"
    DAEMON_SET = "daemon_set"
    STATUS = "status"
    NODE_CONDITION = "node_condition"
    NODE_LABEL = "node_label"


class WriteResult(Enum):
    """
    What became of a write.
    """

    OK = "ok"
    ERROR = "error"


class Metrics:
    """
    The families on a registry of their own.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.ready_nodes = _by_daemon("daemon_ready_nodes", "Nodes on which the daemon's pod is ready.", registry)
        self.desired_nodes = _by_daemon("daemon_desired_nodes", "Nodes that should run the daemon.", registry)
        self.nodes_ready = Gauge(f"{PREFIX}_nodes_ready", "Nodes whose daemons are all ready.", registry=registry)
        self.nodes_degraded = Gauge(
            f"{PREFIX}_nodes_degraded", "Nodes with a daemon that is missing or not ready.", registry=registry
        )
        passes = Counter(
            f"{OWN_PREFIX}_reconciles", "Passes over the world, by how they ended.", ("result",), registry=registry
        )
        self.passes = {outcome: passes.labels(outcome.value) for outcome in Outcome}
        self.pass_seconds = Histogram(
            f"{OWN_PREFIX}_reconcile_seconds", "Time that a pass took.", registry=registry, buckets=SECONDS
        )
        writes = Counter(
            f"{OWN_PREFIX}_api_writes",
            "Writes to the API server, by what they are about and what became of them.",
            ("kind", "result"),
            registry=registry,
        )
        self.writes = {
            (kind, result): writes.labels(kind.value, result.value) for kind in WriteKind for result in WriteResult
        }
        self.leader = Sampled("leader", "1 while this replica leads.", registry)
        self.dropped_events = Sampled("dropped_events", "Events that were never told.", registry)
        self.mirrors = Mirrors()
        registry.register(self.mirrors)


class Sampled:
    """
    A gauge that is read when the page is.
    """

    def __init__(self, name: str, text: str, registry: CollectorRegistry) -> None:
        self._gauge = Gauge(f"{OWN_PREFIX}_{name}", text, registry=registry)

    def read_from(self, read: Callable[[], float]) -> None:
        """
        Say where its value comes from.
        """
        self._gauge.set_function(read)


class Mirrors(Collector):
    """
    How far each mirrored collection can be relied on, as the mirrors themselves say.
    """

    def __init__(self) -> None:
        self._read: Callable[[], Iterable[SourceState]] = lambda: [SourceState(name, False, "") for name in RESOURCES]

    def read_from(self, read: Callable[[], Iterable[SourceState]]) -> None:
        """
        Say where the states come from.
        """
        self._read = read

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """
        Give a sample of each family for each collection.
        """
        synced = GaugeMetricFamily(
            f"{OWN_PREFIX}_mirror_synced", "1 once the collection was read whole.", labels=("resource",)
        )
        stale = GaugeMetricFamily(
            f"{OWN_PREFIX}_mirror_stale", "1 while the collection cannot be followed.", labels=("resource",)
        )
        for state in self._read():
            synced.add_metric((state.resource,), state.is_synced)
            stale.add_metric((state.resource,), bool(state.problem))
        yield from (synced, stale)


def _by_daemon(name: str, text: str, registry: CollectorRegistry) -> dict[str, Gauge]:
    family = Gauge(f"{PREFIX}_{name}", text, ("daemon",), registry=registry)
    return {component: family.labels(component) for component in identifiers.COMPONENTS}
