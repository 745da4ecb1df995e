"""
What else can go wrong around metricsd: with the records, with processes, with a GPU that shares memory, with settings.

The real program on the simulated driver; records, processes and cgroups are files that the tests write.
"""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import pynvml
import pytest
import pytest_asyncio
from fractioning_core.mapdir import MapDir
from lab import program
from lab.metricsd import PREFIX, Samples, by_pod, tells_of_pods
from lab.papernode import MEMORY_USED_BYTES, Watched
from lab.process import Service
from simgpu.state import GpuProcess, Machine

STALE_WITHIN_SECONDS = 20.0
# As long as no call may take.
FOR_EVER_MS = 600_000
ENFORCED = "container_gpu_memory_limit_enforced"
# What may lie in the directory of records and is none, and what looks like one.
PASSED_OVER = {
    "notes.txt": "a note",
    ".hidden.json": "{",
    ".gpu-fractioning-0.tmp": "{",
}
UNREADABLE = {
    "truncated.json": '{"schemaVersion":1,"po',
    "foreign.json": '["no", "record"]',
    "of-a-later-version.json": '{"schemaVersion":2}',
    "huge.json": '{"schemaVersion":1,"pod":"' + "x" * 100_000 + '"}',
}


@pytest_asyncio.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Watched]:
    """
    One that is ready.
    """
    watched = Watched.make(tmp_path)
    async with watched.metricsd as metricsd:
        await metricsd.ready()
        yield watched


class TestRecords:
    async def test_no_directory(self, tmp_path: Path) -> None:
        """Where fractiond has written nothing yet there are no pods, and that is fine; what it writes is seen."""
        scene = Watched.make(tmp_path)
        shutil.move(scene.node.map_dir, tmp_path / "later")
        async with scene.metricsd as metricsd:
            await metricsd.ready()
            without = await metricsd.turned()
            shutil.move(tmp_path / "later", scene.node.map_dir)
            await scene.shows_use()

        assert not tells_of_pods(without)
        assert [0.0] == [sample.value for sample in without[f"{PREFIX}metricsd_records"]]

    async def test_no_directory_but_a_file(self, scene: Watched, tmp_path: Path) -> None:
        """Records that cannot be read fail the cycle and leave the last snapshot, stale, until they can be again."""
        metricsd = scene.metricsd
        await scene.shows_use()
        shutil.move(scene.node.map_dir, tmp_path / "later")
        scene.node.map_dir.write_text("no directory")
        stale = await metricsd.shows_value("metricsd_snapshot_stale", 1, timeout_seconds=STALE_WITHIN_SECONDS)
        failures = await metricsd.value("metricsd_cycles_total", outcome="node_unreadable")
        scene.node.map_dir.unlink()
        shutil.move(tmp_path / "later", scene.node.map_dir)
        fresh = await metricsd.shows_value("metricsd_snapshot_stale", 0, timeout_seconds=STALE_WITHIN_SECONDS)

        assert scene.use_is_shown(stale)
        assert failures >= 1
        assert scene.use_is_shown(fresh)

    async def test_files_that_are_none(self, scene: Watched) -> None:
        """They cost no other record; those that look like one are counted, and named in the log once and no more."""
        for name, content in {**PASSED_OVER, **UNREADABLE}.items():
            (scene.node.map_dir / name).write_text(content)
        await scene.metricsd.turned()
        page = await scene.metricsd.turned()
        log = [json.dumps(line) for line in scene.metricsd.service.records()]
        told = {name: sum(name in line for line in log) for name in (*PASSED_OVER, *UNREADABLE)}

        assert scene.use_is_shown(page)
        assert [2.0] == [sample.value for sample in page[f"{PREFIX}metricsd_records"]]
        assert [float(len(UNREADABLE))] == [sample.value for sample in page[f"{PREFIX}metricsd_records_unreadable"]]
        assert dict.fromkeys(PASSED_OVER, 0) | dict.fromkeys(UNREADABLE, 1) == told


