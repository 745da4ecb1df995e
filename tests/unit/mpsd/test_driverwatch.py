from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import pytest
import structlog
from fractioning_core.errors import FractioningError
from fractioning_core.nvml import errors as nvml
from mpsd.driverstate import DriverFacts, DriverProblem, DriverState
from mpsd.driverwatch import READ_SECONDS, DriverWatch

pytestmark = pytest.mark.looptime

UNKNOWN = nvml.returned(999, name="UNKNOWN", function="Init")
MISMATCH = nvml.returned(nvml.LIB_RM_VERSION_MISMATCH, name="LIB_RM_VERSION_MISMATCH", function="Init")
MISSING = nvml.returned(nvml.LIBRARY_NOT_FOUND, name="LIBRARY_NOT_FOUND", function="Init")


def now() -> float:
    return asyncio.get_running_loop().time()


@attrs.define
class Driver:
    """
    A driver that answers with what it is set to, late where it is told to be, and remembers when it was asked.
    """

    answer: str | FractioningError = "615.43.02"
    seconds: float = 0.0
    asked_at: list[float] = attrs.field(factory=list)

    async def driver_version(self) -> str:
        """
        Answer.
        """
        self.asked_at.append(now())
        await asyncio.sleep(self.seconds)
        if isinstance(self.answer, FractioningError):
            raise self.answer
        return self.answer


@attrs.define
class Scene:
    """
    A watch over a driver.
    """

    proc_root: Path
    driver: Driver = attrs.field(factory=Driver)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[DriverState]:
        """
        Run the watch.
        """
        # Made here, since the time before the test is not the virtual one.
        state = DriverState(now)
        watch = DriverWatch(self.driver, proc_root=self.proc_root, state=state)
        task = asyncio.create_task(watch.run())
        try:
            yield state
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


class TestReading:
    """
    What the state learns.
    """

    async def test_version(self, scene: Scene) -> None:
        """
        The first answer is known at once, without the blanks around it.
        """
        scene.driver.answer = " 615.43.02\n"

        async with scene.watched() as state:
            await state.changed()

        assert DriverFacts(version="615.43.02", major=615) == state.driver

    async def test_upgrade(self, scene: Scene) -> None:
        """
        Another version is known one reading later.
        """
        async with scene.watched() as state:
            await asyncio.sleep(1)
            scene.driver.answer = "620.10.01"
            await asyncio.sleep(READ_SECONDS)

        assert 620 == state.current()

    @pytest.mark.parametrize(
        ("answer", "problem", "reason"),
        [
            pytest.param(UNKNOWN, DriverProblem.FAILED, "NVML Init: UNKNOWN (999)", id="an error"),
            pytest.param(
                MISSING,
                DriverProblem.LIBRARY_MISSING,
                "NVML Init: LIBRARY_NOT_FOUND (12): no libnvidia-ml.so.1 here that can be loaded",
                id="no library",
            ),
            pytest.param(
                "r615",
                DriverProblem.MALFORMED,
                'NVML SystemGetDriverVersion: "r615" is not an NVIDIA driver version; '
                "accepted: a version such as 615.43.02",
                id="no version",
            ),
            pytest.param(
                "",
                DriverProblem.MALFORMED,
                'NVML SystemGetDriverVersion: "" is not an NVIDIA driver version; '
                "accepted: a version such as 615.43.02",
                id="an empty version",
            ),
            pytest.param(
                nvml.NvmlSilent("Init", 10.0), DriverProblem.STARTING, "driver starting, 11 s", id="no answer yet"
            ),
        ],
    )
    async def test_failure(
        self, scene: Scene, answer: str | FractioningError, problem: DriverProblem, reason: str
    ) -> None:
        """
        Each kind of failure has a name and a reason.
        """
        scene.driver.answer, scene.driver.seconds = answer, 10.0

        async with scene.watched() as state:
            await asyncio.sleep(10.9)
            seen = (state.driver.problem, state.driver_reason())

        assert (problem, reason) == seen

    async def test_silence_later(self, scene: Scene) -> None:
        """
        Silence after an answer leaves what is known, and is counted from the question that is not answered.
        """
        async with scene.watched() as state:
            await asyncio.sleep(1)
            scene.driver.answer, scene.driver.seconds = nvml.NvmlSilent("SystemGetDriverVersion", 10.0), 10.0
            await asyncio.sleep(READ_SECONDS + 10)
            seen = (state.current(), state.driver.problem, state.driver_reason())

        assert (615, DriverProblem.SILENT, "NVML does not answer, 11 s") == seen


class TestHalfUpgrade:
    """
    A library that was replaced under a loaded module.
    """

    async def test_reason(self, scene: Scene) -> None:
        """
        The reason names both versions and what to do.
        """
        (scene.proc_root / "driver/nvidia").mkdir(parents=True)
        (scene.proc_root / "driver/nvidia/version").write_text("NVRM version: Kernel Module  615.43.02  Tue\n")
        (scene.proc_root / "self").mkdir()
        (scene.proc_root / "self/maps").write_text("0-1 r--p 0 fe:01 9 /usr/lib/libnvidia-ml.so.620.10.01\n")
        scene.driver.answer = MISMATCH

        async with scene.watched() as state:
            await state.changed()

        assert (
            "NVML Init: LIB_RM_VERSION_MISMATCH (18): driver library and kernel module mismatch: "
            "the NVML library is version 620.10.01, the loaded kernel module version 615.43.02; "
            "reboot the node or reload the module"
        ) == state.driver_reason()

    async def test_healed(self, scene: Scene) -> None:
        """
        It ends with the first answer.
        """
        scene.driver.answer = MISMATCH
        async with scene.watched() as state:
            await state.changed()
            scene.driver.answer = "620.10.01"
            await asyncio.sleep(READ_SECONDS)

        assert (False, 620) == (state.is_half_upgraded, state.current())


class TestPace:
    """
    How often NVML is asked.
    """

    async def test_healthy(self, scene: Scene) -> None:
        """
        An answering NVML is asked every ten seconds.
        """
        async with scene.watched():
            await asyncio.sleep(25)

        assert [0, 10, 20] == scene.driver.asked_at

    async def test_failing(self, scene: Scene) -> None:
        """
        A failing one is asked more often at first, and never in a tight loop.
        """
        scene.driver.answer = UNKNOWN
        async with scene.watched():
            await asyncio.sleep(36)

        assert [0, 1, 3, 7, 15, 25, 35] == scene.driver.asked_at

    async def test_recovery(self, scene: Scene) -> None:
        """
        One answer ends the back-off.
        """
        scene.driver.answer = UNKNOWN
        async with scene.watched():
            await asyncio.sleep(10)
            scene.driver.answer = "615.43.02"
            await asyncio.sleep(10)
            scene.driver.answer = UNKNOWN
            await asyncio.sleep(7)

        assert [0, 1, 3, 7, 15, 25, 26] == scene.driver.asked_at


class TestLog:
    """
    What the log says.
    """

    async def test_once(self, scene: Scene) -> None:
        """
        Each change is one line, and a failure that stays is not repeated.
        """
        lines: list[MutableMapping[str, Any]]
        with structlog.testing.capture_logs() as lines:
            scene.driver.answer = UNKNOWN
            async with scene.watched():
                await asyncio.sleep(60)
                scene.driver.answer = "615.43.02"
                await asyncio.sleep(60)

        assert [
            {
                "event": "driver_not_read",
                "log_level": "warning",
                "kind": "nvml_failed",
                "error": "NVML Init: UNKNOWN (999)",
            },
            {"event": "driver_read", "log_level": "info", "version": "615.43.02", "major": 615},
        ] == lines
