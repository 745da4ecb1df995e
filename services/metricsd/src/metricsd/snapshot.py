"""
What one cycle found, and every scrape shows until the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

import attrs


class PodOnGpu(NamedTuple):
    """
    A pod on a GPU: the labels of the per-pod families, in their order.
    """

    namespace: str
    pod: str
    pod_uid: str
    gpu_uuid: str
    gpu_index: int


class ContainerInPodOnGpu(NamedTuple):
    """
    A container on a GPU: the labels of the per-container families, in their order.
    """

    namespace: str
    pod: str
    pod_uid: str
    container: str
    gpu_uuid: str
    gpu_index: int


class Unattributed(Enum):
    """
    Why a process on a GPU belongs to no pod that is accounted for.
    """

    HOST = "host"
    UNANNOTATED = "unannotated"
    NO_RECORD = "no_record"
    VANISHED = "vanished"


class Enforcement(Enum):
    """
    Whether the driver holds a container to what it declared, and if not, why.
    """

    ENFORCED = "enforced"
    DIFFERENT = "limit_differs"
    NO_LIMIT = "no_limit_set"
    NOT_READABLE = "not_readable"
    DRIVER_TOO_OLD = "driver_too_old"
    NOT_SUPPORTED = "not_supported"
    NO_CGROUP = "no_cgroup"
    ENDED = "ended"
    NOT_DECLARED = "not_declared"


class PodUse(NamedTuple):
    """
    What a pod uses of a GPU.

    Args:
        key: Which.
        memory_bytes: Of all its processes there; None where NVML does not tell that of one of them.
        sm_percent: Of the whole GPU, at most 100; None where that could not be read.
        sm_normalized_percent: Of its own fraction, at most 100; None in the same case.
    """

    key: PodOnGpu
    memory_bytes: int | None
    sm_percent: float | None
    sm_normalized_percent: float | None


class ContainerUse(NamedTuple):
    """
    What a container uses of a GPU, what it declared, and what the driver holds it to.

    Args:
        key: Which.
        memory_bytes: Of all its processes there; None where NVML does not tell that of one of them.
        request_bytes: Declared; None where the record does not tell.
        limit_bytes: The same.
        soft_limit_bytes: In force; None where that could not be read.
        hard_limit_bytes: In force; None where that could not be read or none is set.
        accounted_bytes: What the driver counts against the limits; None where that could not be read.
        enforcement: The verdict.
    """

    key: ContainerInPodOnGpu
    memory_bytes: int | None
    request_bytes: int | None
    limit_bytes: int | None
    soft_limit_bytes: int | None
    hard_limit_bytes: int | None
    accounted_bytes: int | None
    enforcement: Enforcement


@attrs.frozen
class Gpu:
    """
    A GPU of the node.

    Args:
        index: NVML's.
        uuid: Its UUID.
        memory_total_bytes: None where NVML does not tell.
    """

    index: int
    uuid: str
    memory_total_bytes: int | None


@attrs.frozen
class SilentGpu:
    """
    A GPU that does not tell now who uses it.

    Args:
        index: NVML's, when it was met last.
        uuid: Empty where it never told.
        reason: Why it does not.
    """

    index: int
    uuid: str
    reason: str


@attrs.frozen
class Snapshot:
    """
    The whole.

    Args:
        pods: Sorted by key.
        containers: The same.
        containers_left_out: How many more there are, beyond the bound.
        gpus: Those that answered, by index.
        silent: Those of which no use is shown, some of which may be among `gpus`; by index.
        processes_seen: On all GPUs; a process on two of them counts once.
        processes_attributed: To pods.
        processes_unattributed: The others; every reason is there.
        records: How many.
        records_unreadable: How many more look like one.
        driver_version: The driver's own text.
    """

    pods: tuple[PodUse, ...]
    containers: tuple[ContainerUse, ...]
    containers_left_out: int
    gpus: tuple[Gpu, ...]
    silent: tuple[SilentGpu, ...]
    processes_seen: int
    processes_attributed: int
    processes_unattributed: Mapping[Unattributed, int]
    records: int
    records_unreadable: int
    driver_version: str
