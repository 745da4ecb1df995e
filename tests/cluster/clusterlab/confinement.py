"""
What a running process of a container may do, as the kernel tells it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import attrs

from clusterlab.worker import RunningWorker

NONE, ALL = "none", "all"
_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
_SECCOMP_FILTER = "2"


@attrs.frozen
class Confinement:
    """
    The bounds of a process.

    Args:
        uid: Its user.
        capabilities: NONE, ALL that there are on this machine, or their bits in hexadecimal.
        may_gain: Whether a program that it starts may have more.
        is_filtered: Whether a filter limits its system calls.
        root: "ro" or "rw": the container's own root.
        directories: Of the node that are mounted, by where, with "ro" or "rw"; without what every container has, and
            without what is mounted below them.
        namespaces: Of the node that it is in; without "cgroup" and "user", which the node has from this machine.
        has_token: Whether it finds a ServiceAccount's token.
    """

    uid: int
    capabilities: str
    may_gain: bool
    is_filtered: bool
    root: str
    directories: Mapping[str, str]
    namespaces: frozenset[str]
    has_token: bool


def observe(worker: RunningWorker, pid: int) -> Confinement:
    """
    Look at a process of a container on a worker.
    """
    directory = Path(f"/proc/{pid}")
    status = _status(pid)
    mounts = [line.split() for line in (directory / "mountinfo").read_text().splitlines()]
    access = {point: options.split(",")[0] for _, _, _, _, point, options, *_ in mounts}
    return Confinement(
        uid=int(status["Uid"].split()[0]),
        capabilities=_named(status["CapEff"]),
        may_gain=status["NoNewPrivs"] == "0",
        is_filtered=status["Seccomp"] == _SECCOMP_FILTER,
        root=access["/"],
        directories={
            point: access[point] for _, _, _, source, point, *_ in mounts if _is_of_node(worker, source, point)
        },
        namespaces=frozenset(_shared(worker.pid, pid)) - {"cgroup", "user"},
        has_token=any(point.endswith("/serviceaccount") for point in access),
    )


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def _named(capabilities: str) -> str:
    if int(capabilities, 16) == 0:
        return NONE
    # A machine that is a container itself may lack some, and then nobody on it has them.
    return ALL if capabilities == _status(os.getpid())["CapBnd"] else capabilities


def _is_of_node(worker: RunningWorker, source: str, point: str) -> bool:
    """
    Tell whether a mount is a directory of the node: neither the runtime's or the kubelet's own, nor the driver's.
    """
    if "/io.containerd." in point:
        # Roots of containers, which are below the runtime's directory.
        return False
    files = worker.files
    for root, own in ((files.run, ("containerd/io.containerd.", "simgpu")), (files.log, ())):
        _, found, below = source.partition(f"{root}/")
        if found or source.endswith(str(root)):
            return not below.startswith(own)
    return False


def _shared(worker_pid: int, pid: int) -> list[str]:
    # The worker's first process is the child of the one that is known.
    first = int(Path(f"/proc/{worker_pid}/task/{worker_pid}/children").read_text().split()[0])
    return [name for name in _NAMESPACES if _namespace(first, name) == _namespace(pid, name)]


def _namespace(pid: int, name: str) -> str:
    return str(Path(f"/proc/{pid}/ns/{name}").readlink())
