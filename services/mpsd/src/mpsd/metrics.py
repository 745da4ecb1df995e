"""
Every metric family of mpsd, with its labels created at zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from mpsd.causes import Cause
from mpsd.truth import Problem

PREFIX = "gpu_fractioning_mpsd"
# An answer takes milliseconds, and the default deadline is 3 s.
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 10.0)


class Metrics:
    """
    The families on a registry of their own.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
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
        self.restarts = Restarts()
        registry.register(self.restarts)
        self.daemon_up = Sampled("daemon_up", "1 while the control daemon answers.", registry)
        self.ready = Sampled("ready", "1 while mpsd calls itself ready.", registry)
        self.daemon_uptime = Sampled("daemon_uptime_seconds", "Age of the control daemon.", registry)
        self.clients = Sampled("clients", "Clients attached at the last check.", registry)
        self.driver_major = Sampled("driver_major", "The driver's major version.", registry)
        self.label_age = Sampled("label_age_seconds", "Time since the node's label was written.", registry)


class Sampled:
    """
    A gauge that is read when the page is; what is not known is not a number.
    """

    def __init__(self, name: str, text: str, registry: CollectorRegistry) -> None:
        self._gauge = Gauge(f"{PREFIX}_{name}", text, registry=registry)
        self.read_from(lambda: None)

    def read_from(self, read: Callable[[], float | None]) -> None:
        """
        Say where its value comes from.
        """

        def read_number() -> float:
            value = read()
            return float("nan") if value is None else value

        self._gauge.set_function(read_number)


class Restarts(Collector):
    """
    Reads the supervisor's own count, so that page, status and log never differ.
    """

    def __init__(self) -> None:
        self._read: Callable[[], Mapping[str, int]] = lambda: {cause.value: 0 for cause in Cause}

    def read_from(self, read: Callable[[], Mapping[str, int]]) -> None:
        """
        Say where the counts come from.
        """
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
