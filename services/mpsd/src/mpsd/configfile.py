"""
The configuration on disk: written whole, and compared with what the daemon was started with.

Everything here blocks; an asyncio caller runs it in a thread.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from fractioning_core.errors import FileUnavailable

FILE_MODE = 0o644
DIRECTORY_MODE = 0o755
# Ours has about 150 bytes; more is somebody else's file, and need not be read to know that.
MAX_BYTES = 65_536


def write(path: Path, text: str) -> None:
    """
    Put a text in place of the file, whole or not at all.

    Raises:
        FileUnavailable: the file system refused.
    """
    try:
        make_directory(path.parent)
        descriptor, temporary = tempfile.mkstemp(".tmp", f".{path.name}-", path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, FILE_MODE)
                file.write(text.encode())
                file.flush()
                os.fsync(descriptor)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise FileUnavailable("write", str(path), cause(error)) from error


def difference(path: Path, text: str) -> str:
    """
    Say how the file differs from a text; empty when it does not.
    """
    wanted = text.encode()
    try:
        with path.open("rb") as file:
            found = file.read(MAX_BYTES)
    except FileNotFoundError:
        return "is gone"
    except OSError as error:
        return f"cannot be read: {cause(error)}"
    return "" if found == wanted else "was changed since the control daemon started"


def make_directory(path: Path) -> None:
    """
    Make a directory that everybody may enter, whatever the umask; one that exists stays as it is.
    """
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(DIRECTORY_MODE)


def cause(error: OSError) -> str:
    """
    Give the system's words for an error, without the path they repeat.
    """
    return error.strerror or str(error)