class TestProcesses:
    async def test_one_that_is_gone(self, scene: Watched) -> None:
        """A process that ended between NVML's list and /proc is counted as vanished, and belongs to nobody."""
        first, second = scene.node.containers
        shutil.rmtree(scene.node.proc_root / str(first.pid))
        page = await scene.metricsd.shows_value("metricsd_processes_unattributed", 1, reason="vanished")

        assert {first.pod: 0.0, second.pod: float(MEMORY_USED_BYTES)} == {
            sample.labels["pod"]: sample.value for sample in page[f"{PREFIX}gpu_memory_used_bytes"]
        }

    async def test_one_whose_id_is_another_s_by_now(self, scene: Watched) -> None:
        """A process that began after NVML was asked is not the one that NVML meant."""
        await scene.shows_use()
        first, _ = scene.node.containers
        scene.node.start_another(first, at_ticks=2**62)
        page = await scene.metricsd.shows_value("metricsd_processes_unattributed", 1, reason="vanished")

        assert [1.0] == [sample.value for sample in page[f"{PREFIX}metricsd_processes_attributed"]]

    async def test_one_without_a_record(self, scene: Watched) -> None:
        """A process that has the limit in its environment, and no record, is told from one that is not fractional."""
        first, second = scene.node.containers
        MapDir(scene.node.map_dir).replace({})
        (scene.node.proc_root / str(second.pid) / "environ").write_text("PATH=/bin\0")
        page = await scene.metricsd.shows_value("metricsd_processes_unattributed", 1, reason="no_record")
        counts = {sample.labels["reason"]: sample.value for sample in page[f"{PREFIX}metricsd_processes_unattributed"]}

        assert {"host": 0.0, "unannotated": 1.0, "no_record": 1.0, "vanished": 0.0} == counts, first
        assert not tells_of_pods(page)

    async def test_none_at_all(self, tmp_path: Path) -> None:
        """A directory that is no /proc is told, where otherwise every process would have vanished."""
        scene = Watched.make(tmp_path)
        shutil.move(scene.node.proc_root, tmp_path / "later")
        scene.node.proc_root.mkdir()
        async with scene.metricsd as metricsd:
            reason = await metricsd.not_ready("no processes at")
            without = await metricsd.page()
            scene.node.proc_root.rmdir()
            shutil.move(tmp_path / "later", scene.node.proc_root)
            await metricsd.ready()
            await scene.shows_use()

        assert str(scene.node.proc_root) in reason
        assert not tells_of_pods(without)

    async def test_a_container_that_has_ended(self, scene: Watched) -> None:
        """While its record is there it is no container whose limit is not in force; its pod keeps its zeros."""
        scene.node.enforce(scene.state)
        await scene.metricsd.shows("limits in force", lambda page: [1.0, 1.0] == values(page, ENFORCED))
        first, second = scene.node.containers
        scene.node.end(first)
        (gpu,) = scene.node.machine().devices
        scene.state.write(Machine(devices=(attrs.evolve(gpu, processes=gpu.processes[1:]),)))
        page = await scene.metricsd.shows_value(
            "container_gpu_memory_limit_enforcement_info", 1, pod=first.pod, reason="ended"
        )

        assert {second.pod: 1.0} == by_pod(page, ENFORCED)
        assert {first.pod: 0.0, second.pod: float(MEMORY_USED_BYTES)} == by_pod(page, "gpu_memory_used_bytes")


class TestWhatNvmlDoesNotTell:
    async def test_sm_use(self, scene: Watched) -> None:
        """A GPU whose SM use cannot be read has no samples of it, where 0 would say idle; memory is shown."""
        await scene.shows_use()
        (gpu,) = scene.node.machine().devices
        failing = attrs.evolve(gpu, errors={"DeviceGetProcessUtilization": pynvml.NVML_ERROR_UNKNOWN})
        scene.state.write(Machine(devices=(failing,)))
        page = await scene.metricsd.shows("no SM use", lambda page: [] == values(page, "gpu_sm_utilization_percent"))

        assert [] == values(page, "gpu_sm_utilization_percent_normalized")
        assert scene.use_is_shown(page)
        assert [1.0] == values(page, "gpu_up")

    async def test_memory_of_a_process(self, scene: Watched) -> None:
        """Its pod and its container have no sample of memory used, and the others have theirs."""
        (gpu,) = scene.node.machine().devices
        first, second = scene.node.containers
        processes = (attrs.evolve(gpu.processes[0], memory_used_bytes=None), *gpu.processes[1:])
        scene.state.write(Machine(devices=(attrs.evolve(gpu, processes=processes),)))
        page = await scene.metricsd.shows(
            "one pod's memory", lambda page: {second.pod} == by_pod(page, "gpu_memory_used_bytes").keys()
        )

        assert {second.pod} == by_pod(page, "container_gpu_memory_used_bytes").keys()
        assert {first.pod, second.pod} == by_pod(page, "gpu_sm_utilization_percent").keys()


