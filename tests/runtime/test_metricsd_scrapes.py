"""
Scrapes at the same time, and scrapes while a cycle goes on: each gets a whole page, and none waits.

The real program on the simulated driver; records, processes and cgroups are files.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import pytest_asyncio
from lab.metricsd import PREFIX, Metricsd, Samples, parse
from lab.papernode import MEMORY_USED_BYTES, Watched
from simgpu.state import Machine

# Two containers make two calls for their limits in a cycle, which takes twice that.
SLOW_CALL_MS = 1500
OTHER_USE_BYTES = MEMORY_USED_BYTES // 2
AT_ONCE = 4


@pytest_asyncio.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Watched]:
    """
    One that is ready and shows what the containers use.
    """
    watched = Watched.make(tmp_path)
    async with watched.metricsd as metricsd:
        await metricsd.ready()
        await watched.shows_use()
        yield watched


async def scrape(metricsd: Metricsd) -> tuple[int, Samples, float]:
    """
    Give status, page and duration of one scrape.
    """
    began = asyncio.get_running_loop().time()
    answer = await metricsd.get("/metrics")
    return answer.status, parse(answer.body), asyncio.get_running_loop().time() - began


def used(page: Samples) -> list[float]:
    names = ("gpu_memory_used_bytes", "container_gpu_memory_used_bytes")
    return [sample.value for name in names for sample in page[PREFIX + name]]


def halved(machine: Machine) -> Machine:
    """
    Give a machine on which each process uses half as much.
    """
    (gpu,) = machine.devices
    processes = tuple(attrs.evolve(process, memory_used_bytes=OTHER_USE_BYTES) for process in gpu.processes)
    return attrs.evolve(machine, devices=(attrs.evolve(gpu, processes=processes),))


class TestScrapes:
    async def test_several_at_once(self, scene: Watched) -> None:
        """Each has the whole page, the same figures as the others."""
        async with asyncio.TaskGroup() as group:
            scrapes = [group.create_task(scrape(scene.metricsd)) for _ in range(AT_ONCE)]
        found = [each.result() for each in scrapes]

        assert [200] * AT_ONCE == [status for status, _, _ in found]
        assert [[float(MEMORY_USED_BYTES)] * 4] * AT_ONCE == [used(page) for _, page, _ in found]
        assert 1 == len({frozenset(page) for _, page, _ in found})

    async def test_during_a_cycle(self, scene: Watched) -> None:
        """While NVML is slow a scrape has the figures of the cycle before, all of them, at once; later the new ones."""
        slow = attrs.evolve(halved(scene.node.machine()), latencies_ms={"DeviceGetMemoryLimits": SLOW_CALL_MS})
        scene.state.write(slow)
        found: list[tuple[int, Samples, float]] = []
        began = asyncio.get_running_loop().time()
        async with asyncio.timeout(20):
            while not found or used(found[-1][1])[0] != OTHER_USE_BYTES:
                found.append(await scrape(scene.metricsd))
                await asyncio.sleep(0.05)

        cycle_seconds = asyncio.get_running_loop().time() - began

        old, new = [float(MEMORY_USED_BYTES)] * 4, [float(OTHER_USE_BYTES)] * 4
        assert {200} == {status for status, _, _ in found}
        assert [old] * (len(found) - 1) + [new] == [used(page) for _, page, _ in found]
        assert max(took for _, _, took in found) < SLOW_CALL_MS / 1000 < cycle_seconds
