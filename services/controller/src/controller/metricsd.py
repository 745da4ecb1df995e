"""
The container of metricsd, beside fractiond.
"""

from __future__ import annotations

from fractioning_core import names
from fractioning_core.resource import MetricNames, MetricsAgent

from controller import daemonset, flags, identifiers, podparts
from controller.daemonset import Input, Manifest

MAP_VOLUME = "map-dir"
_NO_NAMES = MetricNames("", "", "")


def container(given: Input, agent: MetricsAgent) -> Manifest:
    """
    Make the container.
    """
    port = port_of(agent.address)
    return podparts.container(
        identifiers.METRICSD,
        given.options.metricsd,
        podparts.privileged(),
        args=_arguments(agent),
        env=[
            podparts.variable("NVIDIA_VISIBLE_DEVICES", "all"),
            podparts.variable("NVIDIA_DRIVER_CAPABILITIES", "utility"),
            *daemonset.fips_env(given.options),
        ],
        ports=[{"name": "metrics", "containerPort": port, "protocol": "TCP"}],
        readinessProbe=podparts.http_probe("/readyz", port, delay=5, period=10),
        livenessProbe=podparts.http_probe("/healthz", port, delay=15, period=20, failures=3),
        resources=podparts.resources("128Mi", "512Mi"),
        volumeMounts=[podparts.mount(MAP_VOLUME, names.MAP_DIR, read_only=True), *agent.volume_mounts],
    )


def pod_annotations(agent: MetricsAgent, *, is_nri: bool) -> dict[str, str]:
    """
    Give the annotations of a pod with metricsd: where to scrape it, and its way to the GPUs.
    """
    path = agent.path or identifiers.METRICS_PATH
    return {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(port_of(agent.address)),
        # metricsd adds a missing slash as well.
        "prometheus.io/path": path if path.startswith("/") else f"/{path}",
        **daemonset.cdi_annotations(identifiers.METRICSD, is_nri=is_nri),
    }


def port_of(address: str) -> int:
    """
    Take the port from where metricsd listens; the default one where that names none.
    """
    _, colon, port = address.rpartition(":")
    is_number = colon and port.isascii() and port.isdecimal() and len(port) <= len("65535")
    return int(port) if is_number and 1 <= int(port) <= 65535 else identifiers.METRICS_PORT


def _arguments(agent: MetricsAgent) -> list[str]:
    chosen = agent.metric_names or _NO_NAMES
    return [
        *flags.flag("log-level", agent.log_level),
        *flags.flag("metrics-address", agent.address),
        *flags.flag("metrics-path", agent.path),
        *flags.flag("metric-name-gpu-memory-used-bytes", chosen.gpu_memory_used_bytes),
        *flags.flag("metric-name-gpu-sm-utilization-percent", chosen.gpu_sm_utilization_percent),
        *flags.flag("metric-name-gpu-sm-utilization-percent-normalized", chosen.gpu_sm_utilization_percent_normalized),
    ]
