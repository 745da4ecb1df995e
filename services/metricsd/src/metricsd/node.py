"""
What a cycle reads of the node beside NVML: records, processes and cgroups.

Everything here blocks; the cycle runs it in a thread. The list of processes comes first and from NVML, so that a
process which is on it always has had its record written: a container's record is there before its first instruction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import attrs
from fractioning_core.nvml.samples import Sample
from fractioning_core.record import Record

from metricsd import attribution, cgroupfs, limits, procfs
from metricsd.limits import Plan
from metricsd.recorddir import RecordDir
from metricsd.world import ContainerOnGpu, Origin


@attrs.frozen
class Sight:
    """
    What was seen.

    Args:
        records: By bare container id.
        unreadable: How many more files look like records.
        origins: Of the processes, by id.
        plan: Whose limits to read.
    """

    records: Mapping[str, Record]
    unreadable: int
    origins: Mapping[int, Origin]
    plan: Plan


class Node:
    """
    The node, by its directories.

    Args:
        map_dir: Where fractiond's records are.
        proc_root: The host's /proc.
        cgroup_root: The host's cgroup hierarchy.
    """

    def __init__(self, *, map_dir: Path, proc_root: Path, cgroup_root: Path) -> None:
        self._records = RecordDir(map_dir)
        self._proc_root = proc_root
        self._cgroup_root = cgroup_root

    def look(self, sample: Sample, *, sampled_at: float, met: Collection[ContainerOnGpu]) -> Sight:
        """
        Look at what belongs to a sample.

        Args:
            sample: What NVML listed.
            sampled_at: What `procfs.boot_seconds` gave before.
            met: On which GPUs processes of containers were found before.

        Raises:
            Unavailable: The record directory cannot be read, or no file can be opened at all.
        """
        reading = self._records.read()
        pids = attribution.pids(sample)
        origins = procfs.read_origins(self._proc_root, pids, sampled_at=sampled_at, known=reading.records)
        directories = cgroupfs.directories(self._cgroup_root, reading.records)
        devices = tuple(found.device for found in sample.devices)
        plan = limits.plan(reading.records, devices, directories, met)
        return Sight(reading.records, reading.unreadable, origins, plan)
