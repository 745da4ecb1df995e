"""Every family is on the page from the start."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fractiond import metrics as module
from fractiond.audit import Kind
from fractiond.metrics import Metrics, Outcome, StopResult
from prometheus_client import CollectorRegistry, generate_latest

Sample = Callable[..., float | None]

FAMILIES = {
    "containers": "counter",
    "handler_seconds": "histogram",
    "handler_failures": "counter",
    "violations": "counter",
    "stops": "counter",
    "unreported_containers": "counter",
    "runtime_connected": "gauge",
    "connections": "counter",
    "delayed_synchronizations": "counter",
    "record_errors": "counter",
    "records_dropped": "counter",
    "record_queue_depth": "gauge",
    "pending_stops": "gauge",
}


class TestFamilies:
    @pytest.mark.usefixtures("metrics")
    def test_each_is_there_with_its_kind(self, registry: CollectorRegistry) -> None:
        """A family that is renamed or lost breaks an alert, so the list is pinned."""
        assert {f"gpu_fractioning_fractiond_{name}": kind for name, kind in FAMILIES.items()} == {
            family.name: family.type for family in registry.collect()
        }

    @pytest.mark.usefixtures("metrics")
    def test_every_label_value_exists_at_zero(self, sample: Sample) -> None:
        """A rate over a counter that was never touched is zero rather than absent."""
        zero = [sample("containers_total", outcome=each.value) for each in Outcome]
        zero += [sample("violations_total", kind=each.value) for each in Kind]
        zero += [sample("stops_total", result=each.value) for each in StopResult]
        zero += [sample("handler_failures_total", method=each) for each in (*module.METHODS, "other")]
        zero += [sample("handler_seconds_count", method=each) for each in module.METHODS]

        assert [0.0] * len(zero) == zero

    @pytest.mark.usefixtures("metrics")
    def test_the_page_renders(self, registry: CollectorRegistry) -> None:
        """Help and units survive the exposition format."""
        page = generate_latest(registry).decode()

        assert all(f"# HELP gpu_fractioning_fractiond_{name}" in page for name in FAMILIES)

    def test_two_registries_do_not_meet(self, metrics: Metrics) -> None:
        """No family is global, so a second fractiond in one process has counters of its own."""
        other = CollectorRegistry()
        Metrics(other).connections.inc()

        assert 1.0 == other.get_sample_value("gpu_fractioning_fractiond_connections_total")
        assert 0.0 == metrics.connections._value.get()


class TestSampledGauges:
    def test_a_sampled_gauge_is_read_when_the_page_is(self, metrics: Metrics, sample: Sample) -> None:
        """A depth on the page is that of the moment of the scrape."""
        depth = [3]
        metrics.record_queue_depth.set_function(lambda: depth[0])
        before = sample("record_queue_depth")
        depth[0] = 7

        assert (3.0, 7.0) == (before, sample("record_queue_depth"))


class TestFailures:
    @pytest.mark.parametrize(
        ("request_name", "label"),
        [
            pytest.param("CreateContainer", "create", id="creation"),
            pytest.param("ValidateContainerAdjustment", "validate", id="validation"),
            pytest.param("StartContainer", "start", id="start"),
            pytest.param("RemoveContainer", "remove", id="removal"),
            pytest.param("Synchronize", "synchronize", id="synchronise"),
            pytest.param("StateChange", "other", id="any change, as older runtimes tell it"),
            pytest.param("Configure", "other", id="registration"),
        ],
    )
    def test_a_fault_is_counted_by_what_was_asked(
        self, metrics: Metrics, sample: Sample, request_name: str, label: str
    ) -> None:
        """The names of the wire become the page's, and an unknown one is no further fault."""
        metrics.failed(request_name)

        assert 1.0 == sample("handler_failures_total", method=label)
