"""
What NVML tells at one moment, as frozen values.
"""

from __future__ import annotations

import attrs

from fractioning_core.nvml.errors import NvmlUnavailable


@attrs.frozen
class Device:
    """
    One GPU.

    Args:
        index: NVML's, which follows the PCI bus.
        uuid: Such as `GPU-…`.
        minor: Of its device node /dev/nvidiaN.
        memory_total_bytes: Of the card; None where it shares the host's memory and NVML does not tell.
    """

    index: int
    uuid: str
    minor: int
    memory_total_bytes: int | None


@attrs.frozen
class ProcessMemory:
    """
    A process that NVML lists on a GPU.

    Args:
        pid: In the PID namespace of the reader, which must be the host's; never 0.
        used_bytes: Device memory; None where NVML does not tell.
    """

    pid: int
    used_bytes: int | None


@attrs.frozen
class SmUse:
    """
    How much of a GPU's SMs a process used.

    Args:
        pid: As above.
        sm_percent: From 0 to 100.
        timestamp_us: When, on the host's clock, since 1970.
    """

    pid: int
    sm_percent: int
    timestamp_us: int


@attrs.frozen
class DeviceSample:
    """
    One GPU at one moment.

    Args:
        device: Which.
        compute: Its processes with a compute context.
        graphics: Those with a graphics context; a process may be in both.
        sm: The last use of each process that is newer than the reading before; a process that was idle has none.
        problems: What failed beside that, in the order of the calls; a function that this GPU does not support is none.
    """

    device: Device
    compute: tuple[ProcessMemory, ...] = ()
    graphics: tuple[ProcessMemory, ...] = ()
    sm: tuple[SmUse, ...] = ()
    problems: tuple[NvmlUnavailable, ...] = ()


@attrs.frozen
class LostDevice:
    """
    A GPU that did not tell its identity, or fell off the bus while it was read.
    """

    index: int
    problem: NvmlUnavailable


@attrs.frozen
class Sample:
    """
    All GPUs at one moment.

    Args:
        driver_version: The driver's own text.
        devices: Those that answered, by index; physical ones, whether or not they are in MIG mode.
        lost: Those that did not.
    """

    driver_version: str
    devices: tuple[DeviceSample, ...]
    lost: tuple[LostDevice, ...] = ()


@attrs.frozen
class LimitsQuery:
    """
    Whose limits to read.

    Args:
        index: Of the GPU.
        cgroup: Absolute path of the cgroup v2 directory.
    """

    index: int
    cgroup: str


@attrs.frozen
class MemoryLimits:
    """
    What the driver holds a cgroup to on one GPU: `nvmlGetMemoryLimits_v1_t` of nvml.h.

    Args:
        soft_bytes: Guaranteed; 0 is nothing.
        hard_bytes: The most that can be allocated; None where no limit is set, NVML_DEVICE_MEMORY_LIMIT_MAX.
        used_bytes: Accounted to the cgroup now.
    """

    soft_bytes: int
    hard_bytes: int | None
    used_bytes: int


@attrs.frozen
class CallTime:
    """
    How long one function of NVML took.

    Args:
        function: Its name, without `nvml` and version.
        seconds: Wall time.
        error: Name of the error it returned, without the prefix; empty when none.
    """

    function: str
    seconds: float
    error: str = ""
