"""
Every metric family of mpsd, with its labels created at zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from mpsd.truth import Problem

PREFIX = "gpu_fractioning_mpsd"
# An answer takes milliseconds, and the default deadline is 3 s.
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 10.0)


class Metrics:
    """
    The families on a registry of their own.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self.command_seconds = Histogram(
            f"{PREFIX}_command_seconds",
            "Time that the control daemon took to answer the command of a check.",
            registry=registry,
            buckets=SECONDS,
        )
        failures = Counter(
            f"{PREFIX}_check_failures",
            "Checks of the control daemon that failed, by what they found.",
            ("problem",),
            registry=registry,
        )
        self.failures = {problem: failures.labels(problem.value) for problem in Problem}

    def sample(self, name: str, text: str, read: Callable[[], float | None]) -> None:
        """
        Add a gauge that is read when the page is; None reads as not a number.
        """

        def read_number() -> float:
            value = read()
            return float("nan") if value is None else value

        Gauge(f"{PREFIX}_{name}", text, registry=self._registry).set_function(read_number)

    def restarts(self, read: Callable[[], Mapping[str, int]]) -> None:
        """
        Add the counter of restarts by reason.
        """
        self._registry.register(_Restarts(read))


class _Restarts(Collector):
    """
    Reads the supervisor's own count, so that page, status and log never differ.
    """

    def __init__(self, read: Callable[[], Mapping[str, int]]) -> None:
        self._read = read

    def collect(self) -> Iterable[CounterMetricFamily]:
        """
        Give the family with a sample for each reason.
        """
        family = CounterMetricFamily(
            f"{PREFIX}_restarts", "Control daemons that ran and were replaced, by reason.", labels=("reason",)
        )
        for reason, count in self._read().items():
            family.add_metric((reason,), count)
        yield family
