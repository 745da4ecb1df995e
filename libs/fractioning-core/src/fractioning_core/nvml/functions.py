"""
The functions of NVML, one by one: the border that no type and no error of pynvml crosses.

All of them block, some for minutes, and one thread at a time may call them. Names, codes and what a function means come
from nvml.h; functions are called without `nvml` and version, such as `DeviceGetCount`.

A library that did not match the loaded driver is let go before the next start, because another may lie at the same path
by then.
"""

from __future__ import annotations

import _ctypes
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import perf_counter
from typing import Any, NamedTuple, NewType

import attrs
import pynvml

from fractioning_core.nvml.errors import DriverMismatch, NvmlUnavailable, returned
from fractioning_core.nvml.samples import MemoryLimits, ProcessMemory

Handle = NewType("Handle", object)

# Told of every call that has returned: function, seconds, name of the error or nothing.
OnCall = Callable[[str, float, str], None]

_NAMES = {
    value: name.removeprefix("NVML_ERROR_") for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_")
}
# NVML_DEVICE_MEMORY_LIMIT_MAX: "maximum", which as a hard limit is none.
_NO_LIMIT = 0xFFFF_FFFF_FFFF_FFFF


class Utilization(NamedTuple):
    """
    An entry of DeviceGetProcessUtilization as NVML has it; not every one makes sense.
    """

    pid: int
    timestamp_us: int
    sm: int
    memory: int
    encoder: int
    decoder: int


