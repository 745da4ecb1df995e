"""The table of the daemon's life."""

from __future__ import annotations

import itertools

import pytest
from fractioning_core.errors import Misuse
from mpsd import lifecycle
from mpsd.lifecycle import TABLE, Event, State


class TestAfter:
    @pytest.mark.parametrize(
        ("path", "end"),
        [
            pytest.param([Event.START, Event.STARTED], State.RUNNING, id="start"),
            pytest.param([Event.DRIVER_REFUSED, Event.START, Event.STARTED], State.RUNNING, id="held, then let go"),
            pytest.param([Event.PROGRAM_MISSING, Event.DRIVER_REFUSED], State.HELD, id="parked, then held"),
            pytest.param([Event.START, Event.STARTED, Event.CRASHED], State.BACKING_OFF, id="crash"),
            pytest.param([Event.START, Event.STARTED, Event.CRASHED, Event.GAVE_UP], State.FAILED, id="budget spent"),
            pytest.param([Event.START, Event.GAVE_UP], State.FAILED, id="node cannot be set up"),
            pytest.param(
                [Event.START, Event.STARTED, Event.RESTART_ASKED, Event.ENDED, Event.START, Event.STARTED],
                State.RUNNING,
                id="restart",
            ),
            pytest.param([Event.START, Event.STARTED, Event.STOP_ASKED, Event.ENDED], State.STOPPED, id="stop"),
            pytest.param([Event.STOP_ASKED], State.STOPPED, id="stop before the start"),
            pytest.param([Event.START, Event.STARTED, Event.PROGRAM_MISSING], State.PARKED, id="no program after all"),
            pytest.param(
                [Event.START, Event.STARTED, Event.RESTART_ASKED, Event.GAVE_UP], State.FAILED, id="survives a kill"
            ),
        ],
    )
    def test_path(self, path: list[Event], end: State) -> None:
        """A life in events ends in this state."""
        state = State.IDLE
        for event in path:
            state = lifecycle.after(state, event)

        assert end is state

    @pytest.mark.parametrize("pair", sorted(set(itertools.product(State, Event)) - TABLE.keys(), key=str), ids=str)
    def test_everything_else_is_our_bug(self, pair: tuple[State, Event]) -> None:
        """What the table does not hold raises."""
        with pytest.raises(Misuse):
            lifecycle.after(*pair)

    def test_the_ends_are_final(self) -> None:
        """Nothing leads out of stopped or failed."""
        assert [] == [state for state, _ in TABLE if state in {State.STOPPED, State.FAILED}]

    def test_every_state_can_be_reached(self) -> None:
        """No state stands in the table for nothing."""
        assert set(State) == {State.IDLE, *TABLE.values()}
