"""Every metric family of fractiond, with its labels created at zero."""

from __future__ import annotations

from enum import Enum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from fractiond.audit import Kind

PREFIX = "gpu_fractioning_fractiond"
# The runtime's requests, by their names on the wire; those of a runtime before NRI 0.12 have one name for many.
REQUESTS = {
    "CreateContainer": "create",
    "ValidateContainerAdjustment": "validate",
    "StartContainer": "start",
    "RemoveContainer": "remove",
    "Synchronize": "synchronize",
}
METHODS = tuple(REQUESTS.values())
OTHER = "other"
# An answer takes tenths of a millisecond, and the runtime gives up at 2 s.
SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 1.5, 2.0)


class Outcome(Enum):
    """What became of a container that the runtime asked about."""

    FENCED = "fenced"
    UNTOUCHED = "untouched"
    REFUSED = "refused"
    FAILED_OPEN = "failed_open"
    REJECTED_AT_VALIDATION = "rejected_at_validation"
    REJECTED_AT_START = "rejected_at_start"


class StopResult(Enum):
    """How the attempt to stop a container that slipped through ended."""

    STOPPED = "stopped"
    FAILED = "failed"
    DRY_RUN = "dry_run"


class Metrics:
    """The families on a registry of their own; fields that a hot path uses are resolved once."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"{PREFIX}_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"{PREFIX}_{name}", text, registry=registry)

        containers = counter("containers", "Containers the runtime asked about, by what became of them.", "outcome")
        self.outcomes = {outcome: containers.labels(outcome.value) for outcome in Outcome}
        seconds = Histogram(
            f"{PREFIX}_handler_seconds",
            "Time a handler takes to answer the runtime, in seconds.",
            ("method",),
            registry=registry,
            buckets=SECONDS,
        )
        self.seconds = {method: seconds.labels(method) for method in METHODS}
        failures = counter("handler_failures", "Requests answered with an error because of a fault of ours.", "method")
        self._failures = {method: failures.labels(method) for method in (*METHODS, OTHER)}
        violations = counter("violations", "Running containers found without what creation would inject.", "kind")
        self.violations = {kind: violations.labels(kind.value) for kind in Kind}
        stops = counter("stops", "Attempts to stop a container that slipped through, by result.", "result")
        self.stops = {result: stops.labels(result.value) for result in StopResult}
        self.unreported = counter("unreported_containers", "Containers known to CRI that NRI had not told of.")
        self.connected = gauge("runtime_connected", "1 while registered with the runtime and synchronised.")
        self.connections = counter("connections", "Connections made to the runtime.")
        self.delayed = counter("delayed_synchronizations", "Registrations that waited for the runtime over 2 s.")
        self.record_errors = counter("record_errors", "Attempts to write or remove a record that failed.")
        self.records_dropped = counter("records_dropped", "Records refused because too many were held.")
        self.record_queue_depth = gauge("record_queue_depth", "Records still to be written or removed.")
        self.pending_stops = gauge("pending_stops", "Containers that are to be stopped and still run.")

    def failed(self, request: str) -> None:
        """Count a fault of ours in answering a request, by its name on the wire."""
        self._failures[REQUESTS.get(request, OTHER)].inc()
