from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from nri_aio import methods
from nri_aio.errors import DeadlineOverrun
from nri_aio.pb import nri_pb2 as pb
from nri_aio.plugin import Call
from nri_aio.serving import MAX_TASKS, Route, Server
from nri_aio.session import Event, Response, Role, Session

MILLISECOND = 1_000_000


class Bench:
    """A server and the runtime's session that asks it."""

    def __init__(self, handle: Callable[[object, Call], object]) -> None:
        self.loop = asyncio.get_running_loop()
        self.runtime = Session(Role.RUNTIME)
        self.plugin = Session(Role.PLUGIN)
        self.answers: list[Event] = []
        self.reported: list[tuple[str, Exception]] = []
        route = Route(pb.CreateContainerRequest.FromString, handle, pb.CreateContainerResponse)
        self.server = Server(
            session=self.plugin,
            routes={"CreateContainer": route},
            send=lambda data: self.answers.extend(self.runtime.receive(data)),
            report=lambda method, error: self.reported.append((method, error)),
        )

    def ask(self, timeout_nano: int = 0) -> None:
        """Send one request."""
        _, data = self.runtime.call(
            service=methods.PLUGIN_SERVICE, method="CreateContainer", payload=b"", timeout_nano=timeout_nano
        )
        for event in self.plugin.receive(data):
            self.server.serve(event, self.loop.time())  # type: ignore[arg-type] # nothing but requests comes here


class TestDeadline:
    """How long a handler has."""

    @pytest.mark.parametrize(
        ("timeout_nano", "limit"),
        [
            pytest.param(0, 2.0, id="none given"),
            pytest.param(-1, 2.0, id="nonsense given"),
            pytest.param(1_000 * MILLISECOND, 1.0, id="shorter than agreed"),
            pytest.param(60_000 * MILLISECOND, 2.0, id="longer than agreed"),
        ],
    )
    async def test_is_three_quarters_of_the_smaller_limit(self, timeout_nano: int, limit: float) -> None:
        """The request's limit and the agreed one both hold; a quarter is for the answer's way."""
        calls: list[Call] = []
        bench = Bench(lambda _, call: calls.append(call))
        bench.ask(timeout_nano)

        (call,) = calls
        assert limit == call.timeout_seconds
        assert pytest.approx(limit * 0.75) == call.deadline - call.arrived

    async def test_blocking_handler_does_not_get_its_late_answer_through(self) -> None:
        """The result of a handler that blocked the loop past its deadline is replaced by an error."""
        loop = asyncio.get_running_loop()

        def block(_request: object, call: Call) -> pb.CreateContainerResponse:
            while loop.time() <= call.deadline:
                pass
            return pb.CreateContainerResponse()

        bench = Bench(block)
        bench.ask(timeout_nano=MILLISECOND)

        assert [Response(1, 4, "CreateContainer was not handled within 0.00075 s", b"")] == bench.answers
        assert [DeadlineOverrun] == [type(error) for _, error in bench.reported]


@pytest.mark.looptime
class TestStubbornHandlers:
    """Coroutines that do not end when told to."""

    async def test_late_result_is_dropped(self) -> None:
        """A handler that goes on after its cancellation cannot answer a second time."""

        async def ignore(*_: object) -> pb.CreateContainerResponse:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                await asyncio.sleep(1)
            return pb.CreateContainerResponse()

        bench = Bench(ignore)
        bench.ask()
        await asyncio.sleep(10)

        assert ([4], set()) == (
            [answer.code for answer in bench.answers if isinstance(answer, Response)],
            bench.server.tasks,
        )

    async def test_result_after_the_end_is_dropped(self) -> None:
        """A handler that goes on after the connection's end answers nobody."""

        async def ignore(*_: object) -> pb.CreateContainerResponse:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                await asyncio.sleep(5)
            return pb.CreateContainerResponse()

        bench = Bench(ignore)
        bench.ask()
        await asyncio.sleep(0.1)
        bench.server.close()
        await asyncio.sleep(10)

        assert ([], [], set()) == (bench.answers, bench.reported, bench.server.tasks)

    async def test_late_failure_is_dropped(self) -> None:
        """Nor can its exception."""

        async def explode(*_: object) -> None:
            try:
                await asyncio.sleep(60)
            finally:
                raise ValueError

        bench = Bench(explode)
        bench.ask()
        await asyncio.sleep(10)

        assert (1, 1) == (len(bench.answers), len(bench.reported))

    async def test_they_do_not_pile_up(self) -> None:
        """Beyond a number no runtime reaches, requests are refused instead of started."""
        release = asyncio.Event()

        async def ignore(*_: object) -> None:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

        bench = Bench(ignore)
        for _ in range(MAX_TASKS + 1):
            bench.ask()
            await asyncio.sleep(2)
        last = bench.answers[-1]
        release.set()
        await asyncio.sleep(1)

        assert Response(2 * MAX_TASKS + 1, 8, "more than 256 requests are being handled", b"") == last
        assert set() == bench.server.tasks
