"""
Where and with what was measured: a number without it means nothing.
"""

from __future__ import annotations

import os
import platform
import re
from datetime import UTC, datetime
from pathlib import Path

from lab import toolchain

_NRI = re.compile(r"^\s*github\.com/containerd/nri (\S+)", re.MULTILINE)


def describe() -> str:
    """
    Tell it in one line.
    """
    nri = _NRI.search((toolchain.REPOSITORY / "tests/bench/nri/go.mod").read_text())
    return f"{here()}, {nri_name(nri)}"


def here() -> str:
    """
    Tell it without the release of NRI, for what has nothing to do with it.
    """
    model = cpu_model(Path("/proc/cpuinfo").read_text())
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {model}, {os.cpu_count()} cores, Linux {platform.release()}, "
        f"Python {platform.python_version()}"
    )


def nri_name(found: re.Match[str] | None) -> str:
    """
    Name the NRI release that both the played runtime and the Go plugin are built on.
    """
    return f"NRI {found[1]}" if found else "NRI of unknown version"


def load() -> float:
    """
    Read how busy the machine was over the last minute.
    """
    return os.getloadavg()[0]


def cpu_model(cpuinfo: str) -> str:
    """
    Read the processor's name in the text of /proc/cpuinfo; not every architecture tells it.
    """
    found = re.search(r"^model name\s*:\s*(.+?)\s*$", cpuinfo, re.MULTILINE)
    return found[1] if found else platform.machine()
