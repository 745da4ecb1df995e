"""
Which container each process on a GPU belongs to, and what that makes the container use.

A process is found by its cgroup, and the record of that container says whose it is. One that is in no recorded
container is counted with the reason: an annotated container whose record is missing is a fault to look into, a process
of the host or of a container without a fraction is none.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import attrs
from fractioning_core import cgroup
from fractioning_core.nvml.samples import DeviceSample, Sample
from fractioning_core.record import Record

from metricsd.snapshot import Unattributed
from metricsd.world import ContainerOnGpu, Origin, World


class Use(NamedTuple):
    """
    What somebody uses of a GPU; the SM use of several processes at a time may add up to more than 100 %.

    Args:
        memory_bytes: None where NVML does not tell that of a process.
        sm_percent: 0 where no sample was read.
    """

    memory_bytes: int | None
    sm_percent: int


Owners = Mapping[int, tuple[Origin, str | Unattributed]]
"""By process id: what was found, and the id of the container, or why there is none, that follows from it."""

UNUSED = Use(0, 0)
# What NVML lists where it has no process to tell of.
_NO_PROCESS = {0}


@attrs.frozen
class Attribution:
    """
    All processes, sorted into containers.

    Args:
        uses: Of each container that has a process on a GPU.
        seen: How many processes there are, each counted once.
        attributed: How many of them are in a container with a record.
        unattributed: The others; every reason is there.
        owners: Where each process belongs, for the next cycle.
    """

    uses: Mapping[ContainerOnGpu, Use]
    seen: int
    attributed: int
    unattributed: Mapping[Unattributed, int]
    owners: Owners = attrs.field(eq=False, repr=False, factory=dict)


def pids(sample: Sample) -> set[int]:
    """
    Give the processes on all GPUs, whose origins `attribute` wants to know.
    """
    return _listed(sample) | _sampled(sample)


def _sampled(sample: Sample) -> set[int]:
    return {sampled.pid for device in sample.devices for sampled in device.sm} - _NO_PROCESS


def _listed(sample: Sample) -> set[int]:
    listed: set[int] = set()
    for device in sample.devices:
        listed.update(process.pid for process in device.compute)
        listed.update(process.pid for process in device.graphics)
    return listed - _NO_PROCESS


def attribute(world: World, paths: Mapping[str, str], before: Owners) -> Attribution:
    """
    Sort the processes of one cycle.

    Args:
        world: What was read.
        paths: What `paths` gives for its records.
        before: Owners that were found by the same records. Each counts while its process has the very same origin.
    """
    owners: dict[int, tuple[Origin, str | Unattributed]] = {}
    containers: dict[int, str] = {}
    counts = dict.fromkeys(Unattributed, 0)
    origins = world.origins
    listed = _listed(world.sample)
    # SM use is of the time since the last cycle: a process that only this tells of may have ended as it should.
    seen = listed | (_sampled(world.sample) & origins.keys())
    for pid in seen:
        origin = origins.get(pid)
        if origin is None:
            counts[Unattributed.VANISHED] += 1
            continue
        owned = before.get(pid)
        if owned is None or owned[0] is not origin:
            owned = (origin, _owner(origin, world.records, paths))
        owners[pid] = owned
        owner = owned[1]
        if isinstance(owner, Unattributed):
            counts[owner] += 1
        else:
            containers[pid] = owner
    return Attribution(_uses(world.sample, containers), len(seen), len(containers), counts, owners)


def _owner(origin: Origin, records: Mapping[str, Record], paths: Mapping[str, str]) -> str | Unattributed:
    """
    Give the id of the container that a process is in, or the reason why there is none.
    """
    container_id = cgroup.match(origin.cgroups, records, paths)
    if container_id is not None:
        return container_id
    if cgroup.container_id(origin.cgroups) is None:
        return Unattributed.HOST
    return Unattributed.NO_RECORD if origin.declares_limit else Unattributed.UNANNOTATED


def paths(records: Mapping[str, Record]) -> dict[str, str]:
    """
    Find the containers that only the path of their cgroup tells, by that path.
    """
    found: dict[str, str] = {}
    for container_id, record in records.items():
        found.update(_path(container_id, record.cgroups_path))
    return found


# The same for every cycle of a container's life.
@functools.lru_cache(maxsize=4096)
def _path(container_id: str, cgroups_path: str) -> Mapping[str, str]:
    return cgroup.places({container_id: cgroups_path})


def _uses(sample: Sample, containers: Mapping[int, str]) -> dict[ContainerOnGpu, Use]:
    """
    Add up the processes of each container on each GPU.
    """
    uses: dict[ContainerOnGpu, Use] = {}
    for device in sample.devices:
        index = device.device.index
        memory = _memory_bytes(device)
        sm = {sampled.pid: sampled.sm_percent for sampled in device.sm}
        for pid in memory.keys() | sm.keys():
            container_id = containers.get(pid)
            if container_id is None:
                continue
            place = ContainerOnGpu(container_id, index)
            use = Use(memory.get(pid, 0), sm.get(pid, 0))
            before = uses.get(place)
            uses[place] = use if before is None else _sum(before, use)
    return uses


def _sum(one: Use, other: Use) -> Use:
    return Use(total((one.memory_bytes, other.memory_bytes)), one.sm_percent + other.sm_percent)


def total(parts: Iterable[int | None]) -> int | None:
    """
    Add up; a sum of which a part is not known is not known.
    """
    whole = 0
    for part in parts:
        if part is None:
            return None
        whole += part
    return whole


def _memory_bytes(device: DeviceSample) -> dict[int, int | None]:
    """
    Give each process's memory: the larger of its entries, since each of them counts all of it.
    """
    memory: dict[int, int | None] = {}
    for process in (*device.compute, *device.graphics):
        used_bytes, before = process.used_bytes, memory.get(process.pid)
        if before is None or (used_bytes is not None and used_bytes > before):
            memory[process.pid] = used_bytes
    return memory
