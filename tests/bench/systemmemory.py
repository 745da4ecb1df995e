"""
The memory of the product's own containers, as the kernel accounts for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from clusterlab.client import Object
from clusterlab.release import Release
from fractioning_core import quantity
from lab import sweep
from systemtable import Usage

_MIB = 1 << 20
# Containers that are called otherwise than what runs in them.
_COMPONENTS = {"manager": "controller"}
# Each controller of v1 has a tree of its own; v2 has one.
_WORKING_SET = (("memory.usage_in_bytes", "total_inactive_file"), ("memory.current", "inactive_file"))


async def read(release: Release) -> list[Usage]:
    """
    Read what each container has now; of those with the same name, as on two workers, the larger figures.
    """
    found: dict[str, Usage] = {}
    for pod in await release.pods():
        cgroup = release.cluster.worker(pod["spec"]["nodeName"]).cgroup
        directories = sweep.cgroup_directories(cgroup)
        for name, identity in _containers(pod).items():
            own = [each for each in directories if each.name == identity]
            component = _COMPONENTS.get(name, name)
            usage = Usage(component, _peak_rss_mib(own), _working_set_mib(own), _limit_mib(pod, name))
            found[component] = usage.larger(found.get(component, usage))
    return list(found.values())


def _containers(pod: Object) -> Mapping[str, str]:
    """
    Give the ids of a pod's containers that run.
    """
    statuses = [each for each in pod["status"].get("containerStatuses", []) if "running" in each["state"]]
    return {each["name"]: each["containerID"].rpartition("/")[2] for each in statuses}


def _peak_rss_mib(directories: Sequence[Path]) -> float:
    """
    Add up the most that each process of a container has had; pages that they share count for each.
    """
    pids = {pid for each in directories for pid in (each / "cgroup.procs").read_text().split()}
    return sum(map(_peak_kib, pids)) / 1024


def _peak_kib(pid: str) -> int:
    try:
        lines = (Path("/proc") / pid / "status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    # One that has just ended has no memory any more, and no such line.
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def _working_set_mib(directories: Sequence[Path]) -> float:
    """
    Read the working set, by which the kubelet evicts: what is used, less the files that were not touched lately.
    """
    for usage, inactive in _WORKING_SET:
        for directory in directories:
            if (directory / usage).exists():
                lines = (directory / "memory.stat").read_text().splitlines()
                statistics = dict(line.split() for line in lines)
                return (int((directory / usage).read_text()) - int(statistics[inactive])) / _MIB
    return 0.0


def _limit_mib(pod: Object, name: str) -> float:
    (container,) = (each for each in pod["spec"]["containers"] if each["name"] == name)
    return quantity.to_mib(container["resources"]["limits"]["memory"])
