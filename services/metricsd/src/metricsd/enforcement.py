"""
Whether the driver holds a container to what it declared.

What was declared is known from the record, what is in force from the driver's own answer for the container's cgroup.
Only when both are equal to the byte is the limit said to be enforced; anything else has a reason of its own. One that
has ended is held to nothing, and nothing is wrong with that.
"""

from __future__ import annotations

from typing import NamedTuple, assert_never

from fractioning_core.driver import MIN_DRIVER_MAJOR
from fractioning_core.nvml.errors import NvmlUnavailable
from fractioning_core.nvml.samples import MemoryLimits
from fractioning_core.record import Record

from metricsd.snapshot import Enforcement
from metricsd.world import Limits, NoCgroup

MIB = 2**20

# Of nvml.h.
_NOT_SUPPORTED = 3
_NOT_FOUND = 6
_FUNCTION_NOT_FOUND = 13


class Declared(NamedTuple):
    """
    What a container declared, in bytes; None where the record does not tell.
    """

    request_bytes: int | None
    limit_bytes: int | None


_NOTHING = Declared(None, None)


def declared(record: Record) -> Declared:
    """
    Read it from a record; one of the old form has the limit alone.
    """
    limit_mib = record.memory_limit_mib or record.requested_memory_mib
    return Declared(record.memory_request_mib * MIB or None, limit_mib * MIB or None)


def judge(asked: Declared, limits: Limits | None, driver_major: int | None, *, is_used: bool) -> Enforcement:
    """
    Compare what a container declared with what is in force.

    Args:
        asked: What it declared.
        limits: The driver's answer on one GPU; None when it was not asked.
        driver_major: Of the driver; None where its version is not to be understood.
        is_used: Whether a process of it is on the GPU.
    """
    if isinstance(limits, NoCgroup) and limits.is_gone and not is_used:
        return Enforcement.ENDED
    if asked == _NOTHING:
        return Enforcement.NOT_DECLARED
    match limits:
        # First, since it is what hundreds of containers have.
        case MemoryLimits():
            return _compared(asked, limits)
        case None:
            return Enforcement.NOT_READABLE
        case NoCgroup():
            return Enforcement.NO_CGROUP
        case NvmlUnavailable():
            return _refused(limits.code, driver_major)
        case _:
            assert_never(limits)


def _refused(code: int, driver_major: int | None) -> Enforcement:
    is_old = driver_major is not None and driver_major < MIN_DRIVER_MAJOR
    if code == _FUNCTION_NOT_FOUND or (code == _NOT_SUPPORTED and is_old):
        return Enforcement.DRIVER_TOO_OLD
    if code == _NOT_SUPPORTED:
        return Enforcement.NOT_SUPPORTED
    return Enforcement.NO_LIMIT if code == _NOT_FOUND else Enforcement.NOT_READABLE


def _compared(asked: Declared, limits: MemoryLimits) -> Enforcement:
    if limits.hard_bytes is None and limits.soft_bytes == 0:
        return Enforcement.NO_LIMIT
    is_soft_right = asked.request_bytes in (None, limits.soft_bytes)
    is_hard_right = asked.limit_bytes in (None, limits.hard_bytes)
    return Enforcement.ENFORCED if is_soft_right and is_hard_right else Enforcement.DIFFERENT
