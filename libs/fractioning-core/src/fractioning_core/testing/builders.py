"""
Builders: the annotations, fractions and records that tests start from, valid until told otherwise.
"""

from __future__ import annotations

from fractioning_core import names
from fractioning_core.fraction import ComputeMode, Fraction
from fractioning_core.record import GpuDevice, Record


def annotations_for(
    container: str = "main",
    *,
    request: str | None = None,
    limit: str | None = None,
    mode: str | None = None,
    devices: str | None = None,
    prefix: str = names.ANNOTATION_PREFIX,
) -> dict[str, str]:
    """
    Annotate one container with what is given, and nothing else.
    """
    values = {
        names.GPU_MEMORY_REQUEST_SUFFIX: request,
        names.GPU_MEMORY_LIMIT_SUFFIX: limit,
        names.GPU_COMPUTE_MODE_SUFFIX: mode,
        names.GPU_DEVICES_SUFFIX: devices,
    }
    return {f"{prefix}{container}{suffix}": value for suffix, value in values.items() if value is not None}


def a_fraction(
    *,
    request_mib: int = 2048,
    limit_mib: int = 4096,
    mode: ComputeMode = ComputeMode.TIME_SLICING,
    devices: str = "",
) -> Fraction:
    """
    Ask for 2 of at most 4 GiB, time-sliced, on no particular GPU.
    """
    return Fraction(request_mib, limit_mib, mode, devices)


def a_record(  # noqa: PLR0913  one for each field
    *,
    pod: str = "trainer-7d9f",
    namespace: str = "team-ml",
    pod_uid: str = "3f2a-uid",
    gpu_devices: tuple[GpuDevice, ...] | None = (),
    requested_memory_mib: int = 2048,
    container: str = "",
    memory_request_mib: int = 0,
    memory_limit_mib: int = 0,
    cgroups_path: str = "",
) -> Record:
    """
    Record a container with 2 GiB and no GPU seen yet, as a writer does that tells no more.
    """
    return Record(
        pod=pod,
        namespace=namespace,
        pod_uid=pod_uid,
        gpu_devices=gpu_devices,
        requested_memory_mib=requested_memory_mib,
        container=container,
        memory_request_mib=memory_request_mib,
        memory_limit_mib=memory_limit_mib,
        cgroups_path=cgroups_path,
    )
