"""
What the node's GPUs are, remembered from cycle to cycle, since one that fails for a moment does not tell all of it, and
one that is gone tells nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import attrs
from fractioning_core.nvml.errors import NvmlUnavailable
from fractioning_core.nvml.samples import Device, DeviceSample, Sample

from metricsd.snapshot import Gpu, SilentGpu

Gpus = Mapping[int, Device]
"""By NVML's index."""

# Functions of NVML without which nobody knows who is on a GPU, and how busy they are.
_LISTS = {"DeviceGetComputeRunningProcesses", "DeviceGetGraphicsRunningProcesses"}
_SM_USE = {"DeviceGetProcessUtilization"}
_ABSENT = "NVML does not list it any more"


@attrs.frozen
class Known:
    """
    All GPUs that were ever met.

    Args:
        placed: By their indices, the absent ones among them whose index and minor no other GPU has taken.
        displaced: The other absent ones, by UUID.
    """

    placed: Gpus = attrs.field(factory=dict)
    displaced: Mapping[str, Device] = attrs.field(factory=dict)


def remember(known: Known, sample: Sample) -> Known:
    """
    Bring what is known up to date: what a GPU does not tell now is as it was.

    One that is not in the sample stays, but not in its place where another has its index, UUID or minor by now: a
    driver that has started without one of its GPUs numbers the others anew.

    Returns: the very same where nothing changed.
    """
    before = known.placed
    met = {**known.displaced, **{device.uuid: device for device in before.values()}}
    told = {
        # One that does not tell its UUID is taken for the one that was there.
        (device := of.device).index: _completed(device, met.get(device.uuid) or before.get(device.index))
        for of in sample.devices
    }
    uuids = {device.uuid for device in told.values()}
    minors = {device.minor for device in told.values()}
    absent = {
        index: device
        for index, device in before.items()
        if index not in told and device.uuid not in uuids and device.minor not in minors
    }
    placed = dict(sorted((absent | told).items()))
    kept = uuids | {device.uuid for device in absent.values()} | {""}
    now = Known(placed, {uuid: device for uuid, device in met.items() if uuid not in kept})
    return known if now == known else now


def _completed(device: Device, before: Device | None) -> Device:
    # A total of 0 is no size to divide by.
    total = device.memory_total_bytes or None
    uuid = device.uuid
    if before is not None and uuid in {"", before.uuid}:
        uuid, total = before.uuid, total or before.memory_total_bytes
    return Device(device.index, uuid, device.minor, total)


def telling(sample: Sample) -> frozenset[int]:
    """
    Give the indices of the GPUs that tell who uses them; of the others nothing is known, and 0 would be believed.
    """
    return frozenset(of.device.index for of in sample.devices if _problem(of, _LISTS) is None)


def telling_sm(sample: Sample) -> frozenset[int]:
    """
    Give those of them that tell SM use, too.
    """
    return frozenset(of.device.index for of in sample.devices if _problem(of, _LISTS | _SM_USE) is None)


def silent(known: Known, sample: Sample) -> tuple[SilentGpu, ...]:
    """
    List the GPUs that do not tell who uses them, with the reason.

    Args:
        known: With this sample remembered.
        sample: What was read.
    """
    reasons = {of.index: str(of.problem) for of in sample.lost}
    reasons |= {of.device.index: str(problem) for of in sample.devices if (problem := _problem(of, _LISTS))}
    quiet = known.placed.keys() - telling(sample) | reasons.keys()
    found = [SilentGpu(index, _uuid(known, index), reasons.get(index, _ABSENT)) for index in quiet]
    found += [SilentGpu(device.index, device.uuid, _ABSENT) for device in known.displaced.values()]
    return tuple(sorted(found, key=lambda gpu: (gpu.index, gpu.uuid)))


def _problem(of: DeviceSample, functions: AbstractSet[str]) -> NvmlUnavailable | None:
    return next((problem for problem in of.problems if problem.function in functions), None)


def _uuid(known: Known, index: int) -> str:
    device = known.placed.get(index)
    return device.uuid if device is not None else ""


def answering(gpus: Gpus, sample: Sample) -> tuple[Gpu, ...]:
    """
    List those that answered, with what is known of them.
    """
    devices = (gpus[index] for index in sorted(of.device.index for of in sample.devices))
    return tuple(Gpu(device.index, device.uuid, device.memory_total_bytes) for device in devices)