class TestUnifiedMemory:
    async def test_a_gpu_without_memory_of_its_own(self, tmp_path: Path) -> None:
        """A total that is not known is said to be so; use is told, normalised is raw, the other GPU is untouched."""
        scene = Watched.make(tmp_path, gpus=2)
        first, second = scene.node.gpus
        shared_container, other_container = scene.node.containers
        shared = attrs.evolve(
            first,
            errors={"DeviceGetMemoryInfo": pynvml.NVML_ERROR_NOT_SUPPORTED},
            processes=(GpuProcess(shared_container.pid, 2 << 30, sm_percent=40),),
        )
        scene.state.write(Machine(devices=(shared, second)))
        async with scene.metricsd as metricsd:
            await metricsd.ready()
            page = await metricsd.shows("two pods", lambda page: len(by_pod(page, "gpu_memory_used_bytes")) == 2)

        assert {shared_container.pod: float(2 << 30), other_container.pod: float(MEMORY_USED_BYTES)} == by_pod(
            page, "gpu_memory_used_bytes"
        )
        assert 40.0 == by_pod(page, "gpu_sm_utilization_percent_normalized")[shared_container.pod]
        assert {shared.uuid: 0.0, second.uuid: 1.0} == by_gpu(page, "gpu_memory_size_known")
        assert {second.uuid: float(second.memory_total_bytes)} == by_gpu(page, "gpu_memory_total_bytes")


class TestSettings:
    async def test_container_metrics_off(self, tmp_path: Path) -> None:
        """Pods are shown and containers are not, and about no limit NVML is asked: a call that hangs harms nobody."""
        scene = Watched.make(tmp_path, flags=["--container-metrics=false"])
        scene.node.enforce(scene.state)
        hanging = {"DeviceGetMemoryLimits": FOR_EVER_MS}
        scene.state.write(attrs.evolve(scene.node.machine(), latencies_ms=hanging))
        async with scene.metricsd as metricsd:
            await metricsd.ready()
            page = await scene.shows_use()

        calls = [sample.labels["function"] for sample in page[f"{PREFIX}metricsd_nvml_call_seconds_count"]]
        assert "DeviceGetMemoryLimits" not in calls
        assert "DeviceGetProcessUtilization" in calls
        assert [] == [name for name in page if name.startswith(f"{PREFIX}container_")]

    async def test_a_port_that_is_taken(self, tmp_path: Path) -> None:
        """Without a page there is no use in running: it ends with 1, and one line that names the address."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            async with Watched.make(tmp_path, flags=[f"--metrics-address={address}"]).metricsd as metricsd:
                status = await metricsd.service.wait()

        assert 1 == status
        assert 1 == len([line for line in metricsd.service.output().splitlines() if address in line])
        assert "Traceback" not in metricsd.service.output()

    @pytest.mark.parametrize(
        ("flags", "complaint"),
        [
            pytest.param(["--metric-name-gpu-memory-used-bytes=1st"], "1st", id="a leading digit"),
            pytest.param(["--metric-name-gpu-sm-utilization-percent=a-b"], "a-b", id="a dash"),
            pytest.param(
                ["--metric-name-gpu-memory-used-bytes=x", "--metric-name-gpu-sm-utilization-percent=x"],
                "metric-name-gpu-sm-utilization-percent",
                id="the same twice",
            ),
            pytest.param(
                ["--metric-name-gpu-memory-used-bytes=gpu_fractioning_nvml_up"],
                "gpu_fractioning_nvml_up",
                id="a name that the page has already",
            ),
        ],
    )
    async def test_names_that_cannot_be(self, tmp_path: Path, flags: list[str], complaint: str) -> None:
        """They stop the start with 2, and the message names the flag or the name."""
        async with Watched.make(tmp_path, flags=flags).metricsd as metricsd:
            status = await metricsd.service.wait()

        assert 2 == status
        assert complaint in metricsd.service.output()

    async def test_switched_off(self, tmp_path: Path) -> None:
        """Told not to serve metrics, it says so and ends with 0 at once, without looking at the driver."""
        argv: list[str | Path] = [program.script("metricsd"), "--metrics-enabled=false"]
        async with Service("metricsd-off", argv, directory=tmp_path) as service:
            status = await service.wait()

        assert 0 == status
        assert ["metrics_disabled"] == [line["event"] for line in service.records()]


def values(page: Samples, name: str) -> list[float]:
    return [sample.value for sample in page.get(PREFIX + name, ())]


def by_gpu(page: Samples, name: str) -> dict[str, float]:
    return {sample.labels["gpu_uuid"]: sample.value for sample in page[PREFIX + name]}
