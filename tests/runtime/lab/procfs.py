"""
What a process uses of the machine, from /proc.
"""

from __future__ import annotations

import os
from pathlib import Path

import attrs

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@attrs.frozen
class Usage:
    """
    A reading: resident and proportional memory, and processor time so far.
    """

    rss_kib: int
    pss_kib: int
    cpu_seconds: float


def read_usage(pid: int) -> Usage:
    """
    Read what a process uses now.
    """
    process = Path("/proc") / str(pid)
    rollup = parse_rollup((process / "smaps_rollup").read_text())
    return Usage(
        rss_kib=rollup["Rss"], pss_kib=rollup["Pss"], cpu_seconds=parse_cpu_seconds((process / "stat").read_text())
    )


def parse_rollup(text: str) -> dict[str, int]:
    """
    Parse the sizes in the text of `smaps_rollup`, in KiB.
    """
    fields = (line.split() for line in text.splitlines()[1:])
    return {name.rstrip(":"): int(size) for name, size, *_ in fields}


def parse_cpu_seconds(text: str) -> float:
    """
    Parse user and system time from the text of `stat`; the program's name before them may hold spaces.
    """
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
