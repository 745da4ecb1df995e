"""
metricsd's own families: what its cycles found and cost, and whether NVML answers.

They are few and change between cycles, so the library keeps and writes them, at every scrape.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from fractioning_core.nvml.samples import CallTime
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from metricsd import families
from metricsd.family import Family
from metricsd.health import Outcome
from metricsd.snapshot import Snapshot, Unattributed

# A cycle of a full node takes tens of milliseconds; a call of NVML is overdue at 10 s.
CYCLE_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 10.0)
# Few, for there is a histogram for every function.
CALL_SECONDS = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0)
# The reasons for which fractiond or we are to be looked at; the others are no fault.
FAILURES = (Unattributed.NO_RECORD, Unattributed.VANISHED)


class Vitals(Protocol):
    """
    Who knows how the cycles fare; `health.Health` does.
    """

    @property
    def is_nvml_up(self) -> bool:
        """
        Whether NVML answers.
        """

    def snapshot_age_seconds(self) -> float | None:
        """
        Give the age of what the page shows.
        """

    def is_stale(self) -> bool | None:
        """
        Tell whether that is too old.
        """


class Metrics:
    """
    The families on a registry of their own, with their labels created at zero as far as they are known.
    """

    def __init__(self, registry: CollectorRegistry, *, vitals: Vitals, collectors: Iterable[str]) -> None:
        def counter(family: Family) -> Counter:
            return Counter(family.name, family.help, family.labels, registry=registry)

        def histogram(family: Family, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(family.name, family.help, family.labels, registry=registry, buckets=buckets)

        registry.register(_Sampled(vitals))
        failures = counter(families.ATTRIBUTION_FAILURES)
        self._attribution_failures = {reason: failures.labels(reason.value) for reason in FAILURES}
        self.cycle_seconds = histogram(families.CYCLE_SECONDS, CYCLE_SECONDS)
        cycles = counter(families.CYCLES)
        self.cycles = {outcome: cycles.labels(outcome.value) for outcome in Outcome}
        self._call_seconds = histogram(families.NVML_CALL_SECONDS, CALL_SECONDS)
        self._seconds_of: dict[str, Histogram] = {}
        self._call_failures = counter(families.NVML_CALL_FAILURES)
        names = tuple(collectors)
        seconds = families.COLLECTOR_SECONDS
        gauge = Gauge(seconds.name, seconds.help, seconds.labels, registry=registry)
        self.collector_seconds = {name: gauge.labels(name) for name in names}
        broken = counter(families.COLLECTOR_FAILURES)
        self.collector_failures = {name: broken.labels(name) for name in names}

    def found(self, snapshot: Snapshot) -> None:
        """
        Count what a cycle could not attribute.
        """
        for reason, failures in self._attribution_failures.items():
            failures.inc(snapshot.processes_unattributed[reason])

    def called(self, calls: Iterable[CallTime]) -> None:
        """
        Count calls of NVML.
        """
        for call in calls:
            # Looking a histogram up in the library takes as long as the counting, and there are hundreds of calls.
            seconds = self._seconds_of.get(call.function)
            if seconds is None:
                seconds = self._seconds_of[call.function] = self._call_seconds.labels(call.function)
            seconds.observe(call.seconds)
            if call.error:
                self._call_failures.labels(call.function, call.error).inc()


class _Sampled(Collector):
    """
    Reads the vitals when the page is read; what is not known is not there.
    """

    def __init__(self, vitals: Vitals) -> None:
        self._vitals = vitals

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """
        Give them.
        """
        readings: tuple[tuple[Family, float | None], ...] = (
            (families.NVML_UP, self._vitals.is_nvml_up),
            (families.SNAPSHOT_AGE, self._vitals.snapshot_age_seconds()),
            (families.SNAPSHOT_STALE, self._vitals.is_stale()),
        )
        for family, value in readings:
            if value is not None:
                yield GaugeMetricFamily(family.name, family.help, value=float(value))
