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
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, Self, TypeVar

from fractioning_core.nvml.calltimes import CallTimes
from fractioning_core.nvml.client import DEADLINE_SECONDS, Caller, answer
from fractioning_core.nvml.errors import NvmlError, NvmlUnavailable
from fractioning_core.nvml.functions import Functions
from fractioning_core.nvml.samples import CallTime, LimitsQuery, MemoryLimits, Sample
from fractioning_core.nvml.session import Session
from fractioning_core.nvml.worker import Worker

T = TypeVar("T")

# What the end of a program waits for NVML, if no reading may take less; a shutdown takes milliseconds.
CLOSE_SECONDS = 2.0
# Of an interval, or of the deadline where that is shorter. So a reading that is slow as a whole is not taken for one
# that hangs, and leaves time for all that is read beside it.
LIMITS_SHARE = 0.5
# A node with no more containers than that has all its limits read each time. On one with 480, where that is most of
# what a monitor costs, each is read every third time: limits seldom change, and use is known from the processes, too.
LIMITS_AT_ONCE = 64
LIMITS_ROUNDS = 3
UNREAD = NvmlUnavailable(10, "TIMEOUT", "DeviceGetMemoryLimits")
"""For limits that were never read yet, because there was no time; the name is of nvml.h."""


class Readings(Caller, Protocol):
    """
    The readings of a monitor, blocking; `session.Session` has them.
    """

    def sample(self) -> Sample:
        """
        Read all GPUs.
        """

    def memory_limits(
        self, queries: Iterable[LimitsQuery], *, is_over: Callable[[], bool]
    ) -> tuple[MemoryLimits | NvmlUnavailable, ...]:
        """
        Read what cgroups are held to, one at least, until it is over.
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
        limits_seconds: After how long the reading of limits leaves the rest for the next time.
    """

    def __init__(self, readings: Readings, times: CallTimes, *, deadline_seconds: float, limits_seconds: float) -> None:
        self._readings = readings
        self._times = times
        self._deadline_seconds = deadline_seconds
        self._limits_seconds = limits_seconds
        self._limits: dict[LimitsQuery, MemoryLimits | NvmlUnavailable] = {}
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
        limits_seconds = LIMITS_SHARE * min(interval_seconds, deadline_seconds)
        return cls(session, times, deadline_seconds=deadline_seconds, limits_seconds=limits_seconds)

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

        Every query without limits so far is read, and of the others `LIMITS_AT_ONCE` or a third, whichever is more:
        those that were not read for longest; fewer where there is no time.

        Returns:
            For each query its limits, or the error that it met; of one whose turn it is not, what was read before, or
            `UNREAD`.

        Raises:
            NvmlError: NvmlUnavailable, of the whole, or NvmlSilent.
        """
        # Not the loop's time, which may stand still while the loop sleeps.
        over_at = time.monotonic() + self._limits_seconds
        asked = dict.fromkeys(queries)
        before = {query: limits for query, limits in self._limits.items() if query in asked}
        line = _line(asked, before)
        answers = await self._read(
            lambda: self._readings.memory_limits(line, is_over=lambda: time.monotonic() >= over_at)
        )
        read = dict(zip(line, answers, strict=False))
        # What was read now goes to the end of the line.
        self._limits = {query: limits for query, limits in before.items() if query not in read} | read
        return tuple(self._limits.get(query, UNREAD) for query in queries)

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
        try:
            return await answer(self._worker, self._readings, reading, deadline_seconds=self._deadline_seconds)
        except NvmlError:
            # GPUs may have other numbers, and cgroups other limits, when it answers again.
            self._limits = {}
            raise


def _line(
    asked: Iterable[LimitsQuery], before: Mapping[LimitsQuery, MemoryLimits | NvmlUnavailable]
) -> list[LimitsQuery]:
    """
    Say what to read, in order: what has no limits yet, then a share of the rest, the longest unread first.
    """
    never = [query for query in asked if query not in before]
    refused = [query for query, limits in before.items() if isinstance(limits, NvmlUnavailable)]
    answered = [query for query, limits in before.items() if isinstance(limits, MemoryLimits)]
    share = max(LIMITS_AT_ONCE, -(-len(answered) // LIMITS_ROUNDS))
    return [*never, *refused, *answered[:share]]
