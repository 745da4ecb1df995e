"""The families on the page."""

from __future__ import annotations

import math

from mpsd.metrics import PREFIX, Metrics
from mpsd.truth import Problem
from prometheus_client import CollectorRegistry


class TestMetrics:
    def test_failures_are_there_at_zero(self) -> None:
        """Every problem has a sample before it happens."""
        registry = CollectorRegistry()
        Metrics(registry)

        found = {
            problem: registry.get_sample_value(f"{PREFIX}_check_failures_total", {"problem": problem.value})
            for problem in Problem
        }
        assert dict.fromkeys(Problem, 0.0) == found

    def test_restarts_are_the_supervisors_own_count(self) -> None:
        """The page reads what the supervisor counts, when it is asked for."""
        registry, counts = CollectorRegistry(), {"crashed": 0, "requested": 0}
        Metrics(registry).restarts.read_from(lambda: counts)
        counts["crashed"] = 2

        assert 2.0 == registry.get_sample_value(f"{PREFIX}_restarts_total", {"reason": "crashed"})
        assert 0.0 == registry.get_sample_value(f"{PREFIX}_restarts_total", {"reason": "requested"})

    def test_what_is_not_known_is_no_number(self) -> None:
        """A gauge without a value does not claim zero."""
        registry = CollectorRegistry()
        metrics = Metrics(registry)
        metrics.driver_major.read_from(lambda: 615)
        metrics.label_age.read_from(lambda: None)

        assert 615.0 == registry.get_sample_value(f"{PREFIX}_driver_major")
        assert math.isnan(registry.get_sample_value(f"{PREFIX}_label_age_seconds") or 0.0)
