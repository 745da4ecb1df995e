"""
Readings for who reads every few seconds: one session of NVML, kept open.

To open one takes seconds on a node without persistence. It is closed after a reading that failed as a whole, and the
next reading opens a new one, which alone is sure to meet the driver that is loaded by then. What identifies a GPU is
read once a session, everything else each time.

Failures are told apart by how far they reach. Of one call: a problem of its GPU, whose other readings count. Of a GPU
that has no identity or fell off the bus: it is lost, and the others count. Of the session, or of all GPUs: the reading
fails. Which is which comes from the return codes in nvml.h.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import attrs

from fractioning_core.nvml import smuse
from fractioning_core.nvml.errors import NvmlUnavailable
from fractioning_core.nvml.functions import Functions, Handle
from fractioning_core.nvml.samples import (
    Device,
    DeviceSample,
    LimitsQuery,
    LostDevice,
    MemoryLimits,
    Sample,
    SmUse,
)

T = TypeVar("T")

# Of nvml.h.
UNINITIALIZED = 1
NOT_SUPPORTED = 3
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
DRIVER_NOT_LOADED = 9
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
LIB_RM_VERSION_MISMATCH = 18

# Whatever function returns one of these, the session is of no use any more.
OF_SESSION = frozenset({UNINITIALIZED, DRIVER_NOT_LOADED, LIB_RM_VERSION_MISMATCH})
# A GPU that does not list processes or sample them has none to tell of; without a sample NVML says Not Found.
OF_NOTHING = frozenset({NOT_SUPPORTED, NOT_FOUND})

# How often a list is asked for whose length grew between the call for its length and the one for itself.
TRIES = 4
# A GPU that came back is seen by a new session only; one per reading would cost the others those seconds.
READINGS_WITH_LOSS = 12


@attrs.define(eq=False)
class _Known:
    """
    What a session knows of a GPU.
    """

    handle: Handle
    uuid: str
    minor: int
    memory_total_bytes: int | None = None


class Session:
    """
    NVML, read again and again. All that is here blocks, and one thread at a time may call it.

    Args:
        functions: Those of NVML.
        interval_seconds: About how far readings are apart, which says how far back the first one asks.
        clock: The host's time, in seconds since 1970.
    """

    def __init__(self, functions: Functions, *, interval_seconds: float, clock: Callable[[], float]) -> None:
        self._functions = functions
        self._interval_us = int(interval_seconds * 1e6)
        self._clock = clock
        self._is_open = False
        self._known: dict[int, _Known] = {}
        self._seen_us: dict[str, int] = {}
        self._readings_with_loss = 0

    @property
    def doing(self) -> str:
        """
        The function under way or called last; another thread may look.
        """
        return self._functions.doing

    def sample(self) -> Sample:
        """
        Read all GPUs.

        Raises:
            NvmlUnavailable: NVML returned an error for the whole, or none of the GPUs answered.
        """
        # Here and not at the end: the limits that are read after a sample are of the GPUs that it numbered.
        if self._readings_with_loss >= READINGS_WITH_LOSS:
            self.close()
        with self._session():
            version = self._functions.driver_version()
            devices, lost = self._devices(self._functions.device_count())
        self._readings_with_loss = self._readings_with_loss + 1 if lost else 0
        return Sample(version, tuple(devices), tuple(lost))

    def memory_limits(
        self, queries: Iterable[LimitsQuery], *, is_over: Callable[[], bool]
    ) -> tuple[MemoryLimits | NvmlUnavailable, ...]:
        """
        Read what cgroups are held to, by the numbers that GPUs have in the sample before.

        Args:
            queries: Whose limits to read.
            is_over: Asked after each; nothing more is read when it says so.

        Returns:
            For each query that was read its limits, or the error that it met. A library older than the function, and a
            GPU that is lost, are asked once.

        Raises:
            NvmlUnavailable: NVML returned an error for the whole.
        """
        answers: list[MemoryLimits | NvmlUnavailable] = []
        missing: NvmlUnavailable | None = None
        lost: dict[int, NvmlUnavailable] = {}
        with self._session():
            for query in queries:
                answer = missing or lost.get(query.index) or self._limits(query)
                answers.append(answer)
                if isinstance(answer, NvmlUnavailable):
                    if answer.code == FUNCTION_NOT_FOUND:
                        missing = answer
                    elif answer.code == GPU_IS_LOST:
                        lost[query.index] = answer
                if is_over():
                    break
        return tuple(answers)

    def close(self) -> None:
        """
        End the session, if there is one; the next reading opens another.
        """
        if self._is_open:
            self._is_open = False
            self._known.clear()
            self._readings_with_loss = 0
            self._functions.shutdown()

    @contextmanager
    def _session(self) -> Iterator[None]:
        try:
            if not self._is_open:
                self._functions.start()
                self._is_open = True
            yield
        except NvmlUnavailable:
            self.close()
            raise

    def _devices(self, count: int) -> tuple[list[DeviceSample], list[LostDevice]]:
        devices: list[DeviceSample] = []
        lost: list[LostDevice] = []
        for index in range(count):
            try:
                devices.append(self._device(index))
            except NvmlUnavailable as error:
                if error.code in OF_SESSION:
                    raise
                lost.append(LostDevice(index, _value_of(error)))
        if lost and not devices:
            raise lost[0].problem
        return devices, lost

    def _device(self, index: int) -> DeviceSample:
        known = self._identify(index)
        reading = _Reading()
        if known.memory_total_bytes is None:
            known.memory_total_bytes = reading.of(lambda: self._functions.memory_total(known.handle), otherwise=None)
        return DeviceSample(
            Device(index, known.uuid, known.minor, known.memory_total_bytes),
            compute=reading.of_list(lambda: self._functions.compute_processes(known.handle)),
            graphics=reading.of_list(lambda: self._functions.graphics_processes(known.handle)),
            sm=self._sm(known, reading),
            problems=tuple(reading.problems),
        )

    def _identify(self, index: int) -> _Known:
        known = self._known.get(index)
        if known is None:
            handle = self._functions.handle(index)
            known = _Known(handle, self._functions.uuid(handle), self._functions.minor(handle))
            self._known[index] = known
        return known

    def _sm(self, known: _Known, reading: _Reading) -> tuple[SmUse, ...]:
        seen = self._seen_us.get(known.uuid, 0)
        since = smuse.since_us(seen, now_us=int(self._clock() * 1e6), interval_us=self._interval_us)
        entries = reading.of_list(lambda: self._functions.utilization(known.handle, since))
        uses = smuse.latest(entries, after_us=since)
        self._seen_us[known.uuid] = max((use.timestamp_us for use in uses), default=seen)
        return uses

    def _limits(self, query: LimitsQuery) -> MemoryLimits | NvmlUnavailable:
        try:
            known = self._known.get(query.index)
            handle = self._functions.handle(query.index) if known is None else known.handle
            return self._functions.memory_limits(handle, query.cgroup)
        except NvmlUnavailable as error:
            if error.code in OF_SESSION:
                raise
            return _value_of(error)


class _Reading:
    """
    The reading of one GPU, which goes on after what fails in it.
    """

    def __init__(self) -> None:
        self.problems: list[NvmlUnavailable] = []

    def of(self, read: Callable[[], T], *, otherwise: T) -> T:
        """
        Read, and keep a problem of this call alone.
        """
        try:
            return read()
        except NvmlUnavailable as error:
            if error.code in OF_SESSION or error.code == GPU_IS_LOST:
                raise
            self.problems.append(_value_of(error))
            return otherwise

    def of_list(self, read: Callable[[], tuple[T, ...]]) -> tuple[T, ...]:
        """
        The same for a list; what this GPU has not is an empty one.
        """
        return self.of(lambda: _list_of(read), otherwise=())


def _list_of(read: Callable[[], tuple[T, ...]]) -> tuple[T, ...]:
    for tries_left in reversed(range(TRIES)):
        try:
            return read()
        except NvmlUnavailable as error:
            if error.code in OF_NOTHING:
                break
            if error.code != INSUFFICIENT_SIZE or not tries_left:
                raise
    return ()


def _value_of(error: NvmlUnavailable) -> NvmlUnavailable:
    """
    Give an error to keep: without the traceback, whose frames hold the list that it is kept in.
    """
    return attrs.evolve(error)
