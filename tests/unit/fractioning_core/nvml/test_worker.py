from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from fractioning_core.nvml.worker import Overdue, Worker

# Real threads need real time; deadlines here are either never met or met by the first look.
SHORT = 0.02
LONG = 10.0


@pytest.fixture
def worker() -> Iterator[Worker]:
    """
    A worker that is closed after the test.
    """
    made = Worker("test-worker")
    yield made
    made.close()


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """
    What a hanging call waits for; opened after the test.
    """
    event = threading.Event()
    yield event
    event.set()


def threads() -> int:
    """
    Count the worker's threads.
    """
    return sum(thread.name == "test-worker" for thread in threading.enumerate())


class TestDo:
    async def test_a_value(self, worker: Worker) -> None:
        """
        What the job returns, from a thread that is not the loop's, is returned.
        """
        name = await worker.do(lambda: threading.current_thread().name, deadline_seconds=LONG)

        assert name == "test-worker"

    async def test_an_error(self, worker: Worker) -> None:
        """
        What the job raises is raised.
        """

        def fail() -> None:
            raise ValueError("from the thread")

        with pytest.raises(ValueError, match="from the thread"):
            await worker.do(fail, deadline_seconds=LONG)

    async def test_a_timeout_of_the_job(self, worker: Worker) -> None:
        """
        A TimeoutError that the job itself raises is not taken for its deadline.
        """

        def fail() -> None:
            raise TimeoutError("the job's own")

        with pytest.raises(TimeoutError, match="the job's own"):
            await worker.do(fail, deadline_seconds=LONG)

    async def test_two_at_once(self, worker: Worker) -> None:
        """
        Calls that come together are made one after the other, in one thread.
        """
        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(worker.do(threads, deadline_seconds=LONG)) for _ in range(3)]

        assert [call.result() for call in calls] == [1, 1, 1]


class TestAHangingCall:
    async def test_its_own_caller(self, worker: Worker, gate: threading.Event) -> None:
        """
        Whoever made the call that hangs is told after the deadline.
        """
        with pytest.raises(Overdue) as told:
            await worker.do(gate.wait, deadline_seconds=SHORT)

        assert SHORT <= told.value.seconds < LONG

    async def test_later_callers(self, worker: Worker, gate: threading.Event) -> None:
        """
        Later calls fail at once, are not made, and start no further thread.
        """
        made: list[int] = []
        with pytest.raises(Overdue):
            await worker.do(gate.wait, deadline_seconds=SHORT)

        async with asyncio.timeout(LONG / 2):
            for _ in range(20):
                with pytest.raises(Overdue):
                    await worker.do(lambda: made.append(1), deadline_seconds=LONG)

        assert (made, threads()) == ([], 1)

    async def test_those_who_wait_in_line(self, worker: Worker, gate: threading.Event) -> None:
        """
        Callers that waited for the turn are told as soon as the call before them is overdue.
        """
        async with asyncio.timeout(LONG / 2), asyncio.TaskGroup() as group:
            first = group.create_task(outcome(worker, gate, SHORT))
            second = group.create_task(outcome(worker, gate, LONG))

        assert (first.result(), second.result()) == ("overdue", "overdue")

    async def test_it_comes_back(self, worker: Worker, gate: threading.Event) -> None:
        """
        Once it has returned, calls are made again; what it returned is dropped.
        """
        returned = asyncio.Event()
        loop = asyncio.get_running_loop()

        def hang() -> None:
            gate.wait()
            loop.call_soon_threadsafe(returned.set)

        with pytest.raises(Overdue):
            await worker.do(hang, deadline_seconds=SHORT)
        gate.set()
        await returned.wait()
        # The loop learns of the end one callback later.
        await asyncio.sleep(SHORT)

        assert await worker.do(lambda: "again", deadline_seconds=LONG) == "again"

    async def test_a_caller_that_left(self, worker: Worker, gate: threading.Event) -> None:
        """
        A call whose caller was cancelled early is waited for, since it is not overdue yet.
        """
        left = asyncio.get_running_loop().create_task(worker.do(gate.wait, deadline_seconds=LONG))
        await asyncio.sleep(0)
        left.cancel()
        async with asyncio.TaskGroup() as group:
            call = group.create_task(worker.do(lambda: "mine", deadline_seconds=LONG))
            await asyncio.sleep(0)
            gate.set()

        assert call.result() == "mine"


class TestEndWith:
    async def test_one_more(self, worker: Worker) -> None:
        """
        The last call is made in the thread, which ends then; a second end makes none.
        """
        names: list[str] = []
        await worker.do(threads, deadline_seconds=LONG)
        for _ in range(2):
            await worker.end_with(lambda: names.append(threading.current_thread().name), patience_seconds=LONG)

        assert ["test-worker"] == names

    async def test_no_call_before(self, worker: Worker) -> None:
        """
        Where nothing was called there is nothing to end.
        """
        made: list[int] = []
        await worker.end_with(lambda: made.append(1), patience_seconds=LONG)

        assert ([], 0) == (made, threads())

    async def test_an_error(self, worker: Worker) -> None:
        """
        What the last call raises is raised.
        """

        def fail() -> None:
            raise ValueError("from the thread")

        await worker.do(threads, deadline_seconds=LONG)
        with pytest.raises(ValueError, match="from the thread"):
            await worker.end_with(fail, patience_seconds=LONG)

    async def test_behind_a_call_that_hangs(self, worker: Worker, gate: threading.Event) -> None:
        """
        Nobody waits longer than asked, and the last call is made when the one before returns.
        """
        made = threading.Event()
        with pytest.raises(Overdue):
            await worker.do(gate.wait, deadline_seconds=SHORT)
        async with asyncio.timeout(LONG / 2):
            await worker.end_with(made.set, patience_seconds=SHORT)
        before = made.is_set()
        gate.set()

        assert (False, True) == (before, made.wait(LONG))


async def outcome(worker: Worker, gate: threading.Event, deadline_seconds: float) -> str:
    """
    Call, and say how it went.
    """
    try:
        await worker.do(gate.wait, deadline_seconds=deadline_seconds)
    except Overdue:
        return "overdue"
    return "done"
