"""
NVML for the event loop: readings with a deadline, never a blocked loop.

This is for who reads now and then; who does so every few seconds takes `monitor`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self, TypeVar

from fractioning_core.nvml.errors import NvmlSilent
from fractioning_core.nvml.library import Library
from fractioning_core.nvml.samples import Device
from fractioning_core.nvml.worker import Overdue, Worker

T = TypeVar("T")

# Well above an answer of a warm node, tens of milliseconds, and below what a probe's period makes of it.
DEADLINE_SECONDS = 10.0


class Caller(Protocol):
    """
    Who makes the calls.
    """

    @property
    def doing(self) -> str:
        """
        The function under way.
        """


class Readings(Caller, Protocol):
    """
    The readings, blocking; `library.Library` has them.
    """

    def driver_version(self) -> str:
        """
        Read the driver's version text.
        """

    def devices(self) -> tuple[Device, ...]:
        """
        Read what GPUs there are.
        """


class Nvml:
    """
    The readings, one at a time. After a failure the next one simply tries again, from the loading of the library on.

    Args:
        readings: Where they come from; `of_driver` takes the machine's own NVML.
        deadline_seconds: How long each may take.
    """

    def __init__(self, readings: Readings, *, deadline_seconds: float) -> None:
        self._readings = readings
        self._deadline_seconds = deadline_seconds
        self._worker = Worker("nvml")

    @classmethod
    def of_driver(cls, *, deadline_seconds: float = DEADLINE_SECONDS) -> Nvml:
        """
        Give the NVML of the driver on this machine, which need not be there yet.
        """
        return cls(Library(), deadline_seconds=deadline_seconds)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def driver_version(self) -> str:
        """
        Read the driver's version text, such as `615.43.02`; it may be empty or nonsense, as the driver has it.

        Raises:
            NvmlError: NvmlUnavailable or NvmlSilent.
        """
        return await self._read(self._readings.driver_version)

    async def devices(self) -> tuple[Device, ...]:
        """
        Read what GPUs there are.

        Raises:
            NvmlError: NvmlUnavailable or NvmlSilent.
        """
        return await self._read(self._readings.devices)

    def close(self) -> None:
        """
        Ask nothing any more; a call that hangs is left to itself.
        """
        self._worker.close()

    async def _read(self, reading: Callable[[], T]) -> T:
        return await answer(self._worker, self._readings, reading, deadline_seconds=self._deadline_seconds)


async def answer(worker: Worker, caller: Caller, reading: Callable[[], T], *, deadline_seconds: float) -> T:
    """
    Have a reading made in the worker's thread.

    Raises:
        NvmlSilent: It has not returned in time, or one before it has not.
    """
    try:
        return await worker.do(reading, deadline_seconds=deadline_seconds)
    except Overdue as overdue:
        raise NvmlSilent(caller.doing, overdue.seconds) from overdue
