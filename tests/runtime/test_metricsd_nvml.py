"""
What can go wrong with NVML under metricsd: it fails, hangs, starts slowly, or becomes another one.

The real program on the simulated driver; records, processes and cgroups are files.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import pynvml
import pytest
import pytest_asyncio
from lab import waiting
from lab.metricsd import PREFIX, Metricsd, Samples, tells_of_pods
from lab.papernode import MEMORY_USED_BYTES, Watched
from simgpu import programs
from simgpu.state import Machine

OLD_DRIVER, NEW_DRIVER = "615.43.02", "620.10.01"
# As long as no call may take; and a while more than the deadline of a call.
FOR_EVER_MS = 600_000
BEYOND_THE_DEADLINE_SECONDS = 20.0


@pytest_asyncio.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Watched]:
    """
    One that is ready.
    """
    watched = Watched.make(tmp_path)
    async with watched.metricsd as metricsd:
        await metricsd.ready()
        yield watched


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """
    Give a place for a library that nothing lies at yet.
    """
    (tmp_path / "lib").mkdir()
    return tmp_path / "lib/libnvidia-ml.so.1"


def install(library: Path, place: Path) -> None:
    """
    Put a library in the place of the one before, as an installer does: a new file under the old name.
    """
    shutil.copy(library, place.with_suffix(".new"))
    place.with_suffix(".new").replace(place)


def by_gpu(page: Samples, name: str) -> list[tuple[str, str, float]]:
    samples = page.get(f"{PREFIX}{name}", ())
    return [(sample.labels["gpu_uuid"], sample.labels["gpu"], sample.value) for sample in samples]


def open_files(metricsd: Metricsd) -> int:
    return len(list((Path("/proc") / str(metricsd.service.pid) / "fd").iterdir()))


class TestNvmlFails:
    async def test_for_a_while(self, scene: Watched) -> None:
        """It goes down visibly, with the reason and without false zeros, comes back by itself, and leaks nothing."""
        metricsd = scene.metricsd
        await self._lose_and_find(scene)
        files, memory_kib = open_files(metricsd), metricsd.service.usage().rss_kib
        pid = metricsd.service.pid
        for _ in range(2):
            await self._lose_and_find(scene)

        assert pid == metricsd.service.pid
        assert metricsd.service.usage().rss_kib - memory_kib < 2048
        await waiting.until(
            lambda: open_files(metricsd) <= files, what=f"at most {files} open files", timeout_seconds=30.0
        )

    async def _lose_and_find(self, scene: Watched) -> None:
        metricsd = scene.metricsd
        await scene.shows_use()
        scene.state.write(attrs.evolve(scene.node.machine(), error=pynvml.NVML_ERROR_UNKNOWN))
        reason = await metricsd.not_ready("UNKNOWN")
        down = await metricsd.shows_value("nvml_up", 0)
        alive = await metricsd.get("/healthz")
        scene.state.write(scene.node.machine())
        await metricsd.ready(timeout_seconds=BEYOND_THE_DEADLINE_SECONDS)
        up = await metricsd.shows_value("nvml_up", 1)

        assert "999" in reason
        assert not tells_of_pods(down)
        assert 200 == alive.status
        assert scene.use_is_shown(up)

    async def test_on_one_gpu_of_two(self, tmp_path: Path) -> None:
        """A GPU that is lost takes nothing from the other one, and is counted and named."""
        scene = Watched.make(tmp_path, gpus=2)
        first, second = scene.node.gpus
        lost = attrs.evolve(first, error=pynvml.NVML_ERROR_GPU_IS_LOST)
        scene.state.write(Machine(devices=(lost, second)))
        async with scene.metricsd as metricsd:
            await metricsd.ready()
            page = await metricsd.shows_value("metricsd_gpus_lost", 1)
            pods = await metricsd.samples("gpu_memory_used_bytes", gpu_uuid=second.uuid)

        assert [float(MEMORY_USED_BYTES)] == [sample.value for sample in pods]
        assert [1.0] == [sample.value for sample in page[f"{PREFIX}nvml_up"]]
        assert [("", "0", 0.0), (second.uuid, "1", 1.0)] == sorted(by_gpu(page, "gpu_up"))

    async def test_without_a_library(self, tmp_path: Path, library: Path) -> None:
        """A node whose driver is not there yet is not ready and says why; the driver installed, it is."""
        scene = Watched.make(tmp_path, library=library)
        async with scene.metricsd as metricsd:
            await metricsd.not_ready("LIBRARY_NOT_FOUND")
            alive = await metricsd.get("/healthz")
            install(programs.locate().library, library)
            await metricsd.ready(timeout_seconds=BEYOND_THE_DEADLINE_SECONDS)

            assert 200 == alive.status
            assert scene.use_is_shown(await metricsd.page())

    async def test_during_an_upgrade(self, tmp_path: Path, library: Path) -> None:
        """A new driver under the old library is told with both versions; the new library in place, all goes on."""
        scene = Watched.make(tmp_path, library=library)
        install(programs.locate().stale_library, library)
        scene.state.write(attrs.evolve(scene.node.machine(), driver=NEW_DRIVER, library=OLD_DRIVER))
        async with scene.metricsd as metricsd:
            reason = await metricsd.not_ready("mismatch")
            install(programs.locate().library, library)
            scene.state.write(attrs.evolve(scene.node.machine(), driver=NEW_DRIVER))
            await metricsd.ready(timeout_seconds=BEYOND_THE_DEADLINE_SECONDS)
            (driver,) = await metricsd.samples("driver_info")

        assert OLD_DRIVER in reason
        assert {"version": NEW_DRIVER} == driver.labels

    async def test_by_an_upgrade_under_it(self, scene: Watched) -> None:
        """A session that was open when the driver changed is made anew, and reads the new version."""
        scene.state.write(attrs.evolve(scene.node.machine(), error=pynvml.NVML_ERROR_DRIVER_NOT_LOADED))
        await scene.metricsd.not_ready("DRIVER_NOT_LOADED")
        scene.state.write(attrs.evolve(scene.node.machine(), driver=NEW_DRIVER))
        await scene.metricsd.ready(timeout_seconds=BEYOND_THE_DEADLINE_SECONDS)

        assert 1.0 == await scene.metricsd.value("driver_info", version=NEW_DRIVER)


class TestGpusGo:
    @pytest_asyncio.fixture
    async def scene(self, tmp_path: Path) -> AsyncIterator[Watched]:
        """
        One with two GPUs and a container with its limit on each, all shown.
        """
        scene = Watched.make(tmp_path, gpus=2)
        scene.node.enforce(scene.state)
        async with scene.metricsd as metricsd:
            await metricsd.ready()
            await scene.shows_use()
            yield scene

    async def test_one_that_is_not_listed_any_more(self, scene: Watched) -> None:
        """Of it nothing is shown, no zeros either, and it is named; back again, all is as before."""
        first, second = scene.node.gpus
        machine = scene.node.machine()
        before = await scene.metricsd.page()
        scene.state.write(attrs.evolve(machine, devices=machine.devices[:1]))
        without = await scene.metricsd.shows_value("metricsd_gpus_lost", 1)
        scene.state.write(machine)
        after = await scene.metricsd.shows_value("metricsd_gpus_lost", 0)

        assert [(first.uuid, "0", float(MEMORY_USED_BYTES))] == by_gpu(without, "gpu_memory_used_bytes")
        assert [(first.uuid, "0", 1.0)] == by_gpu(without, "container_gpu_memory_limit_enforced")
        assert [(first.uuid, "0", 1.0), (second.uuid, "1", 0.0)] == by_gpu(without, "gpu_up")
        assert by_gpu(before, "gpu_memory_used_bytes") == by_gpu(after, "gpu_memory_used_bytes")

    async def test_numbers_are_given_anew(self, scene: Watched) -> None:
        """After a start of the driver without the first GPU the second one's pods are on it, by its new number."""
        first, second = scene.node.gpus
        machine = scene.node.machine()
        scene.state.write(attrs.evolve(machine, error=pynvml.NVML_ERROR_UNKNOWN))
        await scene.metricsd.not_ready("UNKNOWN")
        scene.state.write(attrs.evolve(machine, devices=machine.devices[1:]))
        await scene.metricsd.ready(timeout_seconds=BEYOND_THE_DEADLINE_SECONDS)
        page = await scene.metricsd.shows_value("metricsd_gpus_lost", 1)

        assert [(second.uuid, "0", float(MEMORY_USED_BYTES))] == by_gpu(page, "gpu_memory_used_bytes")
        assert [(second.uuid, "0", float(MEMORY_USED_BYTES))] == by_gpu(page, "container_gpu_memory_used_bytes")
        assert [(second.uuid, "0", 1.0)] == by_gpu(page, "container_gpu_memory_limit_enforced")
        assert {(first.uuid, "0", 0.0), (second.uuid, "0", 1.0)} == set(by_gpu(page, "gpu_up"))

    async def test_none_is_listed_any_more(self, scene: Watched) -> None:
        """No pod is shown then, and all GPUs are named as lost."""
        scene.state.write(attrs.evolve(scene.node.machine(), devices=()))
        page = await scene.metricsd.shows_value("metricsd_gpus_lost", 2)

        assert not tells_of_pods(page)
        assert [0.0, 0.0] == [value for _, _, value in by_gpu(page, "gpu_up")]


