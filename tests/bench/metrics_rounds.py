"""
Who is measured: metricsd, and the two loops that ask NVML the same and do nothing else, on one node of files.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import attrs
from lab.metricsd import PREFIX, Metricsd
from lab.papernode import PaperNode
from node import cpu_seconds
from simgpu import programs
from simgpu.state import StateFile

GPUS = 8
CONTAINERS = 480
_HERE = Path(__file__).parent
_LOOP_PAUSE_MS = 50
# Often enough to see every cycle, rarely enough not to be what is measured.
_SCRAPE_PAUSE_SECONDS = 0.2
# The first cycles open NVML and fill caches.
_WARM_UP_CYCLES = 2
_READY_SECONDS = 60.0
_INTERVAL = "--metrics-interval={}s"
_OWN = f"{PREFIX}metricsd_"


@attrs.frozen
class Scene:
    """
    A full node: 480 containers with a process each on 8 GPUs, all of them held to their limits.

    Args:
        node: Its files.
        state: Of the simulated driver.
        directory: Where programs write.
    """

    node: PaperNode
    state: StateFile
    directory: Path

    @classmethod
    def make(cls, directory: Path) -> Scene:
        """
        Write the files.
        """
        node = PaperNode.make(directory, gpus=GPUS, containers=CONTAINERS)
        scene = cls(node, StateFile(directory / "simgpu"), directory)
        scene.set_latency(0)
        node.enforce(scene.state)
        return scene

    def set_latency(self, milliseconds: int) -> None:
        """
        Have every call of NVML take so long.
        """
        self.state.write(attrs.evolve(self.node.machine(), latency_ms=milliseconds))

    def metricsd(self, *, interval_seconds: int) -> Metricsd:
        """
        Make a metricsd for it, to be entered as a context.
        """
        flags = [_INTERVAL.format(interval_seconds)]
        return Metricsd(directory=self.directory, state=self.state, flags=flags, **self.node.roots)

    def queries(self) -> str:
        """
        List whose limits are asked for: a line with the GPU's index and the cgroup's directory each.
        """
        index = {gpu.uuid: number for number, gpu in enumerate(self.node.gpus)}
        return "".join(f"{index[each.gpu.uuid]} {self.node.cgroup_of(each)}\n" for each in self.node.containers)


@attrs.frozen
class Rounds:
    """
    What metricsd did while it was watched, in milliseconds.

    Args:
        cycles: From the first reading to the page.
        own: The same without the time in which NVML was busy.
        scrapes: From the request to the last byte of the page.
        page_bytes: How long the page was.
    """

    cycles: tuple[float, ...]
    own: tuple[float, ...]
    scrapes: tuple[float, ...]
    page_bytes: int


@attrs.frozen
class _Tally:
    """
    What the page says of all cycles so far.
    """

    cycles: float
    seconds: float
    nvml_seconds: float

    @classmethod
    def of(cls, page: bytes) -> _Tally:
        return cls(
            _sum(page, f"{_OWN}cycle_seconds_count"),
            _sum(page, f"{_OWN}cycle_seconds_sum"),
            _sum(page, f"{_OWN}nvml_call_seconds_sum"),
        )


async def watch(metricsd: Metricsd, *, cycles: int) -> Rounds:
    """
    Scrape again and again, as Prometheus does over one connection, until so many cycles were seen.
    """
    await metricsd.ready(timeout_seconds=_READY_SECONDS)
    connection = http.client.HTTPConnection("127.0.0.1", metricsd.port)
    totals: list[float] = []
    own: list[float] = []
    scrapes: list[float] = []
    before: _Tally | None = None
    page = b""
    while len(totals) < cycles:
        await asyncio.sleep(_SCRAPE_PAUSE_SECONDS)
        took, page = _scrape(connection)
        now = _Tally.of(page)
        if before and before.cycles >= _WARM_UP_CYCLES:
            scrapes.append(took * 1000)
            if now.cycles == before.cycles + 1:
                totals.append((now.seconds - before.seconds) * 1000)
                own.append(totals[-1] - (now.nvml_seconds - before.nvml_seconds) * 1000)
        before = now
    connection.close()
    return Rounds(tuple(totals), tuple(own), tuple(scrapes), len(page))


async def busy_percent(metricsd: Metricsd, *, seconds: float) -> float:
    """
    Tell how much of a core it takes while nobody asks it anything.
    """
    pid = metricsd.service.pid
    before, began = cpu_seconds(pid), time.perf_counter()
    await asyncio.sleep(seconds)
    return 100 * (cpu_seconds(pid) - before) / (time.perf_counter() - began)


def run_c_loop(scene: Scene, *, cycles: int) -> tuple[float, ...]:
    """
    Time the cycles of the C loop, in milliseconds.
    """
    return _run(scene, [str(_compiled(scene.directory)), str(cycles), str(_LOOP_PAUSE_MS)])


def run_python_loop(scene: Scene, *, cycles: int) -> tuple[float, ...]:
    """
    Time the cycles of the plain loop over nvidia-ml-py, in milliseconds.
    """
    return _run(scene, [sys.executable, str(_HERE / "metrics_loop.py"), str(cycles), str(_LOOP_PAUSE_MS)])


def _run(scene: Scene, argv: Sequence[str]) -> tuple[float, ...]:
    environ = {**os.environ, **scene.state.environ, "LD_LIBRARY_PATH": str(programs.locate().library.parent)}
    done = subprocess.run(argv, input=scene.queries(), env=environ, stdout=subprocess.PIPE, text=True, check=True)
    return tuple(float(line) * 1000 for line in done.stdout.split())


def _compiled(directory: Path) -> Path:
    program = directory / "metrics_floor"
    if not program.exists():
        include = programs.ROOT / "include/nvidia/cu13/include"
        flags: list[str | Path] = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-isystem", include]
        files: list[str | Path] = [_HERE / "metrics_floor.c", programs.locate().library]
        subprocess.run(["cc", *flags, *files, "-o", program], check=True)
    return program


def _scrape(connection: http.client.HTTPConnection) -> tuple[float, bytes]:
    began = time.perf_counter()
    connection.request("GET", "/metrics")
    page = connection.getresponse().read()
    return time.perf_counter() - began, page


def _sum(page: bytes, name: str) -> float:
    # The page is over a megabyte long: a parser would take longer than what is measured.
    return sum(map(float, re.findall(rf"^{name}(?:{{.*}})? (\S+)$".encode(), page, re.MULTILINE)))
