"""
Where the cgroups of containers are, in the file system that the kernel shows them in.

A directory is looked for before its path is given to NVML, which would say of a wrong one that it has no limit.
Everything here blocks; the cycle runs it in a thread.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from pathlib import Path

from fractioning_core import cgroup
from fractioning_core.errors import InvalidCgroupsPath
from fractioning_core.record import Record

from metricsd.world import NoCgroup

# Only the root of a v2 hierarchy has it.
_V2_FILE = "cgroup.controllers"
_NOT_V2 = NoCgroup("cgroup v2 needed")
_NOT_NAMED = NoCgroup("the record names no cgroup")


def directories(cgroup_root: Path, records: Mapping[str, Record]) -> dict[str, str | NoCgroup]:
    """
    Find the cgroup v2 directory of each container, by container id, or say why there is none.

    Args:
        cgroup_root: Where the host's hierarchy is seen, usually /sys/fs/cgroup.
        records: By container id.
    """
    if not (cgroup_root / _V2_FILE).exists():
        return dict.fromkeys(records, _NOT_V2)
    root = str(cgroup_root)
    return {container_id: _directory(root, record.cgroups_path) for container_id, record in records.items()}


def _directory(cgroup_root: str, cgroups_path: str) -> str | NoCgroup:
    directory = _named(cgroup_root, cgroups_path)
    if isinstance(directory, NoCgroup):
        return directory
    if _is_directory(directory):
        return directory
    # Where not even the first step of the path is there, this is no hierarchy of the host's.
    first = directory.removeprefix(cgroup_root).split("/")[1]
    return NoCgroup(f"no cgroup at {directory}", is_gone=_is_directory(f"{cgroup_root}/{first}"))


def _is_directory(path: str) -> bool:
    # Neither pathlib nor isdir: there are hundreds, in each cycle. The slash asks for a directory.
    return os.access(f"{path}/", os.F_OK)


# The same for every cycle of a container's life; as many as metricsd shows containers.
@functools.lru_cache(maxsize=4096)
def _named(cgroup_root: str, cgroups_path: str) -> str | NoCgroup:
    """
    Give the directory that a record names, whether or not it is there.
    """
    if not cgroups_path:
        return _NOT_NAMED
    try:
        return f"{cgroup_root}{cgroup.expand(cgroups_path)}"
    except InvalidCgroupsPath as error:
        return NoCgroup(str(error))
