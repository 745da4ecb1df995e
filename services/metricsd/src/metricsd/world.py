"""
What one cycle reads: everything that the engine decides from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import attrs
from fractioning_core.nvml.errors import NvmlUnavailable
from fractioning_core.nvml.samples import MemoryLimits, Sample
from fractioning_core.record import Record


@attrs.frozen
class Origin:
    """
    Where a process belongs.

    Args:
        cgroups: The paths of its cgroups, as /proc tells them; v1 has several, v2 one.
        declares_limit: Whether its environment carries the memory limit that fractiond injects.
    """

    cgroups: tuple[str, ...]
    declares_limit: bool = False


class ContainerOnGpu(NamedTuple):
    """
    A container, by its bare id, on a GPU, by its index.
    """

    container_id: str
    gpu_index: int


@attrs.frozen
class NoCgroup:
    """
    The limits of a container were not asked for: it has no cgroup v2 directory here.

    Args:
        reason: `no cgroup at …`, `cgroup v2 needed`, or that the record names none.
        is_gone: The directory is missing from a hierarchy that has others of its kind.
    """

    reason: str
    is_gone: bool = attrs.field(default=False, kw_only=True)


Limits = MemoryLimits | NvmlUnavailable | NoCgroup


@attrs.frozen
class World:
    """
    One cycle's readings.

    Args:
        sample: Of NVML.
        records: Of this node's fractional containers, by bare container id.
        unreadable: How many files look like records and are none.
        origins: By process id; a process that is not in there had vanished, or its id belongs to another by now.
        limits: The driver's, for each container on each of its GPUs.
    """

    sample: Sample
    records: Mapping[str, Record]
    unreadable: int
    origins: Mapping[int, Origin]
    limits: Mapping[ContainerOnGpu, Limits]
