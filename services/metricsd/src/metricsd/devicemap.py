"""
Which GPUs of the node a record means.

A record names a GPU by its UUID, or by the minor of its device node, which is not NVML's index: that follows the PCI
bus, the minor follows the order in which the driver found the cards.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from fractioning_core.nvml.samples import Device
from fractioning_core.record import GpuDevice, Record


def indices(record: Record, devices: Iterable[Device], *, gone: AbstractSet[str] = frozenset()) -> tuple[int, ...]:
    """
    Find NVML's indices of a record's GPUs, each once, in the record's order; one that is not here is passed over.

    Args:
        record: Of a container.
        devices: Of the node.
        gone: UUIDs of those that were here; by now another may have the minor of one of them.
    """
    present = tuple(devices)
    found = (_index(entry, present) for entry in record.gpu_devices or () if entry.uuid not in gone)
    return tuple(dict.fromkeys(index for index in found if index is not None))


def _index(entry: GpuDevice, devices: tuple[Device, ...]) -> int | None:
    if entry.uuid is not None:
        for device in devices:
            if device.uuid == entry.uuid:
                return device.index
    minor = _minor(entry)
    if minor is not None:
        for device in devices:
            if device.minor == minor:
                return device.index
    return None


def _minor(entry: GpuDevice) -> int | None:
    if entry.minor_number is None and entry.uuid is not None:
        return None
    # Older writers put the minor into the index, and 0 or nothing where it belongs.
    return entry.minor_number or entry.index
