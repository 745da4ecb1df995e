"""
The plain files that the control daemon keeps beside its sockets, made before it starts.

Made by itself they are for everybody to write, and tenants have the directory: one that holds a lock on the first keeps
every further daemon from starting ("An instance of this daemon is already running"), and both take as many bytes as the
node's /run has. A file that is there keeps its mode, so the daemon gets new ones that only root may open; a lock on the
one before is a lock on nothing. Seen on branch 550, where neither the client library nor the client program opens
either of them. Everything here blocks; an asyncio caller runs it in a thread.
"""

from __future__ import annotations

import os
from pathlib import Path

from fractioning_core.errors import FileUnavailable

from mpsd import configfile

NAMES = ("control_lock", "nvidia-cuda-mps-control.pid")
MODE = 0o600


def renew(pipe_dir: str) -> None:
    """
    Put new ones in place; to be called when no daemon runs there.

    Raises:
        FileUnavailable: the file system refuses.
    """
    for name in NAMES:
        path = Path(pipe_dir) / name
        try:
            path.unlink(missing_ok=True)
            # Exclusive, so that no link that a tenant put there in between is followed.
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE))
        except OSError as error:
            raise FileUnavailable("make", str(path), configfile.cause(error)) from error
