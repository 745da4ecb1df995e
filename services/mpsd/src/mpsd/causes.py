"""
Why a control daemon is replaced, and the words for what keeps one from being replaced or started.
"""

from __future__ import annotations

from enum import Enum

import attrs
from fractioning_core.errors import Unavailable

from mpsd.lifecycle import State


class Cause(Enum):
    """
    Why a daemon that ran was started anew.
    """

    CRASHED = "crashed"
    REQUESTED = "requested"
    NO_ANSWER = "no_answer"
    ERROR_ANSWER = "error_answer"
    SOCKET_MISSING = "socket_missing"
    CONFIG_CHANGED = "config_changed"
    DRIVER = "driver"

    @property
    def is_a_finding(self) -> bool:
        """
        Whether a check found it, which the next daemon may well give reason to find, too.
        """
        return self not in {Cause.CRASHED, Cause.REQUESTED, Cause.DRIVER}


@attrs.frozen
class Request:
    """
    A restart that somebody wants.
    """

    reason: str
    is_graceful: bool
    cause: Cause


@attrs.frozen(auto_exc=False)
class DaemonFailed(Unavailable):
    """
    The retry budget is spent.
    """

    attempts: int
    last: str

    def __str__(self) -> str:
        return f"MPS daemon failed after {self.attempts} attempts; last: {self.last}"


@attrs.frozen(auto_exc=False)
class NotRunning(Unavailable):
    """
    There is no control daemon to restart.
    """

    state: State
    reason: str

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"no control daemon runs ({self.state.value}){why}"


@attrs.frozen(auto_exc=False)
class SurvivesKill(Unavailable):
    """
    A process hangs in the kernel; a daemon beside it would find its sockets and its GPU taken.
    """

    what: str
    pid: int

    def __str__(self) -> str:
        return f"{self.what} with pid {self.pid} survives SIGKILL: it hangs in the kernel (see dmesg)"
