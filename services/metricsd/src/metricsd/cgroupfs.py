"""
Where the cgroups of containers are, in the file system that the kernel shows them in.

A directory is looked for before its path is given to NVML, which would say of a wrong one that it has no limit.
Everything here blocks; the cycle runs it in a thread.
"""

from __future__ import annotations

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
    return {container_id: _directory(cgroup_root, record.cgroups_path) for container_id, record in records.items()}


def _directory(cgroup_root: Path, cgroups_path: str) -> str | NoCgroup:
    if not cgroups_path:
        return _NOT_NAMED
    try:
        path = cgroup.expand(cgroups_path)
    except InvalidCgroupsPath as error:
        return NoCgroup(str(error))
    directory = f"{cgroup_root}{path}"
    # Not pathlib: there are hundreds, in each cycle.
    return directory if os.path.isdir(directory) else NoCgroup(f"no cgroup at {directory}")  # noqa: PTH112
