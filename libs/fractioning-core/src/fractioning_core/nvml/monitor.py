"""
NVML for a monitor in the event loop: samples with a deadline, never a blocked loop.

    async with NvmlMonitor.of_driver(interval_seconds=5.0) as nvml:
        sample = await nvml.sample()
        limits = await nvml.memory_limits([LimitsQuery(0, "/sys/fs/cgroup/…")])
        calls = nvml.take_calls()

NVML stays open in between; leaving the context ends it, in the thread that makes the calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol, Self, TypeVar

from fractioning_core.nvml.calltimes import CallTimes
from fractioning_core.nvml.client import DEADLINE_SECONDS, Caller, answer
from fractioning_core.nvml.errors import NvmlUnavailable
from fractioning_core.nvml.functions import Functions
from fractioning_core.nvml.samples import CallTime, LimitsQuery, MemoryLimits, Sample
from fractioning_core.nvml.session import Session
from fractioning_core.nvml.worker import Worker

T = TypeVar("T")

# What the end of a program waits for NVML, if no reading may take less; a shutdown takes milliseconds.
CLOSE_SECONDS = 2.0


class Readings(Caller, Protocol):
    """
    The readings of a monitor, blocking; `session.Session` has them.
    """

    def sample(self) -> Sample:
        """
        Read all GPUs.
        """

    def memory_limits(self, queries: Sequence[LimitsQuery]) -> tuple[MemoryLimits | NvmlUnavailable, ...]:
        """
        Read what cgroups are held to.
        """

    def close(self) -> None:
        """
        End the session.
        """


class NvmlMonitor:
    """
    A monitor's readings, one at a time. After a failure the next one tries again with a new session.

    Args:
        readings: Where they come from; `of_driver` takes the machine's own NVML.
        times: Where the readings keep how long their calls took.
        deadline_seconds: How long each reading may take.
    """

    def __init__(self, readings: Readings, times: CallTimes, *, deadline_seconds: float) -> None:
        self._readings = readings
        self._times = times
        self._deadline_seconds = deadline_seconds
        self._worker = Worker("nvml")

    @classmethod
    def of_driver(cls, *, interval_seconds: float, deadline_seconds: float = DEADLINE_SECONDS) -> NvmlMonitor:
        """
        Give the NVML of the driver on this machine, which need not be there yet.

        Args:
            interval_seconds: About how far samples are apart.
            deadline_seconds: How long each reading may take.
        """
        times = CallTimes()
        session = Session(Functions(on_call=times.add), interval_seconds=interval_seconds, clock=time.time)
        return cls(session, times, deadline_seconds=deadline_seconds)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def calls_dropped(self) -> int:
        """
        How many times of calls nobody took before there were too many.
        """
        return self._times.dropped

    async def sample(self) -> Sample:
        """
        Read all GPUs.

        Raises:
            NvmlError: NvmlUnavailable or NvmlSilent.
        """
        return await self._read(self._readings.sample)

    async def memory_limits(self, queries: Sequence[LimitsQuery]) -> tuple[MemoryLimits | NvmlUnavailable, ...]:
        """
        Read what cgroups are held to, by the numbers that GPUs have in the sample before.

        Returns:
            For each query its limits, or the error that it met.

        Raises:
            NvmlError: NvmlUnavailable, of the whole, or NvmlSilent.
        """
        return await self._read(lambda: self._readings.memory_limits(queries))

    def take_calls(self) -> tuple[CallTime, ...]:
        """
        Give how long each call took since this was asked last, oldest first, also those of readings that failed.
        """
        return self._times.take()

    async def aclose(self) -> None:
        """
        End the session, after the call under way if it returns soon; one that hangs is left to itself.
        """
        patience_seconds = min(CLOSE_SECONDS, self._deadline_seconds)
        await self._worker.end_with(self._readings.close, patience_seconds=patience_seconds)

    async def _read(self, reading: Callable[[], T]) -> T:
        return await answer(self._worker, self._readings, reading, deadline_seconds=self._deadline_seconds)
