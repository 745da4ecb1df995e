"""Where the connection stands, in words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import attrs
import pytest
from fractiond.connection_state import ConnectionState, Phase
from fractiond.metrics import Metrics
from fractiond.turn import Turn
from fractioning_core.service.http import Readiness

Sample = Callable[..., float | None]


@attrs.define
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        """Give the time."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def turn() -> Turn:
    return Turn()


@pytest.fixture
def state(clock: Clock, turn: Turn, metrics: Metrics) -> ConnectionState:
    return ConnectionState(clock, turn=turn, metrics=metrics)


async def dialling(state: ConnectionState) -> None:
    state.dialling()


STEPS: dict[str, Callable[[ConnectionState], None]] = {
    "holding": ConnectionState.holding,
    "registered": ConnectionState.registered,
    "synchronized": ConnectionState.synchronized,
    "lost": lambda state: state.lost("EOF"),
}


class TestReadiness:
    async def test_it_begins_not_ready(self, state: ConnectionState) -> None:
        """Nobody routes a node's pods past a fractiond that has not registered."""
        assert Readiness(ready=False, reason="starting (0 s)") == state.readiness()

    @pytest.mark.parametrize(
        ("steps", "reason"),
        [
            pytest.param(
                ["holding"], "waiting for a stop of ours to end before registering with the runtime (7 s)", id="holding"
            ),
            pytest.param(
                ["registered"], "registered, waiting for the runtime's synchronise (7 s)", id="registered only"
            ),
            pytest.param(["synchronized", "lost"], "not connected to the runtime (7 s): EOF", id="lost"),
            pytest.param(
                ["lost", "registered"],
                "registered, waiting for the runtime's synchronise (7 s)",
                id="the reason of a loss before is gone",
            ),
        ],
    )
    async def test_what_is_waited_for_is_said_with_its_age(
        self, state: ConnectionState, clock: Clock, steps: list[str], reason: str
    ) -> None:
        """Whoever looks at the probe reads what holds fractiond up, and for how long."""
        for step in steps:
            STEPS[step](state)
        clock.now += 7.4

        assert Readiness(ready=False, reason=reason) == state.readiness()

    async def test_a_dial_is_said_as_such(self, state: ConnectionState) -> None:
        """A runtime that accepts nobody is told apart from one that does not synchronise."""
        state.dialling()

        assert Readiness(ready=False, reason="registering with the runtime (0 s)") == state.readiness()

    async def test_only_synchronised_is_ready(self, state: ConnectionState) -> None:
        """Readiness is what the runtime confirmed, not that a connection exists."""
        state.registered()
        state.synchronized()

        assert Readiness(ready=True, reason="ok") == state.readiness()

    async def test_a_shutdown_of_the_runtime_ends_readiness_at_once(self, state: ConnectionState) -> None:
        """The next container would be made without us, so the probe says so before the socket closes."""
        state.synchronized()

        state.lost("the runtime is shutting down")

        assert not state.readiness().ready
        assert Phase.LOST is state.phase


class TestWaiting:
    async def test_a_waiter_goes_on_when_synchronised(self, state: ConnectionState) -> None:
        """Whoever waits for the runtime is woken by its synchronise."""
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(state.wait_active())
            await asyncio.sleep(0)
            before = waiting.done()
            state.synchronized()

        assert (False, True) == (before, waiting.done())

    async def test_after_a_loss_waiting_begins_anew(self, state: ConnectionState) -> None:
        """A synchronise of the connection before does not count for the next."""
        state.synchronized()
        state.lost("EOF")

        waiting = asyncio.create_task(state.wait_active())
        await asyncio.sleep(0)
        done = waiting.done()
        waiting.cancel()

        assert not done


class TestTheTurn:
    async def test_synchronised_lets_go_of_the_dialling_tasks_turn(self, state: ConnectionState, turn: Turn) -> None:
        """Stops may go on as soon as the runtime has us on its list."""
        async with turn:
            state.dialling()
            while_registering = turn.is_taken
            state.synchronized()
            after = turn.is_taken

        assert (True, False) == (while_registering, after)

    async def test_synchronised_leaves_a_stop_of_ours_its_turn(self, state: ConnectionState, turn: Turn) -> None:
        """A late word about another task's registration ends no stop."""
        await asyncio.create_task(dialling(state))

        async with turn:
            state.synchronized()
            still = turn.is_taken

        assert still


class TestMetrics:
    @pytest.mark.parametrize(
        ("steps", "value"),
        [
            pytest.param([], 0.0, id="at first"),
            pytest.param(["registered"], 0.0, id="registered"),
            pytest.param(["registered", "synchronized"], 1.0, id="synchronised"),
            pytest.param(["registered", "synchronized", "lost"], 0.0, id="lost"),
        ],
    )
    async def test_connected_says_what_readiness_says(
        self, state: ConnectionState, sample: Sample, steps: list[str], value: float
    ) -> None:
        """The gauge is 1 exactly while the probe is 200."""
        for step in steps:
            STEPS[step](state)

        assert value == sample("runtime_connected")
        assert bool(value) is state.readiness().ready
