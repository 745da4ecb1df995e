"""
Which container each process on a GPU belongs to, and what that makes the container use.

A process is found by its cgroup, and the record of that container says whose it is. One that is in no recorded
container is counted with the reason: an annotated container whose record is missing is a fault to look into, a process
of the host or of a container without a fraction is none.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
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
    """

    memory_bytes: int
    sm_percent: int


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
    """

    uses: Mapping[ContainerOnGpu, Use]
    seen: int
    attributed: int
    unattributed: Mapping[Unattributed, int]


def pids(sample: Sample) -> set[int]:
    """
    Give the processes on all GPUs, whose origins `attribute` wants to know.
    """
    return _listed(sample) | {sampled.pid for device in sample.devices for sampled in device.sm} - _NO_PROCESS


def _listed(sample: Sample) -> set[int]:
    listed: set[int] = set()
    for device in sample.devices:
        listed.update(process.pid for process in device.compute)
        listed.update(process.pid for process in device.graphics)
    return listed - _NO_PROCESS


def attribute(world: World) -> Attribution:
    """
    Sort the processes of one cycle.
    """
    paths = _paths(world.records)
    containers: dict[int, str] = {}
    counts = dict.fromkeys(Unattributed, 0)
    # SM use is of the time since the last cycle: a process that only this tells of may have ended as it should.
    seen = _listed(world.sample) | (pids(world.sample) & world.origins.keys())
    for pid in seen:
        owner = _owner(world.origins.get(pid), world.records, paths)
        if isinstance(owner, Unattributed):
            counts[owner] += 1
        else:
            containers[pid] = owner
    return Attribution(_uses(world.sample, containers), len(seen), len(containers), counts)


def _owner(origin: Origin | None, records: Mapping[str, Record], paths: Mapping[str, str]) -> str | Unattributed:
    """
    Give the id of the container that a process is in, or the reason why there is none.
    """
    if origin is None:
        return Unattributed.VANISHED
    container_id = cgroup.match(origin.cgroups, records, paths)
    if container_id is not None:
        return container_id
    if cgroup.container_id(origin.cgroups) is None:
        return Unattributed.HOST
    return Unattributed.NO_RECORD if origin.declares_limit else Unattributed.UNANNOTATED


def _paths(records: Mapping[str, Record]) -> dict[str, str]:
    """
    Find the containers that only the path of their cgroup tells.
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
        memory = _memory_bytes(device)
        sm = {sampled.pid: sampled.sm_percent for sampled in device.sm}
        for pid in memory.keys() | sm.keys():
            container_id = containers.get(pid)
            if container_id is None:
                continue
            place = ContainerOnGpu(container_id, device.device.index)
            before = uses.get(place, UNUSED)
            uses[place] = Use(before.memory_bytes + memory.get(pid, 0), before.sm_percent + sm.get(pid, 0))
    return uses


def _memory_bytes(device: DeviceSample) -> dict[int, int]:
    """
    Give each process's memory: the larger of its entries, since each of them counts all of it.
    """
    memory: dict[int, int] = {}
    for process in (*device.compute, *device.graphics):
        memory[process.pid] = max(process.used_bytes or 0, memory.get(process.pid, 0))
    return memory
