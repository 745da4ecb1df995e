"""
What metricsd costs on a full node: its cycles beside loops that only ask NVML the same, scrapes, memory, idle time.

    scripts/bench metrics            the table on standard output
    scripts/bench metrics --write    the table into the README as well

8 simulated GPUs, 480 containers with a process each; records, /proc and cgroups are files, so that nothing else runs.
Ends with 1 where a bar is not met.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

import attrs
import commandline
import machine
import readme
from contestants import SCRATCH
from metrics_rounds import CONTAINERS, GPUS, Rounds, Scene, busy_percent, run_c_loop, run_python_loop, watch
from playedruntime import Percentiles
from results import percentiles

OWN_BAR_MS = 20.0
SCRAPE_BAR_MS = 10.0
RSS_BAR_MIB = 64.0
IDLE_BAR_PERCENT = 0.5
CYCLES = 50
IDLE_SECONDS = 60.0
# The least that metricsd takes, and what it does by itself.
QUICK_INTERVAL_SECONDS, INTERVAL_SECONDS = 2, 5
LATENCIES_MS = (0, 1)
MARKERS = "metricsd bench"


@attrs.frozen
class Course:
    """
    All three at one latency of NVML's calls.
    """

    latency_ms: int
    c_loop: Percentiles
    python_loop: Percentiles
    metricsd: Rounds
    rss_mib: float

    @property
    def name(self) -> str:
        """
        What a call of NVML takes, in words.
        """
        return f"{self.latency_ms} ms a call" if self.latency_ms else "calls answered at once"


@attrs.frozen
class Row:
    """
    A line of the table.

    Args:
        what: What was measured.
        c_loop: Of the C loop.
        python_loop: Of the loop over nvidia-ml-py.
        metricsd: Of metricsd.
        ratios: Of metricsd's to both.
        figure: What the bar is for.
        bar: What it must not exceed; None where there is none.
    """

    what: str
    c_loop: str = ""
    python_loop: str = ""
    metricsd: str = ""
    ratios: str = ""
    figure: float = 0.0
    bar: float | None = None

    @property
    def holds(self) -> bool:
        """
        Whether the bar, if there is one, is met.
        """
        return self.bar is None or self.figure <= self.bar

    def __str__(self) -> str:
        verdict = "" if self.bar is None else f"≤ {self.bar:g}: {'met' if self.holds else '**missed**'}"
        cells = (self.what, self.c_loop, self.python_loop, self.metricsd, self.ratios, verdict)
        return f"| {' | '.join(cells)} |"


async def measure() -> list[Row]:
    """
    Measure everything, one after the other.
    """
    with tempfile.TemporaryDirectory(prefix="bench-", dir=SCRATCH) as name:
        scene = Scene.make(Path(name))
        courses = [await _course(scene, latency_ms) for latency_ms in LATENCIES_MS]
        scene.set_latency(0)
        async with scene.metricsd(interval_seconds=INTERVAL_SECONDS) as metricsd:
            await watch(metricsd, cycles=1)
            idle = await busy_percent(metricsd, seconds=IDLE_SECONDS)
    return [*(row for course in courses for row in _cycle_rows(course)), *_other_rows(courses, idle)]


async def _course(scene: Scene, latency_ms: int) -> Course:
    scene.set_latency(latency_ms)
    c_loop = await asyncio.to_thread(run_c_loop, scene, cycles=CYCLES)
    python_loop = await asyncio.to_thread(run_python_loop, scene, cycles=CYCLES)
    async with scene.metricsd(interval_seconds=QUICK_INTERVAL_SECONDS) as metricsd:
        rounds = await watch(metricsd, cycles=CYCLES)
        rss_mib = metricsd.service.usage().rss_kib / 1024
    return Course(latency_ms, percentiles(c_loop), percentiles(python_loop), rounds, rss_mib)


def _cycle_rows(course: Course) -> list[Row]:
    ours, own = percentiles(course.metricsd.cycles), percentiles(course.metricsd.own)
    return [
        Row(
            f"cycle, {course.name}: p50 / p99, ms",
            c_loop=_both(course.c_loop),
            python_loop=_both(course.python_loop),
            metricsd=_both(ours),
            ratios=f"{ours.p50 / course.c_loop.p50:.2f} / {ours.p50 / course.python_loop.p50:.2f}",
        ),
        Row(
            f"of that not in NVML, {course.name}: p50 / p99, ms",
            metricsd=_both(own),
            figure=own.p99,
            bar=OWN_BAR_MS,
        ),
    ]


def _other_rows(courses: list[Course], idle_percent: float) -> list[Row]:
    scrapes = percentiles([took for course in courses for took in course.metricsd.scrapes])
    page_mib = max(course.metricsd.page_bytes for course in courses) / (1 << 20)
    rss_mib = max(course.rss_mib for course in courses)
    # What the loops would take in the same rhythm; without latency all their time is processor time.
    at_once = courses[0]
    c_loop, python_loop = (each.p50 / 10 / INTERVAL_SECONDS for each in (at_once.c_loop, at_once.python_loop))
    return [
        Row(
            f"scrape of the page, {page_mib:.1f} MiB, over HTTP: p50 / p99, ms",
            metricsd=_both(scrapes),
            figure=scrapes.p99,
            bar=SCRAPE_BAR_MS,
        ),
        Row("memory: RSS, MiB", metricsd=f"{rss_mib:.0f}", figure=rss_mib, bar=RSS_BAR_MIB),
        Row(
            f"a cycle every {INTERVAL_SECONDS} s and no scrape, % of a core",
            c_loop=f"{c_loop:.2f}",
            python_loop=f"{python_loop:.2f}",
            metricsd=f"{idle_percent:.2f}",
            figure=idle_percent,
            bar=IDLE_BAR_PERCENT,
        ),
    ]


def _both(figures: Percentiles) -> str:
    return f"{figures.p50:.1f} / {figures.p99:.1f}"


def render(rows: list[Row], *, load: float) -> str:
    """
    Write the table, and below it what was measured where.
    """
    head = ["|  | C loop | nvidia-ml-py loop | metricsd | metricsd to both | bar |", "| " + "--- | " * 6]
    table = "\n".join([*(line.rstrip() for line in head), *map(str, rows)])
    return (
        f"{table}\n\n{machine.here()}; load at the start {load:.1f}. {CONTAINERS} containers with a process each on "
        f"{GPUS} GPUs; the driver is simulated, and its own share is in the loops: they ask it the same and do nothing "
        f"with the answers, but for limits: they read all each time, metricsd a third. "
        f"{CYCLES} cycles of each. `scripts/bench metrics` measures again."
    )


def main() -> int:
    """
    Measure and tell.
    """
    asked = commandline.parse("metrics", "what metricsd costs")
    load = machine.load()
    rows = asyncio.run(measure())
    section = render(rows, load=load)
    print(section)
    if asked.write:
        readme.write(MARKERS, section)
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
