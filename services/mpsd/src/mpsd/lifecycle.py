"""
The life of the control daemon under its supervisor, as a table.
"""

from __future__ import annotations

from enum import Enum

from fractioning_core.errors import Misuse


class State(Enum):
    """
    Where it stands, in a word for people and machines.
    """

    IDLE = "idle"
    """Not started yet."""
    HELD = "held"
    """The driver does not allow a start."""
    PARKED = "parked"
    """There is no program to start."""
    STARTING = "starting"
    RUNNING = "running"
    BACKING_OFF = "backing-off"
    """It crashed; waiting before the next start."""
    RESTARTING = "restarting"
    """It was told to end, or has, and comes back."""
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    """The retry budget is spent, or the node cannot be set up; final."""


class Event(Enum):
    """
    What can happen.
    """

    DRIVER_REFUSED = "driver refused"
    PROGRAM_MISSING = "program missing"
    START = "start"
    STARTED = "started"
    CRASHED = "crashed"
    RESTART_ASKED = "restart asked"
    STOP_ASKED = "stop asked"
    ENDED = "ended"
    GAVE_UP = "gave up"


# The states in which nothing runs and a start is next.
_WAITING = (State.IDLE, State.HELD, State.PARKED, State.BACKING_OFF, State.RESTARTING)

TABLE: dict[tuple[State, Event], State] = {
    **{(state, Event.DRIVER_REFUSED): State.HELD for state in _WAITING},
    **{(state, Event.PROGRAM_MISSING): State.PARKED for state in _WAITING},
    **{(state, Event.START): State.STARTING for state in _WAITING},
    **{(state, Event.STOP_ASKED): State.STOPPED for state in _WAITING},
    (State.STARTING, Event.STARTED): State.RUNNING,
    (State.STARTING, Event.GAVE_UP): State.FAILED,
    (State.RUNNING, Event.CRASHED): State.BACKING_OFF,
    (State.RUNNING, Event.RESTART_ASKED): State.RESTARTING,
    (State.RUNNING, Event.STOP_ASKED): State.STOPPING,
    # The system took the file for no program, which shows only when it is to run.
    (State.RUNNING, Event.PROGRAM_MISSING): State.PARKED,
    (State.RESTARTING, Event.ENDED): State.RESTARTING,
    (State.RESTARTING, Event.GAVE_UP): State.FAILED,
    (State.STOPPING, Event.ENDED): State.STOPPED,
    (State.BACKING_OFF, Event.GAVE_UP): State.FAILED,
}


def after(state: State, event: Event) -> State:
    """
    Give the state that an event leads to.

    Raises:
        Misuse: that event cannot happen there.
    """
    try:
        return TABLE[state, event]
    except KeyError:
        raise Misuse(f"the control daemon is {state.value}, where `{event.value}` cannot happen") from None
