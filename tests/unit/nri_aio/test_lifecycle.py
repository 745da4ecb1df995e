from __future__ import annotations

import pytest
from nri_aio import lifecycle
from nri_aio.errors import OutOfOrder
from nri_aio.lifecycle import Event, State


class TestAdvance:
    """The table of states."""

    @pytest.mark.parametrize(
        "order",
        [
            pytest.param(
                [Event.OPENED, Event.ACCEPTED, Event.CONFIGURED, Event.CHUNK, Event.SYNCHRONIZED],
                id="answer to RegisterPlugin first",
            ),
            pytest.param(
                [Event.OPENED, Event.CONFIGURED, Event.ACCEPTED, Event.CHUNK, Event.SYNCHRONIZED],
                id="answer to RegisterPlugin after Configure",
            ),
            pytest.param(
                [Event.OPENED, Event.CONFIGURED, Event.CHUNK, Event.ACCEPTED, Event.CHUNK, Event.SYNCHRONIZED],
                id="answer to RegisterPlugin between the parts",
            ),
            pytest.param(
                [Event.OPENED, Event.CONFIGURED, Event.CHUNK, Event.SYNCHRONIZED, Event.ACCEPTED],
                id="answer to RegisterPlugin last",
            ),
        ],
    )
    def test_every_order_seen_ends_active(self, order: list[Event]) -> None:
        """The answer to RegisterPlugin may come at any time."""
        state = State.CONNECTING
        for event in order:
            state = lifecycle.advance(state, event)

        assert State.ACTIVE is state

    @pytest.mark.parametrize("state", list(State))
    def test_every_state_can_end(self, state: State) -> None:
        """A connection can end at any time, and has ended for good."""
        assert State.CLOSED is lifecycle.advance(state, Event.CLOSED)

    @pytest.mark.parametrize(
        ("state", "event"),
        [
            pytest.param(State.REGISTERING, Event.CHUNK, id="Synchronize before Configure"),
            pytest.param(State.CONFIGURED, Event.CONFIGURED, id="Configure twice"),
            pytest.param(State.CONFIGURED, Event.SYNCHRONIZED, id="complete without a part"),
            pytest.param(State.ACTIVE, Event.CHUNK, id="Synchronize twice"),
            pytest.param(State.CLOSED, Event.OPENED, id="anything after the end"),
        ],
    )
    def test_other_orders_are_refused(self, state: State, event: Event) -> None:
        """What has no place in the table is an error that names both."""
        with pytest.raises(OutOfOrder) as caught:
            lifecycle.advance(state, event)

        assert (event.value, state.value) == (caught.value.event, caught.value.state)


class TestDescribeEnd:
    """What the end of a connection means."""

    def test_only_half_registered_connections_were_refused(self) -> None:
        """Between Configure and the last answer an end is a refusal; before and after it is just an end."""
        refused = {state for state in State if lifecycle.describe_end(state) is not None}

        assert {State.CONFIGURED, State.SYNCHRONIZING} == refused
