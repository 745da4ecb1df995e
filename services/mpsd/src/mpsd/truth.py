"""
What mpsd says about itself: the last check of the control daemon, and whether the node is ready, with the reason.

Ready means that a daemon we started answered a command in time and not long ago, that its socket is there, that its
configuration is the one on disk, and that neither driver, label nor settings are complained of. Whoever was not ready
for a fault is ready again only once checks have gone well for a moment: a socket that somebody keeps removing is there
now and then, too.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol

import attrs
from fractioning_core.service.http import Readiness

from mpsd.lifecycle import State

SETTLE_SECONDS = 1.0


class Problem(Enum):
    """
    What a check of a running daemon can find.
    """

    SOCKET_MISSING = "socket_missing"
    CONFIG_CHANGED = "config_changed"
    NO_ANSWER = "no_answer"
    ERROR_ANSWER = "error_answer"
    NOT_ASKED = "not_asked"
    """Its client could not be run, which says nothing about the daemon."""


@attrs.frozen
class Probe:
    """
    One check.

    Args:
        at: Loop time of its end.
        problem: What it found; None when all is well.
        reason: The same for a person, one line.
        latency_seconds: How long the command took; None where none was asked.
        clients: Process ids of the attached clients; None where they are not known.
    """

    at: float
    problem: Problem | None = None
    reason: str = ""
    latency_seconds: float | None = None
    clients: tuple[int, ...] | None = None


class Supervised(Protocol):
    """What the supervisor says."""

    @property
    def state(self) -> State:
        """Where the daemon stands."""

    @property
    def reason(self) -> str:
        """Why it stands there."""


class Truth:
    """
    The last check, and what follows from it.

    Args:
        supervised: The supervisor.
        complaint: Says what is wrong with driver, label or settings; empty when nothing is.
        max_age_seconds: How old a check may be that still counts.
        clock: The loop's time.
    """

    def __init__(
        self,
        supervised: Supervised,
        *,
        complaint: Callable[[], str],
        max_age_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._supervised = supervised
        self._complaint = complaint
        self._max_age_seconds = max_age_seconds
        self._clock = clock
        self._sound_since: float | None = None
        self._is_shaken = False
        self.last_probe: Probe | None = None
        """The last check of the daemon that runs now; None before the first."""

    @property
    def is_settling(self) -> bool:
        """
        Whether checks have gone well for too short a time after a fault.
        """
        return self._is_shaken

    @property
    def is_up(self) -> bool:
        """
        Whether the daemon answered the last check.
        """
        return self._supervised.state is State.RUNNING and bool(self.last_probe and self.last_probe.problem is None)

    def note(self, probe: Probe) -> None:
        """
        Take the result of a check.
        """
        self.last_probe = probe
        if probe.problem is not None:
            self._is_shaken, self._sound_since = True, None
        elif self._is_shaken:
            self._sound_since = probe.at if self._sound_since is None else self._sound_since
            self._is_shaken = probe.at - self._sound_since < SETTLE_SECONDS

    def forget(self) -> None:
        """
        Note that the daemon which was checked no longer runs; what it did wrong still counts for the next one.
        """
        self.last_probe = self._sound_since = None

    def readiness(self) -> Readiness:
        """
        Answer `/readyz`.
        """
        reason = self._daemon_reason() or self._complaint()
        return Readiness(ready=not reason, reason=reason)

    def _daemon_reason(self) -> str:
        state, reason = self._supervised.state, self._supervised.reason
        if state is not State.RUNNING:
            return f"control daemon {state.value}: {reason or _WORDS[state]}"
        probe = self.last_probe
        if probe is None:
            return "control daemon starting: it has not answered yet"
        age = self._clock() - probe.at
        if probe.problem is not None:
            return f"{probe.reason} (seen {age:.0f} s ago)"
        if age > self._max_age_seconds:
            return f"the control daemon was last seen well {age:.0f} s ago: the checks hang, as on a dead mount"
        if self._is_shaken:
            return f"control daemon answers again, ready once it has for {SETTLE_SECONDS:g} s"
        return ""


_WORDS = {
    State.IDLE: "not started yet",
    State.HELD: "the driver does not allow a start",
    State.PARKED: "its program cannot be run",
    State.STARTING: "being started",
    State.BACKING_OFF: "it crashed",
    State.RESTARTING: "it was told to end and will be started again",
    State.STOPPING: "told to stop",
    State.STOPPED: "stopped",
    State.FAILED: "given up",
}
