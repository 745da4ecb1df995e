"""
NVML as metricsd meets it: one session, pynvml and the simulated library, while the machine changes under it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.nvmlscene import Reader, Scene
from simgpu.limits import MAX, Limit, LimitsFile
from simgpu.state import Gpu, GpuProcess, Machine, SmSample

GIB = 1 << 30
LIMITS = {"soft_bytes": GIB, "hard_bytes": 2 * GIB, "used_bytes": 0}


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """
    A machine with r615 and no GPU; its readers are ended after the test.
    """
    made = Scene(tmp_path)
    yield made
    made.end()


@pytest.fixture
def cgroup(tmp_path: Path) -> Path:
    """
    A directory that stands for a cgroup, in a tree that is marked as one of v2.
    """
    made = tmp_path / "cgroup" / "a.scope"
    made.mkdir(parents=True)
    (tmp_path / "cgroup" / "cgroup.controllers").touch()
    return made


def functions(monitor: Reader) -> list[str]:
    """
    Name the functions that were called since the last time.
    """
    return [call["function"] for call in monitor.ask("take_calls")["value"]]


def uuids(answer: dict[str, Any]) -> list[str]:
    """
    Name the GPUs of a sample.
    """
    return [device["device"]["uuid"] for device in answer["value"]["devices"]]


class TestSamples:
    def test_a_busy_machine(self, scene: Scene) -> None:
        """
        A sample has driver, identity, both kinds of processes, and what they use; what is not told is None.
        """
        busy = Gpu(
            "GPU-1",
            minor=5,
            memory_total_bytes=80 * GIB,
            processes=(GpuProcess(7, GIB, 40), GpuProcess(8, None), GpuProcess(0, GIB)),
            graphics_processes=(GpuProcess(7, 2 * GIB),),
        )
        unified = Gpu("GPU-2", errors={"DeviceGetMemoryInfo": 3})
        scene.state.write(Machine(devices=(busy, unified)))

        sample = scene.monitor().ask("sample")["value"]

        percents = [(use["pid"], use["sm_percent"]) for use in sample["devices"][0].pop("sm")]
        assert [(7, 40)] == percents
        assert {
            "driver_version": "615.43.02",
            "devices": [
                {
                    "device": {"index": 0, "uuid": "GPU-1", "minor": 5, "memory_total_bytes": 80 * GIB},
                    "compute": [{"pid": 7, "used_bytes": GIB}, {"pid": 8, "used_bytes": None}],
                    "graphics": [{"pid": 7, "used_bytes": 2 * GIB}],
                    "problems": [],
                },
                {
                    "device": {"index": 1, "uuid": "GPU-2", "minor": 1, "memory_total_bytes": None},
                    "compute": [],
                    "graphics": [],
                    "sm": [],
                    "problems": [],
                },
            ],
            "lost": [],
        } == sample

    def test_a_use_counts_once(self, scene: Scene) -> None:
        """
        A sample of the driver's buffer is told once, the newest of a process alone, and nonsense never.
        """
        now = time.time_ns() // 1000
        samples = (
            SmSample(7, 30, now - 2_000_000),
            SmSample(7, 50, now - 1_000_000),
            SmSample(8, 20, now - 1_500_000, memory_percent=4_294_967),
            SmSample(0, 20, now - 1_500_000),
            SmSample(9, 90, now - 60_000_000),
        )
        scene.state.write(Machine(devices=(Gpu("GPU-1", samples=samples),)))
        monitor = scene.monitor()

        seen = [monitor.ask("sample")["value"]["devices"][0]["sm"] for _ in range(2)]

        assert [[{"pid": 7, "sm_percent": 50, "timestamp_us": now - 1_000_000}], []] == seen

    def test_one_session(self, scene: Scene) -> None:
        """
        NVML is opened once, and only what changes is read again.
        """
        scene.state.write(Machine(devices=(Gpu("GPU-1"),)))
        monitor = scene.monitor()
        monitor.ask("sample")
        first = functions(monitor)
        for _ in range(3):
            monitor.ask("sample")

        each = [
            "SystemGetDriverVersion",
            "DeviceGetCount",
            "DeviceGetComputeRunningProcesses",
            "DeviceGetGraphicsRunningProcesses",
            "DeviceGetProcessUtilization",
        ]
        assert ("Init", each * 3) == (first[0], functions(monitor))

    def test_what_a_call_takes(self, scene: Scene) -> None:
        """
        The time of each call is told, with the error that it returned.
        """
        errors = {"DeviceGetGraphicsRunningProcesses": 3}
        scene.state.write(Machine(devices=(Gpu("GPU-1"),), errors=errors, latencies_ms={"DeviceGetCount": 40}))
        monitor = scene.monitor()
        monitor.ask("sample")

        calls = {call["function"]: call for call in monitor.ask("take_calls")["value"]}

        assert 0.04 <= calls["DeviceGetCount"]["seconds"] < 1.0
        assert "NOT_SUPPORTED" == calls["DeviceGetGraphicsRunningProcesses"]["error"]

    def test_lists_that_grow(self, scene: Scene) -> None:
        """
        A list that grows while it is read is read again, whichever it is.
        """
        # As often as the driver's own retries may meet it; each try asks twice.
        races = {
            "DeviceGetComputeRunningProcesses": 2,
            "DeviceGetGraphicsRunningProcesses": 2,
            "DeviceGetProcessUtilization": 2,
        }
        process = GpuProcess(7, GIB, 40)
        gpu = Gpu("GPU-1", processes=(process,), graphics_processes=(process,), races=races)
        scene.state.write(Machine(devices=(gpu,)))

        device = scene.monitor().ask("sample")["value"]["devices"][0]

        lists = {name: [entry["pid"] for entry in device[name]] for name in ("compute", "graphics", "sm")}
        assert ({"compute": [7], "graphics": [7], "sm": [7]}, []) == (lists, device["problems"])

    def test_mig(self, scene: Scene) -> None:
        """
        A GPU in MIG mode has its processes and no samples, which is no problem.
        """
        scene.state.write(Machine(devices=(Gpu("GPU-1", processes=(GpuProcess(7, GIB, 40),), mig=True),)))

        device = scene.monitor().ask("sample")["value"]["devices"][0]

        assert ([7], [], []) == ([entry["pid"] for entry in device["compute"]], device["sm"], device["problems"])


class TestFaults:
    def test_one_gpu_falls_off_the_bus(self, scene: Scene) -> None:
        """
        The others go on, and it is there again when it is back.
        """
        both = (Gpu("GPU-1"), Gpu("GPU-2"))
        scene.state.write(Machine(devices=both))
        monitor = scene.monitor()
        before = monitor.ask("sample")
        scene.state.write(Machine(devices=(Gpu("GPU-1", error=15), Gpu("GPU-2"))))
        meanwhile = monitor.ask("sample")
        scene.state.write(Machine(devices=both))

        assert [["GPU-1", "GPU-2"], ["GPU-2"], ["GPU-1", "GPU-2"]] == [
            uuids(answer) for answer in (before, meanwhile, monitor.ask("sample"))
        ]
        assert [(0, "GPU_IS_LOST")] == [(lost["index"], lost["problem"]["name"]) for lost in meanwhile["value"]["lost"]]

    def test_unknown_errors_for_a_while(self, scene: Scene) -> None:
        """
        While everything fails readings do, and leave neither files nor threads behind; then they succeed again.
        """
        devices = (Gpu("GPU-1"),)
        scene.state.write(Machine(devices=devices))
        monitor = scene.monitor()
        first = monitor.ask("sample")
        scene.state.write(Machine(devices=devices, error=999))
        failed = [monitor.ask("sample")["text"] for _ in range(100)]
        scene.state.write(Machine(devices=devices))
        last = monitor.ask("sample")

        assert "NVML SystemGetDriverVersion: UNKNOWN (999)" == failed[0]
        assert {"NVML Init: UNKNOWN (999)"} == set(failed[1:])
        assert (first["value"], first["fds"], first["threads"]) == (last["value"], last["fds"], last["threads"])

    def test_the_driver_is_upgraded(self, scene: Scene) -> None:
        """
        A library older than the module is a mismatch, and the new one is taken as soon as it lies there.
        """
        scene.install(scene.driver.stale_library)
        monitor = scene.monitor()
        before = [monitor.ask("sample") for _ in range(2)]
        scene.install(scene.driver.library)

        assert {"DriverMismatch"} == {answer["error"] for answer in before}
        assert "driver library 580.95.05 and kernel module mismatch" in before[1]["text"]
        assert "615.43.02" == monitor.ask("sample")["value"]["driver_version"]

    @pytest.mark.parametrize("code", [pytest.param(1, id="uninitialized"), pytest.param(9, id="no driver"), 18])
    def test_the_session_ends_in_the_middle(self, scene: Scene, code: int) -> None:
        """
        An error of the session, from a call about one GPU, fails the reading, and the next one opens a new session.
        """
        devices = (Gpu("GPU-1"), Gpu("GPU-2"))
        scene.state.write(Machine(devices=devices))
        monitor = scene.monitor()
        monitor.ask("sample")
        scene.state.write(Machine(devices=devices, errors={"DeviceGetProcessUtilization": code}))
        failed = monitor.ask("sample")["text"]
        scene.state.write(Machine(devices=devices))
        functions(monitor)

        assert f"({code})" in failed
        assert ["GPU-1", "GPU-2"] == uuids(monitor.ask("sample"))
        assert "Init" == functions(monitor)[0]

    def test_a_call_that_hangs(self, scene: Scene) -> None:
        """
        While a call hangs the loop turns, every reading says in which function, and afterwards readings work again.
        """
        scene.state.write(Machine(devices=(Gpu("GPU-1"),)))
        monitor = scene.monitor(deadline_seconds=1.0)
        monitor.ask("sample")
        hanging = Machine(devices=(Gpu("GPU-1"),), latencies_ms={"DeviceGetComputeRunningProcesses": 30_000})
        scene.state.write(hanging)
        first, second = monitor.ask("sample"), monitor.ask("memory_limits", [])
        scene.state.write(Machine(devices=(Gpu("GPU-1"),)))
        deadline = time.monotonic() + 5
        while "value" not in (after := monitor.ask("sample")) and time.monotonic() < deadline:
            time.sleep(0.02)

        text = re.compile(r"NVML DeviceGetComputeRunningProcesses has not answered for \d+ s")
        assert [] == [answer["text"] for answer in (first, second) if not text.fullmatch(answer["text"])]
        assert first["ticks"] >= 10
        assert (["GPU-1"], 1) == (uuids(after), after["threads"])

    def test_the_end_while_it_hangs(self, scene: Scene) -> None:
        """
        A process whose NVML hangs still ends when it is done.
        """
        scene.state.write(Machine(latencies_ms={"DeviceGetCount": 30_000}))
        monitor = scene.monitor(deadline_seconds=0.2)
        monitor.ask("sample")

        assert 0 == scene.readers.pop().end()


class TestLimits:
    def test_what_is_set(self, scene: Scene, cgroup: Path) -> None:
        """
        Limits are read for each cgroup and GPU in the order of the queries, as are errors.
        """
        scene.state.write(Machine(devices=(Gpu("GPU-1", cgroup_used_bytes={cgroup: 5}), Gpu("GPU-2"))))
        limits = LimitsFile(scene.state)
        limits.put(Limit("GPU-1", cgroup, soft_bytes=GIB, hard_bytes=2 * GIB))
        limits.put(Limit("GPU-2", cgroup, soft_bytes=0, hard_bytes=MAX))
        gone = str(cgroup.with_name("gone.scope"))
        other = cgroup.with_name("other.scope")
        other.mkdir()
        monitor = scene.monitor()
        monitor.ask("sample")

        answers = monitor.ask("memory_limits", [(1, str(cgroup)), (0, str(cgroup)), (0, gone), (0, str(other))])

        assert [
            {"soft_bytes": 0, "hard_bytes": None, "used_bytes": 0},
            LIMITS | {"used_bytes": 5},
            {"code": 17, "name": "OPERATING_SYSTEM", "function": "DeviceGetMemoryLimits"},
            {"code": 6, "name": "NOT_FOUND", "function": "DeviceGetMemoryLimits"},
        ] == answers["value"]

    def test_a_library_before_r615(self, scene: Scene, cgroup: Path) -> None:
        """
        A library without the function is asked once, and every query has that error.
        """
        scene.install(scene.driver.old_library)
        scene.state.write(Machine(driver="580.95.05", devices=(Gpu("GPU-1"),)))
        monitor = scene.monitor()
        monitor.ask("sample")
        functions(monitor)

        answers = monitor.ask("memory_limits", [(0, str(cgroup))] * 3)["value"]

        missing = {"code": 13, "name": "FUNCTION_NOT_FOUND", "function": "DeviceGetMemoryLimits"}
        assert ([missing] * 3, ["DeviceGetMemoryLimits"]) == (answers, functions(monitor))

    @pytest.mark.parametrize(
        "machine",
        [
            pytest.param(Machine(devices=(Gpu("GPU-1", mig=True),)), id="mig"),
            pytest.param(Machine(devices=(Gpu("GPU-1"),), memory_limits=False), id="switched off"),
        ],
    )
    def test_not_supported(self, scene: Scene, cgroup: Path, machine: Machine) -> None:
        """
        A GPU that has no limits says so for each cgroup.
        """
        scene.state.write(machine)
        monitor = scene.monitor()
        monitor.ask("sample")

        answers = monitor.ask("memory_limits", [(0, str(cgroup))] * 2)["value"]

        assert ["NOT_SUPPORTED"] * 2 == [answer["name"] for answer in answers]

    def test_a_mismatch(self, scene: Scene, cgroup: Path) -> None:
        """
        An error of the session fails them all.
        """
        scene.state.write(Machine(devices=(Gpu("GPU-1"),), errors={"DeviceGetMemoryLimits": 18}))

        answer = scene.monitor().ask("memory_limits", [(0, str(cgroup))] * 2)

        assert "DriverMismatch" == answer["error"]
