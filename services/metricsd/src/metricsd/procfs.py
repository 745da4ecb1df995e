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

from fractioning_core import cgroup, names
from fractioning_core.errors import FileUnavailable

from metricsd.world import Origin

# Most files of /proc fit many times over; a larger buffer takes three times as long to allocate and give back.
_CHUNK_BYTES = 65_536
# The kernel allows more environment than that, and a runtime puts what it adds at the end.
_MAX_BYTES = 1_048_576
_LIMIT_VARIABLE = f"\0{names.ENV_MEMORY_LIMIT}=".encode()
# Of proc(5), counted from the field after the name.
_START_FIELD = 19
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def boot_seconds() -> float:
    """
    Read the clock that the starts of processes are told by.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def read_origins(
    proc_root: Path, pids: Iterable[int], *, sampled_at: float, known: Container[str]
) -> dict[int, Origin]:
    """
    Find where each of the processes belongs; one that is gone is left out.

    A process that we may not look at is not gone: it belongs to no container that we know of.

    Args:
        proc_root: The host's /proc.
        pids: In the host's PID namespace.
        sampled_at: What `boot_seconds` gave before the list of processes was read.
        known: Bare ids of the containers with a record; only of a process in another container is it asked whether it
            declares a limit.

    Raises:
        Unavailable: We have no file descriptor left to read with.
    """
    origins = {}
    for pid in pids:
        # Joined as text: a thousand files are read in each cycle, and pathlib takes as long as the reading.
        origin = _origin(f"{proc_root}/{pid}", started_by=sampled_at, known=known)
        if origin is not None:
            origins[pid] = origin
    return origins


def start_ticks(stat: bytes) -> int:
    """
    Read from a process's `stat` when it started, in ticks since boot; 0 where the text does not tell.
    """
    # The name before it may have spaces and parentheses of its own.
    fields = stat[stat.rfind(b")") + 1 :].split(None, _START_FIELD + 1)
    return int(fields[_START_FIELD]) if len(fields) > _START_FIELD and fields[_START_FIELD].isdigit() else 0


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
