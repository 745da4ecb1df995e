from __future__ import annotations

import pytest
from controller.metrics import Metrics
from controller.sources import SourceState
from prometheus_client import CollectorRegistry


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


class TestFamilies:
    """
    What the page shows before anything happened.
    """

    @pytest.mark.parametrize(
        ("name", "labels"),
        [
            pytest.param("gpu_fractioning_daemon_ready_nodes", {"daemon": "fractiond"}, id="ready of fractiond"),
            pytest.param("gpu_fractioning_daemon_ready_nodes", {"daemon": "mpsd"}, id="ready of mpsd"),
            pytest.param("gpu_fractioning_daemon_desired_nodes", {"daemon": "fractiond"}, id="desired of fractiond"),
            pytest.param("gpu_fractioning_daemon_desired_nodes", {"daemon": "mpsd"}, id="desired of mpsd"),
            pytest.param("gpu_fractioning_nodes_ready", {}, id="ready nodes"),
            pytest.param("gpu_fractioning_nodes_degraded", {}, id="degraded nodes"),
            pytest.param("gpu_fractioning_controller_reconciles_total", {"result": "failed"}, id="passes"),
            pytest.param("gpu_fractioning_controller_reconcile_seconds_count", {}, id="time of a pass"),
            pytest.param(
                "gpu_fractioning_controller_api_writes_total", {"kind": "status", "result": "ok"}, id="writes"
            ),
            pytest.param("gpu_fractioning_controller_leader", {}, id="leader"),
            pytest.param("gpu_fractioning_controller_dropped_events", {}, id="events"),
        ],
    )
    def test_zero(self, registry: CollectorRegistry, name: str, labels: dict[str, str]) -> None:
        """
        Every family is there with every label at zero.
        """
        Metrics(registry)

        assert registry.get_sample_value(name, labels) == 0.0

    def test_mirrors(self, registry: CollectorRegistry) -> None:
        """
        The mirrors are asked when the page is read.
        """
        Metrics(registry).mirrors.read_from(lambda: [SourceState("nodes", is_synced=True, problem="403")])
        value = registry.get_sample_value

        assert (1.0, 1.0) == (
            value("gpu_fractioning_controller_mirror_synced", {"resource": "nodes"}),
            value("gpu_fractioning_controller_mirror_stale", {"resource": "nodes"}),
        )

    def test_sampled(self, registry: CollectorRegistry) -> None:
        """
        What is sampled is read when the page is.
        """
        Metrics(registry).leader.read_from(lambda: True)

        assert registry.get_sample_value("gpu_fractioning_controller_leader") == 1.0
