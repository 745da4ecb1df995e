"""
Readings for who reads now and then, each of which opens NVML and closes it again.

An open one holds the driver's device nodes, so that an upgrade could not unload the kernel module; and only a new one
is sure to meet the driver that is loaded now. Who reads every few seconds keeps a session open instead: `session`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fractioning_core.nvml.functions import Functions
from fractioning_core.nvml.samples import Device


class Library:
    """
    NVML as this process finds it.
    """

    def __init__(self) -> None:
        self._functions = Functions(on_call=lambda _function, _seconds, _error: None)

    @property
    def doing(self) -> str:
        """
        The function under way or called last; another thread may look.
        """
        return self._functions.doing

    def driver_version(self) -> str:
        """
        Read the driver's version text.

        Raises:
            NvmlUnavailable: NVML returned an error.
        """
        with self._open(self._functions.start_without_gpus):
            return self._functions.driver_version()

    def devices(self) -> tuple[Device, ...]:
        """
        Read what GPUs there are.

        Raises:
            NvmlUnavailable: NVML returned an error, for all or for one of them.
        """
        with self._open(self._functions.start):
            return tuple(self._device(index) for index in range(self._functions.device_count()))

    def _device(self, index: int) -> Device:
        handle = self._functions.handle(index)
        return Device(
            index=index,
            uuid=self._functions.uuid(handle),
            minor=self._functions.minor(handle),
            memory_total_bytes=self._functions.memory_total(handle),
        )

    @contextmanager
    def _open(self, start: Callable[[], None]) -> Iterator[None]:
        start()
        try:
            yield
        finally:
            self._functions.shutdown()
