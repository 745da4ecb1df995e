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
# A socket that listens, in the flags of /proc/net/unix: SO_ACCEPTCON, see proc_pid_net(5).
_LISTENS = 0x10000
_PROC = Path("/proc")


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


def is_open(pipe_dir: str, pid: int, *, proc_root: Path = _PROC) -> bool:
    """
    Tell whether a process listens on a socket that it made at this place, be the socket still there or not.

    The kernel keeps the path of one that was deleted. Only a process of our own network can be told of.
    """
    path = f"{pipe_dir}/{SOCKET}"
    try:
        lines = (proc_root / "net" / "unix").read_text(errors="surrogateescape").splitlines()
        # Of the table's columns the path is the last, and has spaces as they are.
        columns = [line.split(maxsplit=7) for line in lines[1:]]
        wanted = {f"socket:[{each[6]}]" for each in columns if each[7:] == [path] and int(each[3], 16) & _LISTENS}
        return bool(wanted) and any(_link(file) in wanted for file in (proc_root / str(pid) / "fd").iterdir())
    except OSError:
        return False


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


def _link(file: Path) -> str:
    try:
        return str(file.readlink())
    except OSError:
        # Closed meanwhile.
        return ""
