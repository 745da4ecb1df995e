"""
The control socket on disk, by whose existence containers go.

Commands travel over another one, so that an answer says nothing about it. Everything here blocks; an asyncio caller
runs it in a thread.
"""

from __future__ import annotations

import stat
from pathlib import Path

import attrs
from fractioning_core.errors import FileUnavailable

from mpsd import configfile

SOCKET = "control"


@attrs.frozen
class Identity:
    """
    Which socket it is, whatever its path.

    Args:
        device: Of its file system.
        inode: There; the next file made may get it again.
        made_at: When, in nanoseconds: the time of its content, which neither a further name nor another mode changes.
    """

    device: int
    inode: int
    made_at: int


def look(pipe_dir: str) -> Identity | None:
    """
    Identify the socket; None when there is none.
    """
    try:
        found = (Path(pipe_dir) / SOCKET).lstat()
    except OSError:
        return None
    return Identity(found.st_dev, found.st_ino, found.st_mtime_ns) if stat.S_ISSOCK(found.st_mode) else None


def remove(pipe_dir: str) -> None:
    """
    Remove the socket of a daemon that is gone.

    Raises:
        FileUnavailable: the file system refuses.
    """
    path = Path(pipe_dir) / SOCKET
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise FileUnavailable("remove", str(path), configfile.cause(error)) from error
