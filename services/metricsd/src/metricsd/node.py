"""
What a cycle reads of the node beside NVML: records, processes and cgroups.

Everything here blocks; the cycle runs it in a thread. The list of processes comes first and from NVML, so that a
process which is on it always has had its record written: a container's record is there before its first instruction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import attrs
from fractioning_core.nvml import driverversions
from fractioning_core.nvml.samples import Sample
from fractioning_core.record import Record

from metricsd import attribution, cgroupfs
from metricsd.limits import NOTHING, Plan, Planner
from metricsd.procfs import Processes
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
        with_limits: Whether anybody wants to know the limits of containers.
    """

    def __init__(self, *, map_dir: Path, proc_root: Path, cgroup_root: Path, with_limits: bool) -> None:
        self._records = RecordDir(map_dir)
        self._processes = Processes(proc_root)
        self._proc_root = proc_root
        self._cgroup_root = cgroup_root
        self._with_limits = with_limits
        self._planner = Planner()

    def look(self, sample: Sample, *, sampled_at: float, met: Collection[ContainerOnGpu]) -> Sight:
        """
        Look at what belongs to a sample.

        Args:
            sample: What NVML listed.
            sampled_at: What `procfs.boot_seconds` gave before.
            met: On which GPUs processes of containers were found before.

        Raises:
            Unavailable: The record directory cannot be read, there is no /proc, or no file can be opened at all.
        """
        self._processes.look()
        reading = self._records.read(now=sampled_at)
        pids = attribution.pids(sample)
        origins = self._processes.origins(pids, sampled_at=sampled_at, known=reading.records)
        plan = self._plan(sample, reading.records, met) if self._with_limits else NOTHING
        return Sight(reading.records, reading.unreadable, origins, plan)

    def mismatch(self) -> str:
        """
        Tell what a driver is made of whose library and kernel module do not match, and what to do.
        """
        return driverversions.mismatch(self._proc_root)

    def _plan(self, sample: Sample, records: Mapping[str, Record], met: Collection[ContainerOnGpu]) -> Plan:
        directories = cgroupfs.directories(self._cgroup_root, records)
        devices = tuple(found.device for found in sample.devices)
        return self._planner.plan(records, devices, directories, met)
