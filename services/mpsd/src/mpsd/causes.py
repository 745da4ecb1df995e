"""
Why a control daemon is replaced, and the words for giving up on it.
"""

from __future__ import annotations

from enum import Enum

import attrs
from fractioning_core.errors import Unavailable


class Cause(Enum):
    """
    Why a daemon that ran was started anew.
    """

    CRASHED = "crashed"
    REQUESTED = "requested"
    NO_ANSWER = "no_answer"
    ERROR_ANSWER = "error_answer"
    SOCKET_MISSING = "socket_missing"
    DRIVER = "driver"


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
