"""
The driver's versions where NVML cannot tell them: texts of /proc and their parsers.

When an upgrade has replaced the library under a loaded module, NVML refuses to start and names neither side. The
module's version is then in `/proc/driver/nvidia/version`, and the library's is the end of the name of the file that
this process has mapped: drivers' installer and NVIDIA's container toolkit both call it `libnvidia-ml.so.<version>`.
"""

from __future__ import annotations

import re
from pathlib import Path

import attrs

# `NVRM version: NVIDIA UNIX x86_64 Kernel Module  615.43.02  Tue …`, and the open modules' other word order.
_MODULE = re.compile(r"(?<![\w.])([0-9]{2,9}(?:\.[0-9]{1,9}){1,3})(?![\w.])")
_LIBRARY = re.compile(r"/libnvidia-ml\.so\.([0-9]{2,9}(?:\.[0-9]{1,9}){1,3})(?![\w.])")
_VERSION_BYTES = 4096
# A Python process has some hundred mappings of about a hundred bytes.
_MAPS_BYTES = 1 << 20


@attrs.frozen
class Halves:
    """
    Both halves of a driver; None for one whose version nothing tells.
    """

    library: str | None
    module: str | None

    def __str__(self) -> str:
        library = f"version {self.library}" if self.library else "of another version"
        module = f"version {self.module}" if self.module else "of unknown version"
        return f"the NVML library is {library}, the loaded kernel module {module}"


def read_halves(proc_root: Path) -> Halves:
    """
    Read both, blocking.

    Args:
        proc_root: Where the host's /proc is.
    """
    return Halves(
        library=library_version(_text(proc_root / "self/maps", _MAPS_BYTES)),
        module=module_version(_text(proc_root / "driver/nvidia/version", _VERSION_BYTES)),
    )


def mismatch(proc_root: Path) -> str:
    """
    Read both, and say them with what mends a driver of two that do not match.
    """
    return f"{read_halves(proc_root)}; reboot the node or reload the module"


def module_version(text: str) -> str | None:
    """
    Take the kernel module's version from the text of /proc/driver/nvidia/version, whose later lines name a compiler.
    """
    found = _MODULE.search(text.partition("\n")[0])
    return found[1] if found else None


def library_version(maps: str) -> str | None:
    """
    Take the library's version from the list of files that a process has mapped.
    """
    found = _LIBRARY.search(maps)
    return found[1] if found else None


def _text(path: Path, limit: int) -> str:
    try:
        with path.open("rb") as file:
            return file.read(limit).decode(errors="replace")
    except OSError:
        # No module is loaded, or this is no Linux host's /proc: then nothing tells.
        return ""
