"""
Steps that are done once for each input.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable
from pathlib import Path


def once(stamp: Path, text: str, make: Callable[[], None], what: str) -> None:
    """
    Do a step unless its stamp says that it was done with the same input; tells of what it did.
    """
    if stamp.exists() and stamp.read_text() == text:
        return
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    began = time.monotonic()
    make()
    stamp.write_text(text)
    sys.stderr.write(f"build-images: {what}, {time.monotonic() - began:.1f} s\n")


def fingerprint(path: Path) -> str:
    """
    Digest a file, or every file of a folder with its name and mode; what Python caches there does not count.
    """
    if path.is_file():
        with path.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    whole = hashlib.sha256()
    for file in sorted(path.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            whole.update(f"{file.relative_to(path)} {file.stat().st_mode:o} {fingerprint(file)}\n".encode())
    return whole.hexdigest()
