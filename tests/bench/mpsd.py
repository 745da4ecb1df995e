"""
What mpsd costs, and how fast the control daemon is back: RSS, idle processor time, crash to socket.

    PYTHONPATH=tests/runtime:tests/simgpu .venv/bin/python tests/bench/mpsd.py

On the real control daemon (simulated r615 in front of it). Ends with 1 where a bar is not met.
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
from lab import waiting
from lab.mpsd import Mpsd

RSS_BAR_KIB = 64 * 1024
IDLE_BAR_PERCENT = 0.2
RECOVERY_BAR_MS = 200.0
IDLE_SECONDS = 20.0
CRASHES = 10
BACKOFF_SECONDS = 0.5


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
        verdict = "ok" if self.holds else "MISSED"
        return f"{self.what:<44} {self.value:>9.2f} {self.unit:<4} bar {self.bar:g} {self.unit}  {verdict}"


async def measure() -> list[Row]:
    """
    Run mpsd and read what it uses.
    """
    with tempfile.TemporaryDirectory() as name:
        # Every run counts as stable, so that every back-off is the first.
        flags = [f"--backoff={BACKOFF_SECONDS * 1000:.0f}ms", "--stable-threshold=0s", "--max-retries=0"]
        async with Mpsd(directory=Path(name), flags=flags) as mpsd:
            await mpsd.ready()
            idle = await _idle_percent(mpsd)
            rss = mpsd.service.usage().rss_kib
            recoveries = [await _recovery_ms(mpsd, attempt) for attempt in range(CRASHES)]
    return [
        Row("RSS", rss / 1024, RSS_BAR_KIB / 1024, "MiB"),
        Row(f"idle over {IDLE_SECONDS:g} s, of a core", idle, IDLE_BAR_PERCENT, "%"),
        Row(
            f"crash to socket less back-off, median of {CRASHES}", statistics.median(recoveries), RECOVERY_BAR_MS, "ms"
        ),
    ]


async def _idle_percent(mpsd: Mpsd) -> float:
    before = mpsd.service.usage().cpu_seconds
    await asyncio.sleep(IDLE_SECONDS)
    return (mpsd.service.usage().cpu_seconds - before) / IDLE_SECONDS * 100


async def _recovery_ms(mpsd: Mpsd, attempt: int) -> float:
    loop = asyncio.get_running_loop()
    former = mpsd.daemon()
    inode = mpsd.socket.stat().st_ino
    begun = loop.time()
    os.kill(former, signal.SIGKILL)

    def is_back() -> bool:
        try:
            return mpsd.socket.stat().st_ino != inode
        except FileNotFoundError:
            return False

    await waiting.until(is_back, what=f"the socket after crash {attempt}", timeout_seconds=90.0)
    took = (loop.time() - begun - BACKOFF_SECONDS) * 1000
    await mpsd.ready()
    return took


def main() -> int:
    """
    Measure and tell.
    """
    rows = asyncio.run(measure())
    for row in rows:
        print(row)
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
