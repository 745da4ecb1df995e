"""
Which processes of the node run a program, from /proc.

A name is the base of the `exe` link, or of the first argument where the link cannot be read. Never `comm`, which the
kernel cuts to 15 characters: control daemon and server look the same there. Everything here blocks; an asyncio caller
runs it in a thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePath

_DELETED = " (deleted)"
# Environment and arguments of a process; a megabyte holds any that matters.
_MAX_BYTES = 1_048_576


def running(proc_root: Path, program: str) -> tuple[int, ...]:
    """
    List the processes that run a program of exactly this name; an empty name runs nowhere.

    Raises:
        OSError: /proc itself cannot be listed.
    """
    if not program:
        return ()
    return tuple(pid for pid in _pids(proc_root) if name_of(proc_root, pid) == program)


def name_of(proc_root: Path, pid: int) -> str:
    """
    Name the program a process runs; empty when it is gone or does not tell.
    """
    directory = proc_root / str(pid)
    try:
        path = str((directory / "exe").readlink()).removesuffix(_DELETED)
    except OSError:
        path = next(iter(arguments_of(proc_root, pid)), "")
    return PurePath(path).name


def arguments_of(proc_root: Path, pid: int) -> tuple[str, ...]:
    """
    Give the arguments of a process, the program's first; none when it is gone or does not tell.
    """
    return _strings(proc_root / str(pid) / "cmdline")


def variable_of(proc_root: Path, pid: int, name: str) -> str | None:
    """
    Give a variable a process was started with; None when it has none, is gone or does not tell.
    """
    for entry in _strings(proc_root / str(pid) / "environ"):
        key, equals, value = entry.partition("=")
        if equals and key == name:
            return value
    return None


def directory_of(proc_root: Path, pid: int, path: str) -> tuple[int, int] | None:
    """
    Identify the directory that a process sees at a path: device and inode; None when there is none.

    The same text means another directory in another container.
    """
    return identity(proc_root / str(pid) / "root" / path.lstrip("/"))


def identity(path: Path) -> tuple[int, int] | None:
    """
    Identify what is at a path: device and inode; None when there is nothing.
    """
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def is_of_session(pid: int, leader: int) -> bool:
    """
    Tell whether a process is of the session that another one leads; one that is gone is of none.
    """
    try:
        return os.getsid(pid) == leader
    except OSError:
        return False


def _pids(proc_root: Path) -> Iterator[int]:
    with os.scandir(proc_root) as entries:
        for entry in entries:
            if entry.name.isascii() and entry.name.isdigit() and int(entry.name) > 0:
                yield int(entry.name)


def _strings(file: Path) -> tuple[str, ...]:
    try:
        with file.open("rb") as opened:
            data = opened.read(_MAX_BYTES)
    except OSError:
        return ()
    return tuple(part.decode(errors="surrogateescape") for part in data.split(b"\0") if part)
