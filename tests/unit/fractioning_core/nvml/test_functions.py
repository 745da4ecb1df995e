from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest
from fractioning_core.nvml import errors
from fractioning_core.nvml.errors import DriverMismatch, NvmlUnavailable
from fractioning_core.nvml.functions import Functions, Handle, Utilization
from fractioning_core.nvml.samples import MemoryLimits, ProcessMemory

DEVICE = Handle("a device")
MAX = 2**64 - 1

# pynvml is replaced here, function by function; tests/runtime/test_nvmlmonitor.py meets it with a library behind it.
Replace = Callable[[str, Callable[..., Any]], None]


@pytest.fixture
def replace(monkeypatch: pytest.MonkeyPatch) -> Replace:
    """
    Replaces a function of pynvml for the test.
    """
    return lambda name, function: monkeypatch.setattr(pynvml, name, function)


@pytest.fixture
def calls() -> list[tuple[str, str]]:
    """
    What was told of calls: the function, and the error's name.
    """
    return []


@pytest.fixture
def functions(calls: list[tuple[str, str]]) -> Functions:
    """
    The functions, whose calls are noted.
    """
    return Functions(on_call=lambda function, _seconds, error: calls.append((function, error)))


def failing(error: Exception) -> Callable[..., Any]:
    """
    Make a function that raises.
    """

    def fail(*_: object) -> None:
        raise error

    return fail


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "code", "name"),
        [
            pytest.param(pynvml.NVMLError(15), 15, "GPU_IS_LOST", id="of nvml.h"),
            pytest.param(pynvml.NVMLError(4242), 4242, "UNNAMED", id="newer than our nvml.h"),
            pytest.param(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"), 999, "UNKNOWN", id="no text"),
            pytest.param(OSError("cannot open"), 999, "UNKNOWN", id="the loader's"),
        ],
    )
    def test_one_kind(
        self,
        replace: Replace,
        functions: Functions,
        calls: list[tuple[str, str]],
        error: Exception,
        code: int,
        name: str,
    ) -> None:
        """
        Whatever pynvml raises crosses the border as one kind, and is told of with the call.
        """
        replace("nvmlDeviceGetCount", failing(error))
        with pytest.raises(NvmlUnavailable) as told:
            functions.device_count()

        assert errors.returned(code, name=name, function="DeviceGetCount") == told.value
        assert [("DeviceGetCount", name)] == calls

    def test_a_mismatch(self, replace: Replace, functions: Functions) -> None:
        """
        A mismatch names the library's version, which tells which half is old.
        """
        replace("nvmlDeviceGetCount", failing(pynvml.NVMLError(18)))
        replace("nvmlSystemGetNVMLVersion", lambda: "580.95.05")
        with pytest.raises(DriverMismatch) as told:
            functions.device_count()

        assert DriverMismatch(18, "LIB_RM_VERSION_MISMATCH", "DeviceGetCount", "580.95.05") == told.value

    def test_a_mismatch_without_a_version(self, replace: Replace, functions: Functions) -> None:
        """
        A library that does not even tell its version is a mismatch all the same.
        """
        for name in ("nvmlDeviceGetCount", "nvmlSystemGetNVMLVersion"):
            replace(name, failing(pynvml.NVMLError(18)))
        with pytest.raises(DriverMismatch) as told:
            functions.device_count()

        assert DriverMismatch(18, "LIB_RM_VERSION_MISMATCH", "DeviceGetCount") == told.value

    def test_a_shutdown(self, replace: Replace, functions: Functions, calls: list[tuple[str, str]]) -> None:
        """
        A shutdown that fails is told of and raises nothing.
        """
        replace("nvmlShutdown", failing(pynvml.NVMLError(1)))
        functions.shutdown()

        assert [("Shutdown", "UNINITIALIZED")] == calls


class TestValues:
    def test_processes(self, replace: Replace, functions: Functions) -> None:
        """
        Process 0 is none, and memory that is not told stays so.
        """
        entries = [SimpleNamespace(pid=pid, usedGpuMemory=memory) for pid, memory in ((7, 5), (0, 6), (8, None))]
        for name in ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3"):
            replace(name, lambda _: entries)

        expected = (ProcessMemory(7, 5), ProcessMemory(8, None))
        assert (expected, expected) == (functions.compute_processes(DEVICE), functions.graphics_processes(DEVICE))

    def test_utilization(self, replace: Replace, functions: Functions) -> None:
        """
        Entries are given as they are.
        """
        entry = SimpleNamespace(pid=0, timeStamp=5, smUtil=1, memUtil=2, encUtil=3, decUtil=400)
        replace("nvmlDeviceGetProcessUtilization", lambda _device, _since: [entry])

        assert (Utilization(0, 5, 1, 2, 3, 400),) == functions.utilization(DEVICE, 0)

    def test_utilization_without_entries(
        self, replace: Replace, functions: Functions, calls: list[tuple[str, str]]
    ) -> None:
        """
        A success without entries, which pynvml raises, is no error.
        """
        replace("nvmlDeviceGetProcessUtilization", failing(pynvml.NVMLError(pynvml.NVML_SUCCESS)))

        assert () == functions.utilization(DEVICE, 0)
        assert [("DeviceGetProcessUtilization", "")] == calls

    @pytest.mark.parametrize(
        ("hard", "hard_bytes"),
        [
            pytest.param(2 << 30, 2 << 30, id="set"),
            pytest.param(MAX, None, id="none"),
            pytest.param(0, 0, id="nothing"),
        ],
    )
    def test_limits(self, replace: Replace, functions: Functions, hard: int, hard_bytes: int | None) -> None:
        """
        The cgroup goes in by its path, and the largest hard limit comes out as none.
        """
        asked = []

        def fill(device: object, limits: Any) -> None:  # noqa: ANN401 - pynvml has no types
            asked.append((device, limits.nameSpace))
            limits.softLimit, limits.hardLimit, limits.currentUsed = 1, hard, 3

        replace("nvmlDeviceGetMemoryLimits_v1", fill)

        assert MemoryLimits(1, hard_bytes, 3) == functions.memory_limits(DEVICE, "/sys/fs/cgroup/ä.scope")
        assert [(DEVICE, "/sys/fs/cgroup/ä.scope")] == asked

    def test_memory_shared_with_the_host(self, replace: Replace, functions: Functions) -> None:
        """
        Memory that a GPU does not have of its own is unknown.
        """
        replace("nvmlDeviceGetMemoryInfo", failing(pynvml.NVMLError(3)))

        assert None is functions.memory_total(DEVICE)
