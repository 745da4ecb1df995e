"""One disturbance of the node at a time."""

from __future__ import annotations

import asyncio

import pytest
from fractiond.turn import Turn


class TestTurn:
    async def test_it_is_taken_inside_and_free_outside(self) -> None:
        """Whoever asks sees whether somebody disturbs the node."""
        turn = Turn()

        async with turn:
            inside = turn.is_taken

        assert (True, False) == (inside, turn.is_taken)

    async def test_an_error_inside_frees_it(self) -> None:
        """A stop or a registration that fails does not keep the other from going on."""
        turn = Turn()

        with pytest.raises(ZeroDivisionError):
            async with turn:
                raise ZeroDivisionError

        assert not turn.is_taken

    @pytest.mark.looptime
    async def test_the_second_waits_for_the_first(self) -> None:
        """A stop that takes a minute holds a registration back for that minute."""
        turn, entered = Turn(), list[tuple[str, float]]()

        async def disturb(name: str) -> None:
            async with turn:
                entered.append((name, asyncio.get_running_loop().time()))
                await asyncio.sleep(60)

        async with asyncio.TaskGroup() as group:
            group.create_task(disturb("stop"))
            group.create_task(disturb("registration"))

        assert [("stop", 0.0), ("registration", 60.0)] == entered

    @pytest.mark.looptime
    async def test_who_is_cancelled_while_waiting_never_holds_it(self) -> None:
        """A shutdown while somebody waits leaves the turn as it was."""
        turn = Turn()

        async with turn:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await asyncio.create_task(_enter(turn))
            still = turn.is_taken

        assert (True, False) == (still, turn.is_taken)


class TestLettingGo:
    async def test_the_next_goes_on_while_the_holder_is_still_inside(self) -> None:
        """A registration that succeeded ends its turn, though its connection lives on."""
        turn = Turn()

        async with turn:
            turn.let_go(asyncio.current_task())
            await asyncio.create_task(_enter(turn))
            left = turn.is_taken

        assert (False, False) == (left, turn.is_taken)

    async def test_leaving_after_letting_go_does_not_free_somebody_elses_turn(self) -> None:
        """The end of a connection does not end the stop that began meanwhile."""
        turn, leave = Turn(), asyncio.Event()
        entered = asyncio.Event()

        async def stop() -> None:
            async with turn:
                entered.set()
                await leave.wait()

        async with asyncio.TaskGroup() as group:
            async with turn:
                turn.let_go(asyncio.current_task())
                group.create_task(stop())
                await entered.wait()
            after_the_first_left = turn.is_taken
            leave.set()

        assert (True, False) == (after_the_first_left, turn.is_taken)

    async def test_twice_is_once(self) -> None:
        """A second word of the same success frees nobody else's turn."""
        turn = Turn()

        async with turn:
            turn.let_go(asyncio.current_task())
            turn.let_go(asyncio.current_task())

        assert not turn.is_taken

    @pytest.mark.parametrize("somebody", [pytest.param(None, id="nobody"), pytest.param(object(), id="a stranger")])
    async def test_only_the_holder_can_be_made_to_let_go(self, somebody: object) -> None:
        """A late word of a connection before this one changes nothing."""
        turn = Turn()

        async with turn:
            turn.let_go(somebody)
            still = turn.is_taken

        assert still

    async def test_nothing_happens_while_nobody_holds_it(self) -> None:
        """Letting go of what is free is no error."""
        turn = Turn()

        turn.let_go(asyncio.current_task())

        assert not turn.is_taken


async def _enter(turn: Turn) -> None:
    async with turn:
        pass
