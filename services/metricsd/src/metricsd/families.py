"""
Every family on the page of metricsd: one list, from which page, README and METRICS.md are made.

Three names are settings, for dashboards that know them under other ones.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from metricsd.family import Family

PREFIX = "gpu_fractioning"
OWN = f"{PREFIX}_metricsd"

GPU = ("gpu_uuid", "gpu")
POD = ("namespace", "pod", "pod_uuid", *GPU)
CONTAINER = ("namespace", "pod", "pod_uuid", "container", *GPU)


@attrs.frozen
class PodNames:
    """
    What the three per-pod families are called.
    """

    memory_used: str = f"{PREFIX}_gpu_memory_used_bytes"
    sm: str = f"{PREFIX}_gpu_sm_utilization_percent"
    sm_normalized: str = f"{PREFIX}_gpu_sm_utilization_percent_normalized"


@attrs.frozen
class PodFamilies:
    """
    What a pod uses of a GPU.
    """

    memory_used: Family
    sm: Family
    sm_normalized: Family

    @classmethod
    def named(cls, names: PodNames) -> PodFamilies:
        """
        Give them under their names.
        """
        return cls(
            memory_used=Family(
                names.memory_used,
                "GPU memory used by the processes of a pod on a GPU, as NVML counts it; absent where it does not.",
                labels=POD,
                unit="bytes",
            ),
            sm=Family(
                names.sm,
                "SM use of a pod, of the whole GPU; at most 100, since processes that share SMs overlap; absent where"
                " it could not be read.",
                labels=POD,
                unit="percent",
            ),
            sm_normalized=Family(
                names.sm_normalized,
                "SM use of a pod, of the fraction of the GPU that its memory limit is; at most 100; absent where it"
                " could not be read.",
                labels=POD,
                unit="percent",
                advice="Equals the plain figure where limit or GPU size are not known.",
            ),
        )

    def __iter__(self) -> Iterator[Family]:
        return iter((self.memory_used, self.sm, self.sm_normalized))


_MEMORY = f"{PREFIX}_container_gpu_memory"

CONTAINER_USED = Family(
    f"{_MEMORY}_used_bytes",
    "GPU memory used by the processes of a container on a GPU, as NVML counts it; absent where it does not.",
    labels=CONTAINER,
    unit="bytes",
)
CONTAINER_REQUEST = Family(
    f"{_MEMORY}_request_bytes", "GPU memory that the container's pod requested for it.", labels=CONTAINER, unit="bytes"
)
CONTAINER_LIMIT = Family(
    f"{_MEMORY}_limit_bytes", "GPU memory limit that the container's pod declared.", labels=CONTAINER, unit="bytes"
)
CONTAINER_SOFT_LIMIT = Family(
    f"{_MEMORY}_effective_soft_limit_bytes",
    "Soft limit in force, as the driver tells it; absent where it does not.",
    labels=CONTAINER,
    unit="bytes",
)
CONTAINER_HARD_LIMIT = Family(
    f"{_MEMORY}_effective_hard_limit_bytes",
    "Hard limit in force, as the driver tells it; absent where it does not, and where none is set.",
    labels=CONTAINER,
    unit="bytes",
)
CONTAINER_ACCOUNTED = Family(
    f"{_MEMORY}_accounted_bytes",
    "GPU memory that the driver counts against the limits of the container; absent where it does not tell.",
    labels=CONTAINER,
    unit="bytes",
    advice="Memory that CUDA manages (`cudaMallocManaged`) is not in it.",
)
CONTAINER_ENFORCED = Family(
    f"{_MEMORY}_limit_enforced",
    "1 while the limits in force were read and are the declared ones, else 0; absent once the container has ended.",
    labels=CONTAINER,
    advice=f"At 0, see `{_MEMORY}_limit_enforcement_info` for the reason.",
)
CONTAINER_PRESSURE = Family(
    f"{_MEMORY}_pressure_ratio",
    "Accounted memory as a part of the hard limit in force; at 1 the next allocation fails.",
    labels=CONTAINER,
    unit="ratio",
    advice="Above 0.95 for minutes: raise the limit before the container runs out of memory.",
)
CONTAINER_ENFORCEMENT = Family(
    f"{_MEMORY}_limit_enforcement_info",
    "Always 1; the label reason says whether the limit of the container is in force, and if not, why.",
    labels=(*CONTAINER, "reason"),
    advice="See the table of reasons in the README.",
)

CONTAINER_FAMILIES = (
    CONTAINER_USED,
    CONTAINER_REQUEST,
    CONTAINER_LIMIT,
    CONTAINER_SOFT_LIMIT,
    CONTAINER_HARD_LIMIT,
    CONTAINER_ACCOUNTED,
    CONTAINER_ENFORCED,
    CONTAINER_PRESSURE,
    CONTAINER_ENFORCEMENT,
)

GPU_UP = Family(
    f"{PREFIX}_gpu_up",
    "1 while a GPU tells who uses it, else 0; then no use is shown of it. Every GPU that was ever met is there.",
    labels=GPU,
    advice="At 0, metricsd's log has the error; look for XID messages of that GPU in the kernel's log. One that was"
    " taken out on purpose is forgotten when metricsd is started again.",
)
GPU_TOTAL = Family(
    f"{PREFIX}_gpu_memory_total_bytes",
    "Memory of a GPU; absent where NVML does not tell, as on GPUs that share the host's memory.",
    labels=GPU,
    unit="bytes",
)
GPU_SIZE_KNOWN = Family(
    f"{PREFIX}_gpu_memory_size_known",
    "1 where NVML tells how much memory a GPU has, else 0.",
    labels=GPU,
    advice="At 0 nothing can be a fraction of that GPU: normalised SM use equals the plain figure.",
)
DRIVER = Family(
    f"{PREFIX}_driver_info", "Always 1; the label version is the driver's, in its own words.", labels=("version",)
)

GPU_FAMILIES = (GPU_UP, GPU_TOTAL, GPU_SIZE_KNOWN, DRIVER)

PROCESSES_SEEN = Family(f"{OWN}_processes_seen", "Processes on the node's GPUs at the last cycle.")
PROCESSES_ATTRIBUTED = Family(f"{OWN}_processes_attributed", "Processes that belong to a container with a record.")
PROCESSES_UNATTRIBUTED = Family(
    f"{OWN}_processes_unattributed",
    "Processes that belong to none, by reason: host (in no container), unannotated (in a container that is not"
    " fractional), no_record (in one that has a fractional one's variable NVIDIA_GPU_MEMORY_LIMIT and no record),"
    " vanished (ended during the cycle).",
    labels=("reason",),
    advice="no_record for more than a minute: see whether fractiond runs and can write its record directory, or whether"
    " the pod sets the variable itself.",
)
RECORDS = Family(f"{OWN}_records", "Records of fractional containers on this node.")
RECORDS_UNREADABLE = Family(
    f"{OWN}_records_unreadable",
    "Files in the record directory that look like records and cannot be read as one.",
    advice="The log names each of them once.",
)
CONTAINERS_LEFT_OUT = Family(
    f"{OWN}_containers_left_out", "Containers without families of their own, because there are too many of them."
)
GPUS_LOST = Family(
    f"{OWN}_gpus_lost",
    "GPUs that were met before and did not tell at the last cycle who uses them.",
    advice=f"`{PREFIX}_gpu_up` names them.",
)

FOUND_FAMILIES = (
    PROCESSES_SEEN,
    PROCESSES_ATTRIBUTED,
    PROCESSES_UNATTRIBUTED,
    RECORDS,
    RECORDS_UNREADABLE,
    CONTAINERS_LEFT_OUT,
    GPUS_LOST,
)

NVML_UP = Family(
    f"{PREFIX}_nvml_up",
    "1 while NVML answers. While it answers with errors, the page has no figures of pods, containers and GPUs.",
    advice="`/readyz` has the reason. If it stays 0 while `nvidia-smi` works on the node, re-create the container.",
)
SNAPSHOT_AGE = Family(
    f"{OWN}_snapshot_age_seconds", "Age of what the page shows; absent while it shows nothing.", unit="seconds"
)
SNAPSHOT_STALE = Family(
    f"{OWN}_snapshot_stale",
    "1 while what the page shows is older than two intervals; absent while it shows nothing.",
    advice="`/readyz` has the reason.",
)
ATTRIBUTION_FAILURES = Family(
    f"{OWN}_attribution_failures_total",
    "Processes that should have been attributed and could not be, counted at every cycle, by reason.",
    type="counter",
    labels=("reason",),
    advice="See the processes that are unattributed now.",
)
CYCLE_SECONDS = Family(
    f"{OWN}_cycle_seconds",
    "Time that a cycle took from the first reading to the page.",
    type="histogram",
    unit="seconds",
)
CYCLES = Family(f"{OWN}_cycles_total", "Cycles, by how they ended.", type="counter", labels=("outcome",))
NVML_CALL_SECONDS = Family(
    f"{OWN}_nvml_call_seconds",
    "Time that calls of NVML took, by function.",
    type="histogram",
    labels=("function",),
    unit="seconds",
)
NVML_CALL_FAILURES = Family(
    f"{OWN}_nvml_call_failures_total",
    "Calls of NVML that returned an error, by function and error.",
    type="counter",
    labels=("function", "error"),
)
COLLECTOR_SECONDS = Family(
    f"{OWN}_collector_seconds",
    "Time that a part of the page took to make at the last cycle.",
    labels=("collector",),
    unit="seconds",
)
COLLECTOR_FAILURES = Family(
    f"{OWN}_collector_failures_total",
    "Attempts to make a part of the page that failed; the page goes without that part.",
    type="counter",
    labels=("collector",),
    advice="A fault of metricsd: report it, with the traceback in its log.",
)

OWN_FAMILIES = (
    NVML_UP,
    SNAPSHOT_AGE,
    SNAPSHOT_STALE,
    ATTRIBUTION_FAILURES,
    CYCLE_SECONDS,
    CYCLES,
    NVML_CALL_SECONDS,
    NVML_CALL_FAILURES,
    COLLECTOR_SECONDS,
    COLLECTOR_FAILURES,
)

FIXED = (*CONTAINER_FAMILIES, *GPU_FAMILIES, *FOUND_FAMILIES, *OWN_FAMILIES)
"""All but the three whose names are settings."""


def all_families(names: PodNames) -> tuple[Family, ...]:
    """
    Give the whole list, in the order of the page.
    """
    return (*PodFamilies.named(names), *FIXED)


def taken_by(name: str) -> Family | None:
    """
    Give the family that has a name already, if any of those does whose names are fixed.
    """
    return next((family for family in FIXED if name in family.sample_names), None)
