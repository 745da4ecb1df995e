"""
What the node's GPUs are, remembered from cycle to cycle, since one that fails for a moment does not tell all of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from fractioning_core.nvml.samples import Device, DeviceSample, Sample

from metricsd.snapshot import Gpu

Gpus = Mapping[int, Device]
"""By NVML's index."""

# Functions of NVML without which nobody knows who is on a GPU.
_LISTS = {"DeviceGetComputeRunningProcesses", "DeviceGetGraphicsRunningProcesses"}


def remember(known: Gpus, sample: Sample) -> Gpus:
    """
    Bring what is known up to date: what a GPU does not tell now is as it was.

    One that is not in the sample stays, unless another index has its UUID or its minor by now: a driver that has
    started without one of its GPUs numbers the others anew.
    """
    told = {of.device.index: _completed(of.device, known.get(of.device.index)) for of in sample.devices}
    uuids = {device.uuid for device in told.values()}
    minors = {device.minor for device in told.values()}
    absent = {
        index: device
        for index, device in known.items()
        if index not in told and device.uuid not in uuids and device.minor not in minors
    }
    return dict(sorted((absent | told).items()))


def _completed(device: Device, before: Device | None) -> Device:
    # A total of 0 is no size to divide by.
    total = device.memory_total_bytes or None
    uuid = device.uuid
    if before is not None and uuid in {"", before.uuid}:
        uuid, total = before.uuid, total or before.memory_total_bytes
    return Device(device.index, uuid, device.minor, total)


def silent(sample: Sample) -> frozenset[int]:
    """
    Give the indices of the GPUs that do not tell now who uses them; to show nobody there would be a false zero.
    """
    failing = (of.device.index for of in sample.devices if _has_no_list(of))
    return frozenset({of.index for of in sample.lost} | set(failing))


def _has_no_list(of: DeviceSample) -> bool:
    return any(problem.function in _LISTS for problem in of.problems)


def answering(gpus: Gpus, sample: Sample) -> tuple[Gpu, ...]:
    """
    List those that answered, with what is known of them.
    """
    devices = (gpus[index] for index in sorted(of.device.index for of in sample.devices))
    return tuple(Gpu(device.index, device.uuid, device.memory_total_bytes) for device in devices)
