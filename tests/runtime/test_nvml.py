"""
NVML as mpsd meets it: pynvml and the simulated library, in a process of its own, while the machine changes under it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.nvmlscene import Scene
from simgpu.state import Gpu, Machine


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """
    A machine with r615 and no GPU; its readers are ended after the test.
    """
    made = Scene(tmp_path)
    yield made
    made.end()


class TestReadings:
    def test_the_version(self, scene: Scene) -> None:
        """
        The driver's version is read as NVML has it, and anew each time.
        """
        reader = scene.reader()
        before = reader.ask("driver_version")["value"]
        scene.state.write(Machine(driver="620.10.01"))

        assert (before, reader.ask("driver_version")["value"]) == ("615.43.02", "620.10.01")

    def test_the_devices(self, scene: Scene) -> None:
        """
        Devices come with minor and memory; a card that does not tell its memory keeps its place.
        """
        unified = Gpu("GPU-2", minor=5, errors={"DeviceGetMemoryInfo": 3})
        scene.state.write(Machine(devices=(Gpu("GPU-1", memory_total_bytes=1 << 30), unified)))

        assert scene.reader().ask("devices")["value"] == [
            {"index": 0, "uuid": "GPU-1", "minor": 0, "memory_total_bytes": 1 << 30},
            {"index": 1, "uuid": "GPU-2", "minor": 5, "memory_total_bytes": None},
        ]

    def test_a_device_that_is_lost(self, scene: Scene) -> None:
        """
        A device that fails fails the reading, with the function and the error's name.
        """
        scene.state.write(Machine(devices=(Gpu("GPU-1", error=15),)))

        assert scene.reader().ask("devices")["text"] == "NVML DeviceGetUUID: GPU_IS_LOST (15)"

    def test_a_version_that_is_no_text(self, scene: Scene) -> None:
        """
        Bytes that mean nothing are an error like any other, and the next reading is made all the same.
        """
        reader = scene.reader()
        scene.state.path.write_bytes(b"driver = \xff\xfe\n")
        garbled = reader.ask("driver_version")
        scene.state.write(Machine())

        assert ("NvmlUnavailable", "NVML SystemGetDriverVersion: UNKNOWN (999)") == (garbled["error"], garbled["text"])
        assert "615.43.02" == reader.ask("driver_version")["value"]

    def test_nothing_is_left_open(self, scene: Scene) -> None:
        """
        Reading for long, well and badly, leaves neither files nor threads behind.
        """
        reader = scene.reader()
        first = reader.ask("driver_version")
        for number in range(100):
            scene.state.write(Machine(error=999 if number % 3 == 0 else 0))
            last = reader.ask("driver_version")

        assert (first["fds"], first["threads"]) == (last["fds"], last["threads"])


class TestFaults:
    def test_a_library_that_comes_later(self, scene: Scene) -> None:
        """
        A library that cannot be loaded is named, and found without a restart once it is there.
        """
        # Not an absent file: this machine may have a library of its own on the loader's path.
        (scene.folder / "libnvidia-ml.so.1").write_text("no library")
        reader = scene.reader()
        before = reader.ask("driver_version")
        scene.install(scene.driver.library)

        assert (before["error"], reader.ask("driver_version")["value"]) == ("LibraryMissing", "615.43.02")

    def test_half_an_upgrade(self, scene: Scene) -> None:
        """
        A library older than the loaded module is a mismatch, and the new one is taken as soon as it lies there.
        """
        scene.install(scene.driver.stale_library)
        reader = scene.reader()
        before = [reader.ask("driver_version") for _ in range(2)]
        scene.install(scene.driver.library)

        assert {answer["error"] for answer in before} == {"DriverMismatch"}
        assert "driver library 580.95.05 and kernel module mismatch" in before[1]["text"]
        assert reader.ask("driver_version")["value"] == "615.43.02"

    def test_a_mismatch_in_the_middle(self, scene: Scene) -> None:
        """
        A module exchanged while we read is a mismatch too, named with the function that met it.
        """
        scene.state.write(Machine(errors={"SystemGetDriverVersion": 18}))
        answer = scene.reader().ask("driver_version")

        assert (answer["error"], answer["text"].split(":")[0]) == ("DriverMismatch", "NVML SystemGetDriverVersion")

    def test_unknown_errors_for_a_while(self, scene: Scene) -> None:
        """
        After any error the next reading starts over, and succeeds when NVML does.
        """
        reader = scene.reader()
        answers = []
        for error in (0, 999, 999, 9, 0):
            scene.state.write(Machine(error=error))
            answer = reader.ask("driver_version")
            answers.append(answer.get("value") or answer["text"])

        assert answers == [
            "615.43.02",
            "NVML Init: UNKNOWN (999)",
            "NVML Init: UNKNOWN (999)",
            "NVML Init: DRIVER_NOT_LOADED (9)",
            "615.43.02",
        ]

    def test_a_start_that_hangs(self, scene: Scene) -> None:
        """
        While NVML hangs for 30 s the loop turns, later readings fail at once, and no thread is added.
        """
        scene.state.write(Machine(latencies_ms={"Init": 30_000}))
        reader = scene.reader(deadline_seconds=1.0)
        first = reader.ask("driver_version")
        started = time.monotonic()
        later = [reader.ask("driver_version") for _ in range(10)]
        elapsed = time.monotonic() - started

        assert {answer["error"] for answer in (first, *later)} == {"NvmlSilent"}
        assert first["ticks"] >= 10
        # Ten deadlines would be 10 s.
        assert elapsed < 5.0
        assert later[-1]["threads"] == 1

    def test_a_start_that_came_back(self, scene: Scene) -> None:
        """
        Once the call that hung has returned, readings work again in the same process.
        """
        scene.state.write(Machine(latencies_ms={"Init": 30_000}))
        reader = scene.reader(deadline_seconds=0.2)
        before = reader.ask("driver_version")["error"]
        scene.state.write(Machine())
        deadline = time.monotonic() + 5
        while (after := reader.ask("driver_version")).get("value") is None and time.monotonic() < deadline:
            time.sleep(0.02)

        assert (before, after.get("value")) == ("NvmlSilent", "615.43.02")

    def test_the_end_while_it_hangs(self, scene: Scene) -> None:
        """
        A process whose NVML hangs still ends when it is done.
        """
        scene.state.write(Machine(latencies_ms={"Init": 30_000}))
        reader = scene.reader(deadline_seconds=0.2)
        reader.ask("driver_version")

        assert scene.readers.pop().end() == 0
