"""
The life of a connection as a table of (state, event) → state.

The answer to RegisterPlugin is not where the order hangs: containerd was seen to send Configure and Synchronize before
it. A plugin is in use only when it is ACTIVE; nothing on the wire says so, it follows from our last Synchronize answer.
"""

from __future__ import annotations

import enum

from nri_aio.errors import OutOfOrder


class State(enum.Enum):
    """Where a connection is in its life; the value is how a message names it."""

    CONNECTING = "connecting"
    REGISTERING = "registering"
    """RegisterPlugin was sent; the runtime may be busy with another plugin."""
    REGISTERED = "registered"
    """The runtime knows our name."""
    CONFIGURED = "configured"
    """Our subscription was sent; the runtime waits for its node-wide lock, for minutes if it must."""
    SYNCHRONIZING = "synchronizing"
    ACTIVE = "active"
    """The runtime calls us for every event subscribed to."""
    CLOSED = "closed"
    """Final; a new connection starts at the beginning."""


class Event(enum.Enum):
    """What moves a connection on; the value is how a message names it."""

    OPENED = "RegisterPlugin"
    ACCEPTED = "the answer to RegisterPlugin"
    CONFIGURED = "Configure"
    CHUNK = "a part of Synchronize"
    SYNCHRONIZED = "Synchronize"
    CLOSED = "the end"


_TABLE: dict[tuple[State, Event], State] = {
    (State.CONNECTING, Event.OPENED): State.REGISTERING,
    (State.REGISTERING, Event.ACCEPTED): State.REGISTERED,
    (State.REGISTERING, Event.CONFIGURED): State.CONFIGURED,
    (State.REGISTERED, Event.CONFIGURED): State.CONFIGURED,
    (State.CONFIGURED, Event.ACCEPTED): State.CONFIGURED,
    (State.CONFIGURED, Event.CHUNK): State.SYNCHRONIZING,
    (State.SYNCHRONIZING, Event.ACCEPTED): State.SYNCHRONIZING,
    (State.SYNCHRONIZING, Event.CHUNK): State.SYNCHRONIZING,
    (State.SYNCHRONIZING, Event.SYNCHRONIZED): State.ACTIVE,
    (State.ACTIVE, Event.ACCEPTED): State.ACTIVE,
    **{(state, Event.CLOSED): State.CLOSED for state in State},
}


def advance(state: State, event: Event) -> State:
    """
    Give the state that follows.

    Raises:
        OutOfOrder: The event has no place in this state.
    """
    following = _TABLE.get((state, event))
    if following is None:
        raise OutOfOrder(event.value, state.value)
    return following


def describe_end(state: State) -> str | None:
    """Say what a connection that ended in this state was probably refused for; None if it was not refused."""
    if state is State.CONFIGURED:
        return "the runtime closed right after Configure: its log has the reason, usually an event it does not know"
    if state is State.SYNCHRONIZING:
        return "the runtime closed during Synchronize: its log has the reason, usually its time-out"
    return None
