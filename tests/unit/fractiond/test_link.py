"""One connection to the runtime, and a new one when it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

import attrs
import pytest
from fractiond.connection_state import ConnectionState, Phase
from fractiond.link import Dial, RuntimeLink
from fractiond.metrics import Metrics
from fractiond.turn import Turn
from fractioning_core.errors import Unavailable
from fractioning_core.service.backoff import RetryBudget, Schedule
from nri_aio.errors import Disconnected, NriError, Unreachable

pytestmark = pytest.mark.looptime

Sample = Callable[..., float | None]
Running = Callable[[RuntimeLink], AbstractAsyncContextManager[asyncio.Task[None]]]
LogLines = list[MutableMapping[str, Any]]

NOBODY = Unreachable("/nri.sock", "No such file or directory")
EOF = Disconnected("EOF", "active")


@attrs.define
class Session:
    """One connection as it will go: how long, whether it is synchronised, and how it ends."""

    seconds: float = 0.0
    error: NriError | None = EOF
    synchronised_after: float | None = None


@attrs.define
class Node:
    """A runtime that plays sessions one after another, and the rest of fractiond around the link."""

    metrics: Metrics
    turn: Turn = attrs.field(factory=Turn)
    sessions: list[Session | NriError] = attrs.field(factory=list)
    dials: list[float] = attrs.field(factory=list)
    open: int = 0
    most_open: int = 0
    watches: list[str] = attrs.field(factory=list)
    state: ConnectionState = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.state = ConnectionState(now, turn=self.turn, metrics=self.metrics)

    def link(self, *, max_retries: int = 0, dial: Dial | None = None) -> RuntimeLink:
        """Make a link to this node."""
        budget = RetryBudget(max_retries, 300.0, Schedule(first=5.0, cap=60.0))
        return RuntimeLink(
            dial or self.dial, watch=self, turn=self.turn, budget=budget, state=self.state, metrics=self.metrics
        )

    @asynccontextmanager
    async def dial(self) -> AsyncIterator[Played]:
        """Play the next session; nobody is there when none is left."""
        self.dials.append(now())
        session = self.sessions.pop(0) if self.sessions else NOBODY
        if isinstance(session, NriError):
            raise session
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            yield Played(session, self.state)
        finally:
            self.open -= 1

    async def run(self) -> None:
        """Watch a registration, as the part beside the link does."""
        self.watches.append("begun")
        try:
            await asyncio.sleep(10_000)
        finally:
            self.watches.append("ended")


@attrs.define
class Played:
    session: Session
    state: ConnectionState

    async def run(self) -> None:
        """Live as the session says."""
        if self.session.synchronised_after is not None:
            await asyncio.sleep(self.session.synchronised_after)
            self.state.synchronized()
        await asyncio.sleep(self.session.seconds - (self.session.synchronised_after or 0.0))
        if self.session.error:
            raise self.session.error


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.fixture
async def node(metrics: Metrics) -> Node:
    return Node(metrics)


class TestDiallingAgain:
    async def test_a_runtime_that_is_not_there_is_dialled_every_second(self, node: Node, running: Running) -> None:
        """Dialling nobody costs the node nothing, and a runtime that restarts is soon back."""
        async with running(node.link()):
            await asyncio.sleep(300.5)

        assert list(range(301)) == [round(at) for at in node.dials]

    async def test_a_runtime_that_drops_us_is_dialled_ever_more_slowly(self, node: Node, running: Running) -> None:
        """Each registration may hold up the node: the wait begins at the interval, doubles, and stays at a minute."""
        node.sessions = [Session(seconds=0) for _ in range(8)]
        async with running(node.link()):
            await asyncio.sleep(300)

        assert [0, 5, 15, 35, 75, 135, 195, 255] == [round(at) for at in node.dials]

    async def test_a_connection_that_was_active_is_made_anew_at_once(self, node: Node, running: Running) -> None:
        """A runtime that restarts leaves containers unfenced until we are back, and waits before it do not count."""
        node.sessions = [Session(seconds=0), Session(seconds=0), Session(seconds=30, synchronised_after=1)]
        async with running(node.link()):
            await asyncio.sleep(46.5)

        assert [0, 5, 15, 46] == [round(at) for at in node.dials]

    async def test_an_outage_does_not_lengthen_the_waits_after_it(self, node: Node, running: Running) -> None:
        """What was waited for a runtime that was away is forgotten once it is back."""
        node.sessions = [*[NOBODY] * 20, Session(seconds=30, synchronised_after=1), Session(seconds=0)]
        async with running(node.link()):
            await asyncio.sleep(61.5)

        assert [51, 61] == [round(at) for at in node.dials if at > 20.5]

    async def test_a_connection_that_ends_without_an_error_is_made_anew(self, node: Node, running: Running) -> None:
        """However a connection ends, fractiond comes back."""
        node.sessions = [Session(seconds=1, error=None)]
        async with running(node.link()):
            await asyncio.sleep(7)

        assert [0, 6] == [round(at) for at in node.dials]

    async def test_each_connection_is_closed_before_the_next(self, node: Node, running: Running) -> None:
        """Two connections of ours at once would conflict on every creation."""
        node.sessions = [Session(seconds=1), Session(seconds=1), Session(seconds=1)]
        async with running(node.link()):
            await asyncio.sleep(60)

        assert ([], 1) == (node.sessions, node.most_open)

    async def test_the_end_is_logged_with_reason_and_age(self, node: Node, running: Running, log: LogLines) -> None:
        """A connection that failed and one that was lost are told apart by their uptime."""
        node.sessions = [Session(seconds=90, synchronised_after=1)]
        async with running(node.link()):
            await asyncio.sleep(91)

        ended = [line for line in log if line["event"] == "runtime_connection_ended"]
        assert [(str(EOF), 90.0, 1.0)] == [(each["reason"], each["uptime_seconds"], each["retry_in"]) for each in ended]


class TestTheBudget:
    async def test_it_gives_up_after_so_many_failures_in_a_row(self, node: Node) -> None:
        """Whoever set a limit gets an exit with the last reason in it."""
        with pytest.raises(Unavailable) as caught:
            await node.link(max_retries=3).run()

        assert 3 == len(node.dials)
        assert str(NOBODY) in str(caught.value)

    async def test_stable_connections_never_exhaust_it(self, node: Node, running: Running) -> None:
        """A runtime that is restarted every week is no reason to give up."""
        node.sessions = [Session(seconds=300, synchronised_after=1) for _ in range(10)]
        async with running(node.link(max_retries=2)) as task:
            await asyncio.sleep(3005)
            alive = not task.done()

        assert (True, 10) == (alive, len(node.dials))


class TestARuntimeThatKeepsUsWaiting:
    async def test_one_connection_waits_however_long_it_takes(self, node: Node, running: Running) -> None:
        """While the runtime holds back its synchronise, nobody dials again."""
        node.sessions = [Session(seconds=3600, synchronised_after=90)]
        async with running(node.link()):
            await asyncio.sleep(89)
            waiting = (node.state.phase, node.turn.is_taken)
            await asyncio.sleep(2)
            after = (node.state.phase, node.turn.is_taken)

        assert [0.0] == node.dials
        assert ((Phase.DIALLING, True), (Phase.ACTIVE, False)) == (waiting, after)

    async def test_the_watch_runs_beside_each_connection_and_ends_with_it(self, node: Node, running: Running) -> None:
        """What tells of the wait stops when there is nothing to wait for any more."""
        node.sessions = [Session(seconds=1), Session(seconds=1)]
        async with running(node.link()):
            await asyncio.sleep(8)

        assert ["begun", "ended", "begun", "ended"] == node.watches[:4]


class TestTheTurn:
    async def test_it_waits_for_a_stop_of_ours(self, node: Node, running: Running) -> None:
        """A registration never begins while a container is in a stop of ours, and says what it waits for."""
        node.sessions = [Session(seconds=3600)]
        async with node.turn, running(node.link()):
            await asyncio.sleep(30)
            held = (node.state.phase, list(node.dials))

        assert (Phase.HOLDING, []) == held

    async def test_it_goes_on_when_the_stop_has_ended(self, node: Node, running: Running) -> None:
        """The turn passes to whoever waits."""
        node.sessions = [Session(seconds=3600)]
        async with AsyncExitStack() as stack:
            async with node.turn:
                await stack.enter_async_context(running(node.link()))
                await asyncio.sleep(30)
            await asyncio.sleep(1)

        assert [30.0] == node.dials

    async def test_a_connection_that_ended_before_it_was_synchronised_frees_it(
        self, node: Node, running: Running
    ) -> None:
        """A registration that failed does not block stops for ever."""
        node.sessions = [Session(seconds=1)]
        async with running(node.link()):
            await asyncio.sleep(3)
            taken = node.turn.is_taken

        assert not taken


class TestStates:
    @pytest.mark.parametrize(
        ("at", "phase", "reason"),
        [
            pytest.param(5, Phase.DIALLING, "registering with the runtime (5 s)", id="before the synchronise"),
            pytest.param(20, Phase.ACTIVE, "ok", id="synchronised"),
            pytest.param(
                40.6, Phase.LOST, f"not connected to the runtime (1 s): {EOF}", id="lost, before the next dial"
            ),
        ],
    )
    async def test_readiness_follows_the_connection(
        self, node: Node, running: Running, at: float, phase: Phase, reason: str
    ) -> None:
        """The probe says where in its life the connection is."""
        node.sessions = [Session(seconds=40, synchronised_after=10)]
        async with running(node.link()):
            await asyncio.sleep(at)
            seen = (node.state.phase, node.state.readiness().reason)

        assert (phase, reason) == seen

    async def test_connections_are_counted_when_they_are_made(
        self, node: Node, running: Running, sample: Sample
    ) -> None:
        """A dial that reached nobody is no connection."""
        node.sessions = [NOBODY, Session(seconds=1), Session(seconds=1)]
        async with running(node.link()):
            await asyncio.sleep(60)

        assert 2.0 == sample("connections_total")


class TestTheEnd:
    async def test_a_cancellation_closes_the_connection(self, node: Node, running: Running) -> None:
        """A shutdown leaves no connection behind, and frees the turn."""
        node.sessions = [Session(seconds=3600, synchronised_after=1)]
        async with running(node.link()):
            await asyncio.sleep(10)

        assert (0, ["begun", "ended"], False) == (node.open, node.watches, node.turn.is_taken)

    async def test_a_fault_of_ours_is_not_mistaken_for_a_lost_connection(self, node: Node) -> None:
        """An exception that is no word of the runtime ends the link instead of being tried again."""

        def broken() -> AbstractAsyncContextManager[Played]:
            raise ZeroDivisionError

        with pytest.raises(ExceptionGroup) as caught:
            await node.link(dial=broken).run()

        assert caught.group_contains(ZeroDivisionError)
