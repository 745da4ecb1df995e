from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator

import attrs
import pytest
from fractioning_core.nvml import errors
from fractioning_core.nvml.calltimes import CallTimes
from fractioning_core.nvml.errors import NvmlSilent, NvmlUnavailable
from fractioning_core.nvml.monitor import LIMITS_AT_ONCE, LIMITS_ROUNDS, UNREAD, NvmlMonitor
from fractioning_core.nvml.samples import CallTime, LimitsQuery, MemoryLimits, Sample

SAMPLE = Sample("615.43.02", ())
UNKNOWN = errors.returned(999, name="UNKNOWN", function="DeviceGetCount")

# Real threads need real time; deadlines here are either never met or met by the first look.
SHORT = 0.02
LONG = 10.0
NOT_FOUND = NvmlUnavailable(6, "NOT_FOUND", "DeviceGetMemoryLimits")


@attrs.define
class FakeReadings:
    """
    Readings that a test decides on; they say in which thread they were closed.
    """

    times: CallTimes = attrs.field(factory=CallTimes)
    fails: bool = False
    gate: threading.Event = attrs.field(factory=threading.Event)
    entered: threading.Event = attrs.field(factory=threading.Event)
    closed: threading.Event = attrs.field(factory=threading.Event)
    closed_in: list[str] = attrs.field(factory=list)
    doing: str = "Init"
    room: int | None = None
    readings: int = 0
    refused: set[str] = attrs.field(factory=set)

    def __attrs_post_init__(self) -> None:
        self.gate.set()

    def sample(self) -> Sample:
        """
        Wait for the gate, and answer or fail.
        """
        self.doing = "DeviceGetCount"
        self.entered.set()
        self.gate.wait()
        self.times.add(self.doing, 0.25, "UNKNOWN" if self.fails else "")
        if self.fails:
            raise UNKNOWN
        return SAMPLE

    def memory_limits(
        self, queries: Iterable[LimitsQuery], *, is_over: Callable[[], bool]
    ) -> tuple[MemoryLimits | NvmlUnavailable, ...]:
        """
        Give the number of the reading to each, as many as there is time for.
        """
        self.readings += 1
        answers: list[MemoryLimits | NvmlUnavailable] = []
        for query in queries:
            limits = MemoryLimits(self.readings, None, 0)
            answers.append(NOT_FOUND if query.cgroup in self.refused else limits)
            if len(answers) == self.room or is_over():
                break
        return tuple(answers)

    def close(self) -> None:
        """
        Note the thread.
        """
        self.closed_in.append(threading.current_thread().name)
        self.closed.set()


@pytest.fixture
def readings() -> Iterator[FakeReadings]:
    """
    Readings whose gate is open after the test.
    """
    made = FakeReadings()
    yield made
    made.gate.set()


def of(readings: FakeReadings, *, deadline_seconds: float = LONG, limits_seconds: float = LONG) -> NvmlMonitor:
    """
    Make a monitor of readings.
    """
    return NvmlMonitor(readings, readings.times, deadline_seconds=deadline_seconds, limits_seconds=limits_seconds)


async def read_limits(nvml: NvmlMonitor, *cgroups: str) -> list[int | str]:
    """
    Tell of which reading each answer is; the name of the error where it is none.
    """
    answers = await nvml.memory_limits([LimitsQuery(0, cgroup) for cgroup in cgroups])
    return [answer.soft_bytes if isinstance(answer, MemoryLimits) else answer.name for answer in answers]


class TestReadings:
    async def test_a_sample(self, readings: FakeReadings) -> None:
        """
        A sample is given as it was read.
        """
        async with of(readings) as nvml:
            assert SAMPLE == await nvml.sample()

    async def test_limits(self, readings: FakeReadings) -> None:
        """
        Each query has its answer.
        """
        async with of(readings) as nvml:
            found = [await read_limits(nvml, *cgroups) for cgroups in ("ab", "ba", "aa", "")]

        assert [[1, 1], [2, 2], [3, 3], []] == found

    async def test_an_error(self, readings: FakeReadings) -> None:
        """
        An error of NVML reaches the caller, and the next reading tries again.
        """
        readings.fails = True
        async with of(readings) as nvml:
            with pytest.raises(NvmlUnavailable):
                await nvml.sample()
            readings.fails = False

            assert SAMPLE == await nvml.sample()

    async def test_silence(self, readings: FakeReadings) -> None:
        """
        While a reading hangs, it and all later ones say in which function.
        """
        readings.gate.clear()
        async with of(readings, deadline_seconds=SHORT) as nvml:
            with pytest.raises(NvmlSilent) as first:
                await nvml.sample()
            with pytest.raises(NvmlSilent) as second:
                await nvml.memory_limits([])
            readings.gate.set()

        assert ["DeviceGetCount"] * 2 == [first.value.function, second.value.function]


