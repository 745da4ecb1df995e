"""
Remove what a containerd leaves when it is gone: processes, mounts, cgroups and shim sockets.

containerd's containers outlive it by design, so ending it is no clean-up. Everything is found by names that only
this lab's containerd uses: its cgroup, its socket path on the shims' command line, its directory in the mount table.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path

from lab import waiting

_CGROUPS = Path("/sys/fs/cgroup")
_PROC = Path("/proc")
_TIMEOUT_SECONDS = 30.0


def shim_pids(address: Path) -> list[int]:
    """
    List the shims that serve the containerd at this socket.
    """
    wanted = str(address).encode()
    return [pid for pid in _pids() if _is_shim_of(_command_line(pid), wanted)]


def cgroup_pids(cgroup: str) -> list[int]:
    """
    List the processes in a cgroup and all below it, in every hierarchy.
    """
    found: set[int] = set()
    for directory in cgroup_directories(cgroup):
        # A cgroup may vanish while it is read.
        with contextlib.suppress(FileNotFoundError, OSError):
            found.update(int(line) for line in (directory / "cgroup.procs").read_text().split())
    return sorted(found)


def cgroup_directories(cgroup: str) -> list[Path]:
    """
    List a cgroup's directories and all below them, deepest first: one tree on v2, one per controller on v1.
    """
    name = cgroup.strip("/")
    trees = [tree for tree in (_CGROUPS / name, *_CGROUPS.glob(f"*/{name}")) if tree.is_dir()]
    return [Path(parent) for tree in trees for parent, _, _ in os.walk(tree, topdown=False)]


def mounts_below(directory: Path) -> list[str]:
    """
    List mount points at or below a directory, deepest first.
    """
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [line.split()[4].encode().decode("unicode_escape") for line in lines]
    prefix = f"{directory}/"
    return sorted((point for point in points if f"{point}/".startswith(prefix)), reverse=True)


def shim_sockets(state: Path) -> list[Path]:
    """
    List the sockets of the shims a containerd knows: they are in a directory that all containerds share.
    """
    sockets = []
    for file in state.glob("io.containerd.runtime.v2.task/*/*/bootstrap.json"):
        address = json.loads(file.read_text())["address"]
        sockets.append(Path(address.removeprefix("unix://")))
    return sockets


async def kill_containers(cgroup: str) -> None:
    """
    Kill every process in the cgroup; their shims still live and reap them.
    """
    await waiting.until(
        lambda: not _kill(cgroup_pids(cgroup)),
        what=f"the processes of {cgroup} to end",
        timeout_seconds=_TIMEOUT_SECONDS,
    )


async def kill_shims(address: Path) -> None:
    """
    Kill the shims of the containerd at this socket.
    """
    await waiting.until(
        lambda: not _kill(shim_pids(address)), what=f"the shims of {address} to end", timeout_seconds=_TIMEOUT_SECONDS
    )


async def remove_mounts(directory: Path) -> None:
    """
    Unmount everything below a directory.
    """

    def unmounted() -> bool:
        points = mounts_below(directory)
        if points:
            # A shim's own clean-up may be faster with one of them, so that only the list counts, not the status.
            subprocess.run(["umount", *points], capture_output=True, check=False)
        return not points

    await waiting.until(unmounted, what=f"mounts below {directory} to go", timeout_seconds=_TIMEOUT_SECONDS)


async def remove_cgroups(cgroup: str) -> None:
    """
    Remove a cgroup and all below it; the kernel refuses (EBUSY) until it has let the last process go.
    """

    def removed() -> bool:
        for directory in cgroup_directories(cgroup):
            with contextlib.suppress(OSError):
                directory.rmdir()
        return not cgroup_directories(cgroup)

    await waiting.until(removed, what=f"the cgroup {cgroup} to go", timeout_seconds=_TIMEOUT_SECONDS)


def remove_sockets(sockets: Iterable[Path]) -> None:
    """
    Unlink the sockets of killed shims.
    """
    for socket in sockets:
        socket.unlink(missing_ok=True)


def _kill(pids: list[int]) -> list[int]:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return pids


def _pids() -> list[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]


def _is_shim_of(arguments: list[bytes], address: bytes) -> bool:
    return arguments[0].endswith(b"containerd-shim-runc-v2") and address in arguments


def _command_line(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return [b""]