class Functions:
    """
    NVML as this process finds it. Every function raises NvmlUnavailable when NVML returns an error.

    Args:
        on_call: Told how long each call took.
    """

    def __init__(self, *, on_call: OnCall) -> None:
        self.doing = "Init"
        """The function under way or called last; another thread may look."""
        self._on_call = on_call
        self._is_stale = False

    def start(self) -> None:
        """
        Start NVML with all GPUs; `shutdown` ends it.
        """
        self._start(0)

    def start_without_gpus(self) -> None:
        """
        Start it for what belongs to no GPU: attaching them takes seconds on a node without persistence, and wakes them.
        """
        self._start(pynvml.NVML_INIT_FLAG_NO_GPUS | pynvml.NVML_INIT_FLAG_NO_ATTACH)

    def shutdown(self) -> None:
        """
        End it; what it says to that helps nobody.
        """
        with suppress(NvmlUnavailable):
            self._call("Shutdown", pynvml.nvmlShutdown)

    def driver_version(self) -> str:
        """
        Read the driver's version text.
        """
        return str(self._call("SystemGetDriverVersion", pynvml.nvmlSystemGetDriverVersion))

    def device_count(self) -> int:
        """
        Count the GPUs that were there at the start.
        """
        return int(self._call("DeviceGetCount", pynvml.nvmlDeviceGetCount))

    def handle(self, index: int) -> Handle:
        """
        Give the handle of a GPU, which counts until the shutdown.
        """
        return Handle(self._call("DeviceGetHandleByIndex", pynvml.nvmlDeviceGetHandleByIndex, index))

    def uuid(self, device: Handle) -> str:
        """
        Read a GPU's UUID.
        """
        return str(self._call("DeviceGetUUID", pynvml.nvmlDeviceGetUUID, device))

    def minor(self, device: Handle) -> int:
        """
        Read the number of its device node.
        """
        return int(self._call("DeviceGetMinorNumber", pynvml.nvmlDeviceGetMinorNumber, device))

    def memory_total(self, device: Handle) -> int | None:
        """
        Read how much memory the card has; None where it shares the host's.
        """
        try:
            return int(self._call("DeviceGetMemoryInfo", pynvml.nvmlDeviceGetMemoryInfo, device).total)
        except NvmlUnavailable as error:
            if error.code == pynvml.NVML_ERROR_NOT_SUPPORTED:
                return None
            raise

    # Of the two list functions the third version, by name: on a library without it pynvml's alias raises what is no
    # NVMLError.
    def compute_processes(self, device: Handle) -> tuple[ProcessMemory, ...]:
        """
        List the processes with a compute context.
        """
        function = pynvml.nvmlDeviceGetComputeRunningProcesses_v3
        return _processes(self._call("DeviceGetComputeRunningProcesses", function, device))

    def graphics_processes(self, device: Handle) -> tuple[ProcessMemory, ...]:
        """
        List those with a graphics context.
        """
        function = pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3
        return _processes(self._call("DeviceGetGraphicsRunningProcesses", function, device))

    def utilization(self, device: Handle, since_us: int) -> tuple[Utilization, ...]:
        """
        Read what processes used of a GPU after a moment.
        """
        try:
            entries = self._call(
                "DeviceGetProcessUtilization", pynvml.nvmlDeviceGetProcessUtilization, device, since_us
            )
        except NvmlUnavailable as error:
            # What pynvml makes of a success without entries.
            if error.code == pynvml.NVML_SUCCESS:
                return ()
            raise
        return tuple(
            Utilization(entry.pid, entry.timeStamp, entry.smUtil, entry.memUtil, entry.encUtil, entry.decUtil)
            for entry in entries
        )

    def memory_limits(self, device: Handle, cgroup: str) -> MemoryLimits:
        """
        Read what a cgroup is held to on a GPU.
        """
        limits = pynvml.c_nvmlGetMemoryLimits_v1_t(nameSpace=os.fsencode(cgroup))
        self._call("DeviceGetMemoryLimits", pynvml.nvmlDeviceGetMemoryLimits_v1, device, limits)
        hard = limits.hardLimit
        return MemoryLimits(limits.softLimit, None if hard == _NO_LIMIT else hard, limits.currentUsed)

    def _start(self, flags: int) -> None:
        if self._is_stale:
            _unload()
            self._is_stale = False
        self._call("Init", pynvml.nvmlInitWithFlags, flags)

    # What pynvml's functions return has no types; each caller above says what it is.
    def _call(self, function: str, call: Callable[..., Any], *args: object) -> Any:  # noqa: ANN401
        self.doing = function
        started = perf_counter()
        try:
            answer = call(*args)
        except (pynvml.NVMLError, UnicodeDecodeError, OSError) as error:
            seconds = perf_counter() - started
            # pynvml decodes texts and loads the library without a word about either going wrong.
            code = int(error.value) if isinstance(error, pynvml.NVMLError) else pynvml.NVML_ERROR_UNKNOWN
            name = "" if code == pynvml.NVML_SUCCESS else _NAMES.get(code, "UNNAMED")
            self._on_call(function, seconds, name)
            raise self._told(returned(code, name=name, function=function)) from error
        self._on_call(function, perf_counter() - started, "")
        return answer

    def _told(self, error: NvmlUnavailable) -> NvmlUnavailable:
        """
        Complete an error with the library's own version, which it tells without having started.
        """
        version_function = "SystemGetNVMLVersion"
        if not isinstance(error, DriverMismatch) or error.function == version_function:
            return error
        self._is_stale = True
        try:
            version = str(self._call(version_function, pynvml.nvmlSystemGetNVMLVersion))
        except NvmlUnavailable:
            return error
        return attrs.evolve(error, library=version)


def _processes(entries: Iterable[Any]) -> tuple[ProcessMemory, ...]:
    # Of NVML_VALUE_NOT_AVAILABLE pynvml has made None.
    return tuple(ProcessMemory(entry.pid, entry.usedGpuMemory) for entry in entries if entry.pid != 0)


def _unload() -> None:
    """
    Let go of the library, which pynvml never does, so that the next start loads the file that is there then.
    """
    library, pynvml.nvmlLib = pynvml.nvmlLib, None
    pynvml._nvmlGetFunctionPointer_cache.clear()  # noqa: SLF001  its pointers lead into the library
    if library is not None:
        # One that does not let go stays loaded, and the next reading tells of the same mismatch.
        with suppress(OSError):
            _ctypes.dlclose(library._handle)  # noqa: SLF001  ctypes has no public way to close
