"""
Calls into NVML, all of which block and some for minutes.

Each reading opens NVML and closes it again. An open one holds the driver's device nodes, so that an upgrade could not
unload the kernel module; and only a new one is sure to meet the driver that is loaded now. A library that did not match
that driver is let go before the next reading, because another may lie at the same path by then.
"""

from __future__ import annotations

import _ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import attrs
import pynvml

from fractioning_core.nvml.errors import DriverMismatch, NvmlUnavailable, returned

T = TypeVar("T")

_NAMES = {
    value: name.removeprefix("NVML_ERROR_") for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_")
}


@attrs.frozen
class Device:
    """
    One GPU.

    Args:
        index: NVML's, which follows the PCI bus.
        uuid: Such as `GPU-…`.
        minor: Of its device node /dev/nvidiaN.
        memory_total_bytes: Of the card; None where it shares the host's memory and NVML does not tell.
    """

    index: int
    uuid: str
    minor: int
    memory_total_bytes: int | None


class Library:
    """
    NVML as this process finds it.
    """

    def __init__(self) -> None:
        self.doing = "Init"
        """The function under way or called last; another thread may look."""
        self._is_stale = False

    def driver_version(self) -> str:
        """
        Read the driver's version text.

        Raises:
            NvmlUnavailable: NVML returned an error.
        """
        # The version belongs to no GPU: attaching them takes seconds on a node without persistence, and wakes them.
        with self._open(pynvml.NVML_INIT_FLAG_NO_GPUS | pynvml.NVML_INIT_FLAG_NO_ATTACH):
            return str(self._call("SystemGetDriverVersion", pynvml.nvmlSystemGetDriverVersion))

    def devices(self) -> tuple[Device, ...]:
        """
        Read what GPUs there are.

        Raises:
            NvmlUnavailable: NVML returned an error, for all or for one of them.
        """
        with self._open():
            count = self._call("DeviceGetCount", pynvml.nvmlDeviceGetCount)
            return tuple(self._device(index) for index in range(count))

    def _device(self, index: int) -> Device:
        handle = self._call("DeviceGetHandleByIndex", pynvml.nvmlDeviceGetHandleByIndex, index)
        return Device(
            index=index,
            uuid=self._call("DeviceGetUUID", pynvml.nvmlDeviceGetUUID, handle),
            minor=self._call("DeviceGetMinorNumber", pynvml.nvmlDeviceGetMinorNumber, handle),
            memory_total_bytes=self._memory_total(handle),
        )

    def _memory_total(self, handle: object) -> int | None:
        try:
            return int(self._call("DeviceGetMemoryInfo", pynvml.nvmlDeviceGetMemoryInfo, handle).total)
        except NvmlUnavailable as error:
            if error.code == pynvml.NVML_ERROR_NOT_SUPPORTED:
                return None
            raise

    @contextmanager
    def _open(self, flags: int = 0) -> Iterator[None]:
        if self._is_stale:
            _unload()
            self._is_stale = False
        try:
            self._call("Init", pynvml.nvmlInitWithFlags, flags)
            try:
                yield
            finally:
                # The reading counts, whatever becomes of the session.
                with suppress(NvmlUnavailable):
                    self._call("Shutdown", pynvml.nvmlShutdown)
        except DriverMismatch as error:
            self._is_stale = True
            raise attrs.evolve(error, library=self._version()) from error

    def _version(self) -> str:
        """
        Give the library's own version, which it tells without having started.
        """
        try:
            return str(self._call("SystemGetNVMLVersion", pynvml.nvmlSystemGetNVMLVersion))
        except NvmlUnavailable:
            return ""

    # What pynvml's functions return has no types; each caller above says what it is.
    def _call(self, function: str, call: Callable[..., Any], *args: object) -> Any:  # noqa: ANN401
        self.doing = function
        try:
            return call(*args)
        except pynvml.NVMLError as error:
            code = int(error.value)
            raise returned(code, name=_NAMES.get(code, "UNNAMED"), function=function) from error
        except (UnicodeDecodeError, OSError) as error:
            # pynvml decodes texts and loads the library without a word about either going wrong.
            code = pynvml.NVML_ERROR_UNKNOWN
            raise returned(code, name=_NAMES[code], function=function) from error


def _unload() -> None:
    """
    Let go of the library, which pynvml never does, so that the next reading loads the file that is there then.
    """
    library, pynvml.nvmlLib = pynvml.nvmlLib, None
    pynvml._nvmlGetFunctionPointer_cache.clear()  # noqa: SLF001  its pointers lead into the library
    if library is not None:
        # One that does not let go stays loaded, and the next reading tells of the same mismatch.
        with suppress(OSError):
            _ctypes.dlclose(library._handle)  # noqa: SLF001  ctypes has no public way to close