class TestNvmlHangs:
    async def test_for_a_while(self, scene: Watched) -> None:
        """Scrapes are answered at once with what was last known, marked stale; overdue, it is down; then well again."""
        metricsd = scene.metricsd
        await scene.shows_use()
        scene.state.write(attrs.evolve(scene.node.machine(), latencies_ms={"DeviceGetCount": FOR_EVER_MS}))
        stale = await metricsd.shows_value("metricsd_snapshot_stale", 1, timeout_seconds=BEYOND_THE_DEADLINE_SECONDS)
        age = await metricsd.value("metricsd_snapshot_age_seconds")
        reason = await metricsd.not_ready("DeviceGetCount", timeout_seconds=BEYOND_THE_DEADLINE_SECONDS)
        began = asyncio.get_running_loop().time()
        down = await metricsd.page()
        took = asyncio.get_running_loop().time() - began
        alive = await metricsd.get("/healthz")
        scene.state.write(scene.node.machine())
        await metricsd.ready(timeout_seconds=BEYOND_THE_DEADLINE_SECONDS)
        fresh = await metricsd.shows_value("metricsd_snapshot_stale", 0)

        assert scene.use_is_shown(stale), "served on while stale"
        assert scene.use_is_shown(down), "served on while overdue"
        assert [0.0] == [sample.value for sample in down[f"{PREFIX}nvml_up"]]
        assert down[f"{PREFIX}metricsd_snapshot_age_seconds"][0].value > age > 0
        # NVML hangs for ever, and its deadline is 10 s.
        assert took < 5.0, reason
        assert 200 == alive.status
        assert scene.use_is_shown(fresh)

    async def test_and_it_is_told_to_end(self, scene: Watched) -> None:
        """A call that never returns does not hold up the end."""
        scene.state.write(attrs.evolve(scene.node.machine(), latency_ms=FOR_EVER_MS))
        await scene.metricsd.shows_value("metricsd_snapshot_stale", 1, timeout_seconds=BEYOND_THE_DEADLINE_SECONDS)
        scene.metricsd.service.signal(signal.SIGTERM)

        assert 0 == await scene.metricsd.service.wait()


class TestStart:
    async def test_on_a_cold_node(self, tmp_path: Path) -> None:
        """A start of NVML longer than any deadline is told as that, never harms liveness, and ends in readiness."""
        scene = Watched.make(tmp_path)
        scene.state.write(attrs.evolve(scene.node.machine(), latencies_ms={"Init": 13_000}))
        async with scene.metricsd as metricsd:
            await metricsd.not_ready("driver starting")
            statuses = []

            async def is_ready() -> bool:
                statuses.append((await metricsd.get("/healthz")).status)
                return (await metricsd.get("/readyz")).status == 200

            await waiting.until_awaited(is_ready, what="readiness", timeout_seconds=25.0)
            page = await metricsd.page()

        assert {200} == set(statuses)
        assert scene.use_is_shown(page)
