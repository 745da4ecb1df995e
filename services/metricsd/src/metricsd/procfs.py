"""
Where processes belong, from /proc.

A process id tells of a process only as long as that process lives. The list of ids is older than what is read here, so
a process that started after the list was begun has the id of another, and counts as gone.

Everything here blocks; the cycle runs it in a thread.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Container, Iterable
from pathlib import Path
from typing import NamedTuple

import attrs
from fractioning_core import cgroup, names
from fractioning_core.errors import FileUnavailable, Unavailable, escaped

from metricsd.world import Origin

# Most files of /proc fit many times over; a larger buffer takes three times as long to allocate and give back.
_CHUNK_BYTES = 65_536
# The kernel allows more environment than that, and a runtime puts what it adds at the end.
_MAX_BYTES = 1_048_576
_LIMIT_VARIABLE = f"\0{names.ENV_MEMORY_LIMIT}=".encode()
# Of proc(5), counted from the field after the name.
_START_FIELD = 19
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


# A process may be moved to another cgroup; runtimes do so before its first instruction only.
_REMEMBERED_SECONDS = 60.0


@attrs.frozen(auto_exc=False)
class NoProcesses(Unavailable):
    """
    A directory is no /proc: in each of them there is a process 1.
    """

    path: str

    def __str__(self) -> str:
        return f"no processes at {escaped(self.path, 200)}: not the host's /proc?"


_Made = tuple[int, int]
"""A directory's inode and the time of its last change."""


class _Settled(NamedTuple):
    """
    What was read of a process, and until when that is good enough.
    """

    origin: Origin
    made: _Made | None
    container_id: str | None
    due: float

    def holds(self, made: _Made | None, now: float, known: Container[str]) -> bool:
        """
        Tell whether another reading would find the same.
        """
        return self.made == made and now < self.due and self.container_id in known


def boot_seconds() -> float:
    """
    Read the clock that the starts of processes are told by.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Processes:
    """
    The host's processes.

    One that is in a container with a record is told again from memory for a minute, as long as it is the same process:
    reading two files of each of hundreds was half of a cycle. It is the same while `/proc/<pid>` is: the kernel makes
    that directory anew for another process, with the next number of one count for all inodes and the time of making.

    Args:
        proc_root: The host's /proc.
    """

    def __init__(self, proc_root: Path) -> None:
        # Joined as text: a thousand paths are made in each cycle, and pathlib takes as long as the reading.
        self._proc_root = str(proc_root)
        self._settled: dict[int, _Settled] = {}

    def look(self) -> None:
        """
        See that there are processes at all, where a wrong directory would make those of NVML look ended.

        Raises:
            NoProcesses: There are none.
        """
        if not os.access(f"{self._proc_root}/1", os.F_OK):
            raise NoProcesses(self._proc_root)

    def origins(self, pids: Iterable[int], *, sampled_at: float, known: Container[str]) -> dict[int, Origin]:
        """
        Find where each of the processes belongs; one that is gone is left out.

        A process that we may not look at is not gone: it belongs to no container that we know of.

        Args:
            pids: In the host's PID namespace. What is remembered of others is let go.
            sampled_at: What `boot_seconds` gave before the list of processes was read.
            known: Bare ids of the containers with a record; only of a process in another container is it asked whether
                it declares a limit.

        Raises:
            Unavailable: We have no file descriptor left to read with.
        """
        origins: dict[int, Origin] = {}
        before, self._settled = self._settled, {}
        for pid in pids:
            directory = f"{self._proc_root}/{pid}"
            made = _made(directory)
            settled = before.get(pid)
            if settled is None or not settled.holds(made, sampled_at, known):
                origin = _origin(directory, started_by=sampled_at, known=known)
                if origin is None:
                    continue
                settled = _Settled(origin, made, cgroup.match(origin.cgroups, known), _due(pid, sampled_at))
            if settled.made is not None and settled.container_id is not None:
                self._settled[pid] = settled
            origins[pid] = settled.origin
        return origins


def start_ticks(stat: bytes) -> int:
    """
    Read from a process's `stat` when it started, in ticks since boot; 0 where the text does not tell.
    """
    # The name before it may have spaces and parentheses of its own.
    fields = stat[stat.rfind(b")") + 1 :].split(None, _START_FIELD + 1)
    return int(fields[_START_FIELD]) if len(fields) > _START_FIELD and fields[_START_FIELD].isdigit() else 0


def _made(directory: str) -> _Made | None:
    try:
        found = os.stat(directory)  # noqa: PTH116 - see above
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def _due(pid: int, now: float) -> float:
    """
    Give the next of the moments, a minute apart, that belong to an id: so that not all are read in the same cycle.
    """
    return now + _REMEMBERED_SECONDS - (now + pid) % _REMEMBERED_SECONDS


def _origin(directory: str, *, started_by: float, known: Container[str]) -> Origin | None:
    text = _read(f"{directory}/cgroup")
    if text is None:
        return None
    paths = cgroup.parse(text.decode(errors="surrogateescape"))
    is_stranger = cgroup.match(paths, known) is None and cgroup.container_id(paths) is not None
    declares_limit = is_stranger and _declares_limit(directory)
    # Last, so that all of the above is of the process that this start is of, or of one that came before it.
    stat = _read(f"{directory}/stat")
    if stat is None or start_ticks(stat) > started_by * _TICKS_PER_SECOND:
        return None
    return Origin(paths, declares_limit=declares_limit)


def _declares_limit(directory: str) -> bool:
    return _LIMIT_VARIABLE in b"\0" + (_read(f"{directory}/environ") or b"")


def _read(path: str) -> bytes | None:
    """
    Read a file up to a bound: None when its process is gone, empty when it does not tell.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _contents(descriptor)
        finally:
            os.close(descriptor)
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError as error:
        # Ours to lack, and it would turn every process into one of the host.
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise FileUnavailable("read", path, os.strerror(error.errno)) from error
        return b""


def _contents(descriptor: int) -> bytes:
    data = os.read(descriptor, _CHUNK_BYTES)
    # The kernel fills the buffer, so that a short one is the last.
    while len(data) < _MAX_BYTES and len(data) % _CHUNK_BYTES == 0:
        more = os.read(descriptor, _CHUNK_BYTES)
        if not more:
            break
        data += more
    return data
