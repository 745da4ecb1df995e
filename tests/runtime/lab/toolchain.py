"""
Where the built programs are: `.cache/bin` of the repository, filled by `scripts/toolchain`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import attrs

from lab.errors import MissingToolchain

VERSIONS = ("2.3", "2.1")
"""
The containerd versions held: the newest NRI with validation, and the last one without.
"""

REPOSITORY = Path(__file__).resolve().parents[3]
PROGRAMS = REPOSITORY / ".cache" / "bin"
BUSYBOX = Path("/bin/busybox")
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@attrs.frozen
class Binaries:
    """
    The programs of one containerd version.
    """

    containerd: Path
    ctr: Path

    @property
    def search_path(self) -> str:
        """
        A PATH on which containerd finds its own shim first, and runc.
        """
        return f"{self.containerd.parent}:{_SYSTEM_PATH}"


def locate(version: str) -> Binaries:
    """
    Find the programs of a containerd version such as `2.3`.

    Raises:
        MissingToolchain: One of them has not been made; the text names the command that makes it.
    """
    folder = PROGRAMS / f"containerd-{version}"
    for path in (folder / "containerd", folder / "containerd-shim-runc-v2", folder / "ctr", BUSYBOX):
        if not os.access(path, os.X_OK):
            raise MissingToolchain(path, version)
    if shutil.which("runc", path=_SYSTEM_PATH) is None:
        raise MissingToolchain("runc", version)
    return Binaries(containerd=folder / "containerd", ctr=folder / "ctr")


def bench_program(name: str, part: str = "bench") -> Path:
    """
    Find one of the Go programs of a bench, by its name and the part of the toolchain that it is of.

    Raises:
        MissingToolchain: It has not been made.
    """
    path = PROGRAMS / part / name
    if not os.access(path, os.X_OK):
        raise MissingToolchain(path, part)
    return path