class TestLimitsThatAreSlow:
    async def test_there_is_no_more_time(self, readings: FakeReadings) -> None:
        """
        When the time for limits is over, those that were never read yet say so.
        """
        async with of(readings, limits_seconds=0.0) as nvml:
            answers = await nvml.memory_limits([LimitsQuery(0, "/a"), LimitsQuery(0, "/b")])

        assert (MemoryLimits(1, None, 0), UNREAD) == answers

    async def test_all_have_their_turn(self, readings: FakeReadings) -> None:
        """
        Those go first that were not read for longest, and what was read before counts meanwhile.
        """
        readings.room = 2
        async with of(readings) as nvml:
            found = [await read_limits(nvml, *"abcde") for _ in range(5)]

        assert [
            [1, 1, "TIMEOUT", "TIMEOUT", "TIMEOUT"],
            [1, 1, 2, 2, "TIMEOUT"],
            [3, 1, 2, 2, 3],
            [3, 4, 4, 2, 3],
            [3, 4, 4, 5, 5],
        ] == found

    async def test_who_comes_and_goes(self, readings: FakeReadings) -> None:
        """
        A new cgroup goes first, and of one that was not asked for nothing is remembered.
        """
        readings.room = 1
        async with of(readings) as nvml:
            found = [await read_limits(nvml, *cgroups) for cgroups in ("ab", "ac", "abc", "abc")]

        assert [[1, "TIMEOUT"], [1, 2], [1, 3, 2], [4, 3, 2]] == found

    async def test_an_error_in_between(self, readings: FakeReadings) -> None:
        """
        What was read before NVML failed counts no more.
        """
        readings.room = 1
        async with of(readings) as nvml:
            await read_limits(nvml, *"ab")
            readings.fails = True
            with pytest.raises(NvmlUnavailable):
                await nvml.sample()

            assert [2, "TIMEOUT"] == await read_limits(nvml, *"ab")


class TestManyLimits:
    async def test_take_turns(self, readings: FakeReadings) -> None:
        """
        Above the number that is read at once, each is read every third time.
        """
        names = [f"/{number}" for number in range(LIMITS_AT_ONCE * LIMITS_ROUNDS + 3)]
        share = LIMITS_AT_ONCE + 1
        async with of(readings) as nvml:
            found = [await read_limits(nvml, *names) for _ in range(5)]

        assert [1] * len(names) == found[0]
        assert [2] * share + [3] * share + [4] * share == found[3]
        assert [5] * share + [3] * share + [4] * share == found[4]

    async def test_few_are_read_each_time(self, readings: FakeReadings) -> None:
        """
        Up to that number none waits for another.
        """
        names = [f"/{number}" for number in range(LIMITS_AT_ONCE)]
        async with of(readings) as nvml:
            await read_limits(nvml, *names)

            assert [2] * len(names) == await read_limits(nvml, *names)

    async def test_what_has_no_limits_waits_for_no_turn(self, readings: FakeReadings) -> None:
        """
        One that met an error, such as one whose limits were not set yet, is read again the next time.
        """
        names = [f"/{number}" for number in range(LIMITS_AT_ONCE * LIMITS_ROUNDS)]
        readings.refused = {names[-1]}
        async with of(readings) as nvml:
            first = await read_limits(nvml, *names)
            readings.refused = set()
            second = await read_limits(nvml, *names)

        assert ("NOT_FOUND", 2) == (first[-1], second[-1])
        assert LIMITS_AT_ONCE + 1 == second.count(2)


class TestTakeCalls:
    async def test_of_failed_readings_too(self, readings: FakeReadings) -> None:
        """
        How long calls took is told once, also where the reading failed.
        """
        async with of(readings) as nvml:
            await nvml.sample()
            readings.fails = True
            with pytest.raises(NvmlUnavailable):
                await nvml.sample()

            expected = (CallTime("DeviceGetCount", 0.25), CallTime("DeviceGetCount", 0.25, "UNKNOWN"))
            assert (expected, (), 0) == (nvml.take_calls(), nvml.take_calls(), nvml.calls_dropped)

    async def test_of_one_that_hangs(self, readings: FakeReadings) -> None:
        """
        They are told while a reading hangs.
        """
        readings.gate.clear()
        async with of(readings, deadline_seconds=SHORT) as nvml:
            with pytest.raises(NvmlSilent):
                await nvml.sample()
            hanging = nvml.take_calls()
            readings.gate.set()

        assert () == hanging


class TestTheEnd:
    async def test_it_is_made_in_the_thread(self, readings: FakeReadings) -> None:
        """
        The session ends in the thread that made the readings, once.
        """
        async with of(readings) as nvml:
            await nvml.sample()
            await nvml.aclose()

        assert ["nvml"] == readings.closed_in

    async def test_nothing_was_read(self, readings: FakeReadings) -> None:
        """
        Without a reading there is nothing to end.
        """
        async with of(readings):
            pass

        assert [] == readings.closed_in

    async def test_after_the_call_under_way(self, readings: FakeReadings) -> None:
        """
        A reading whose caller has left is done before the session ends.
        """
        readings.gate.clear()
        async with of(readings) as nvml:
            left = asyncio.get_running_loop().create_task(nvml.sample())
            await asyncio.to_thread(readings.entered.wait)
            left.cancel()
            asyncio.get_running_loop().call_later(SHORT, readings.gate.set)

        assert (1, ["nvml"]) == (len(nvml.take_calls()), readings.closed_in)

    async def test_a_call_that_hangs(self, readings: FakeReadings) -> None:
        """
        A call that hangs holds nobody up for long, and the session ends when it returns.
        """
        readings.gate.clear()
        async with asyncio.timeout(LONG / 2), of(readings, deadline_seconds=SHORT) as nvml:
            with pytest.raises(NvmlSilent):
                await nvml.sample()
        before = list(readings.closed_in)
        readings.gate.set()
        readings.closed.wait(LONG)

        assert ([], ["nvml"]) == (before, readings.closed_in)
