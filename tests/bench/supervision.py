"""
What mpsd costs, and how fast the control daemon is back: RSS, idle processor time, crash to socket.

    scripts/bench mpsd            the table on standard output
    scripts/bench mpsd --write    the table into the README as well

In a pod of a real API server, where mpsd labels the node, with the real control daemon (simulated r615 in front of it).
Ends with 1 where a bar is not met.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import sys
import tempfile
from pathlib import Path

import attrs
import commandline
import machine
import readme
from apilab import objects
from apilab.controlplane import ControlPlane
from apilab.place import PATCH_NODES, Place
from lab import waiting
from lab.mpsd import Mpsd

RSS_BAR_MIB = 64.0
IDLE_BAR_PERCENT = 0.2
RECOVERY_BAR_MS = 200.0
# Processor time is counted in hundredths of a second: less would be too coarse for the bar.
IDLE_SECONDS = 60.0
CRASHES = 10
BACKOFF_SECONDS = 0.5
MARKERS = "mpsd bench"


@attrs.frozen
class Row:
    """
    A measurement and its bar.
    """

    what: str
    value: float
    bar: float
    unit: str

    @property
    def holds(self) -> bool:
        """
        Whether the bar is met.
        """
        return self.value <= self.bar

    def __str__(self) -> str:
        verdict = "met" if self.holds else "**missed**"
        return f"| {self.what}, {self.unit} | {self.value:.2f} | ≤ {self.bar:g} {self.unit}: {verdict} |"


async def measure() -> list[Row]:
    """
    Run mpsd on a node, and read what it uses.
    """
    with tempfile.TemporaryDirectory() as name:
        async with ControlPlane() as plane, plane.admin() as admin:
            place = await Place.make(plane, admin, Path(name))
            await objects.grant(admin, place.account, PATCH_NODES)
            # Every run counts as stable, so that every back-off is the first.
            flags = [f"--backoff={BACKOFF_SECONDS * 1000:.0f}ms", "--stable-threshold=0s", "--max-retries=0"]
            async with place.mpsd(Path(name), flags=flags) as mpsd:
                await mpsd.ready()
                await place.labelled("615")
                idle = await _idle_percent(mpsd)
                rss_mib = mpsd.service.usage().rss_kib / 1024
                recoveries = [await _recovery_ms(mpsd, attempt) for attempt in range(CRASHES)]
    recovery = statistics.median(recoveries)
    return [
        Row("memory of mpsd itself, the label written: RSS", rss_mib, RSS_BAR_MIB, "MiB"),
        Row(f"idle over {IDLE_SECONDS:g} s, of a core", idle, IDLE_BAR_PERCENT, "%"),
        Row(f"crash to socket less back-off, median of {CRASHES}", recovery, RECOVERY_BAR_MS, "ms"),
    ]


async def _idle_percent(mpsd: Mpsd) -> float:
    before = mpsd.service.usage().cpu_seconds
    await asyncio.sleep(IDLE_SECONDS)
    return (mpsd.service.usage().cpu_seconds - before) / IDLE_SECONDS * 100


async def _recovery_ms(mpsd: Mpsd, attempt: int) -> float:
    loop = asyncio.get_running_loop()
    former = mpsd.daemon()
    dead = _identity(mpsd.socket)
    begun = loop.time()
    os.kill(former, signal.SIGKILL)

    def is_back() -> bool:
        try:
            return _identity(mpsd.socket) != dead
        except FileNotFoundError:
            return False

    await waiting.until(
        is_back,
        what=f"the socket after crash {attempt}",
        timeout_seconds=90.0,
        details=mpsd.service.output,
        longest_poll_seconds=waiting.POLL_SECONDS,
    )
    took = (loop.time() - begun - BACKOFF_SECONDS) * 1000
    await mpsd.ready()
    return took


def _identity(socket: Path) -> tuple[int, int]:
    """
    Tell a socket from another one at the same path, whose inode may be the freed one's; a link to it changes nothing.
    """
    found = socket.stat()
    return found.st_ino, found.st_mtime_ns


def render(rows: list[Row], *, load: float) -> str:
    """
    Write the table, and below it where it was measured.
    """
    table = "\n".join(["|  | mpsd | bar |", "| --- | --- | --- |", *map(str, rows)])
    return (
        f"{table}\n\n{machine.here()}; load at the start {load:.1f}. In a pod of a real API server, with the control "
        "daemon of Debian's 550 behind simulated r615. `scripts/bench mpsd` measures again."
    )


def main() -> int:
    """
    Measure and tell.
    """
    asked = commandline.parse("mpsd", "what mpsd costs")
    load = machine.load()
    rows = asyncio.run(measure())
    section = render(rows, load=load)
    print(section)
    if asked.write:
        readme.write(MARKERS, section)
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
