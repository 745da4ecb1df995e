"""
What metricsd can be told, by flag or environment.

Some values stand for others, as in the program that this one replaces: an empty name or path is the default one, an
interval of nothing is the default, and one below two seconds is two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import attrs
from fractioning_core.service import settings
from fractioning_core.service.addresses import ALL_ADDRESSES, Address

from metricsd import families, family
from metricsd.families import PodNames

PAGE = "The page"
SAMPLING = "Sampling"
OPERATION = "Operation"

DEFAULT_PATH = "/metrics"
DEFAULT_INTERVAL_SECONDS = 5.0
# A cycle of a full node takes tens of milliseconds, and NVML's utilisation samples come six a second.
LEAST_INTERVAL_SECONDS = 2.0


def path_meant(text: str) -> str:
    """
    Give the path that a text stands for.
    """
    path = text.strip() or DEFAULT_PATH
    return path if path.startswith("/") else f"/{path}"


def interval_meant(seconds: float) -> float:
    """
    Give the interval that a duration stands for.
    """
    return max(LEAST_INTERVAL_SECONDS, seconds) if seconds > 0 else DEFAULT_INTERVAL_SECONDS


def _name(flag: str, *, default: str, of: str) -> str:
    def meant(text: str) -> str:
        return text.strip() or default

    return settings.string(
        flag,
        env=flag.upper().replace("-", "_"),
        default=default,
        pattern=rf"\s*|{family.NAME}",
        accepted="letters, digits, _ and :, not beginning with a digit",
        group=PAGE,
        help=f"name of the family for {of}",
        normalize=meant,
    )


@attrs.frozen
class Settings:
    """
    The settings of one metricsd, valid as they stand.
    """

    metrics_enabled: bool = settings.boolean(
        "metrics-enabled",
        env="METRICS_ENABLED",
        default=True,
        group=PAGE,
        help="serve metrics; off ends the program at once, with 0",
    )
    """For a node whose pod has metricsd in it and wants no metrics."""

    metrics_address: Address = settings.address(  # noqa: RUF009 - declares the field
        "metrics-address",
        env="METRICS_ADDRESS",
        default=Address(ALL_ADDRESSES, 2112),
        group=PAGE,
        help="where to serve metrics, /readyz and /healthz; no host is all addresses",
    )
    """Nobody scrapes a metricsd that cannot listen, so it ends then."""

    metrics_path: str = settings.string(
        "metrics-path",
        env="METRICS_PATH",
        default=DEFAULT_PATH,
        pattern=r"[A-Za-z0-9/._~-]*|\s*",
        accepted="a path of letters, digits and / . _ ~ -",
        group=PAGE,
        help="path of the metrics; empty is the default, and a missing / in front is added",
        normalize=path_meant,
    )
    """It may be that of a health page, which is then not served."""

    memory_used_name: str = _name(
        "metric-name-gpu-memory-used-bytes", default=PodNames().memory_used, of="the memory that a pod uses"
    )
    """Empty is the default, of this and the next two."""

    sm_name: str = _name("metric-name-gpu-sm-utilization-percent", default=PodNames().sm, of="the SMs that a pod uses")
    """Of the whole GPU."""

    sm_normalized_name: str = _name(
        "metric-name-gpu-sm-utilization-percent-normalized",
        default=PodNames().sm_normalized,
        of="the same as a part of the pod's fraction",
    )
    """Of the fraction of the GPU that its memory is."""

    container_metrics: bool = settings.boolean(
        "container-metrics",
        env="CONTAINER_METRICS",
        default=True,
        group=PAGE,
        help="serve the families of containers: use, limits declared and in force, and the verdict",
    )
    """Off on nodes with so many containers that nine families of them are too much for Prometheus."""

    metrics_interval_seconds: float = settings.duration(
        "metrics-interval",
        env="METRICS_INTERVAL",
        default=DEFAULT_INTERVAL_SECONDS,
        group=SAMPLING,
        help="how often GPUs, records and limits are read; 0 is the default, below 2s is 2s",
        normalize=interval_meant,
    )
    """A scrape shows what the last cycle found, so it makes no sense to scrape more often."""

    sm_util_window_seconds: float = settings.duration(
        "sm-util-window",
        env="SM_UTIL_WINDOW",
        default=0.0,
        minimum=0.0,
        maximum=3600.0,
        group=SAMPLING,
        help="average SM use over so long; 0, or not above the interval, = off",
    )
    """Bounded, since each cycle of the window is kept for every pod."""

    map_dir: str = settings.path(
        "map-dir",
        env="MAP_DIR",
        default="/var/run/gpu-fractioning/map",
        group=OPERATION,
        help="directory of the container records that fractiond writes",
    )
    """The same as fractiond's."""

    proc_root: str = settings.path(
        "proc-root",
        env="PROC_ROOT",
        default="/proc",
        group=OPERATION,
        help="where the host's /proc is",
    )
    """The pod shares the host's PIDs; NVML tells of those."""

    cgroup_root: str = settings.path(
        "cgroup-root",
        default="/sys/fs/cgroup",
        group=OPERATION,
        help="where the host's cgroup v2 hierarchy is; limits in force are read by its directories",
    )
    """The host's, not the root of the pod's own cgroup namespace."""

    dev_root: str = settings.path(
        "dev-root",
        default="/dev",
        group=OPERATION,
        help="where the NVIDIA device nodes are",
    )
    """Looked at only while NVML fails, to tell a lost device permission from a broken driver."""

    log_level: str = settings.choice(
        "log-level",
        env="LOG_LEVEL",
        choices=("debug", "info", "warn", "error"),
        default="info",
        group=OPERATION,
        help="least level to log",
    )
    """Healthy cycles log nothing at any level."""

    @property
    def pod_names(self) -> PodNames:
        """
        What the three per-pod families are called.
        """
        return PodNames(self.memory_used_name, self.sm_name, self.sm_normalized_name)

    @classmethod
    def conflicts(cls, values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
        """
        Refuse a name that two families of the page would have.
        """
        names = {field: str(values[field]) for field in _NAME_FIELDS if field in values}
        counts = Counter(names.values())
        for field, name in names.items():
            if counts[name] > 1:
                yield field, f"{name} is given to {counts[name]} families; accepted: three different names"
            if (other := families.taken_by(name)) is not None:
                yield field, f"{name} belongs to the family {other.name}; accepted: a name that no other family has"


_NAME_FIELDS = ("memory_used_name", "sm_name", "sm_normalized_name")
