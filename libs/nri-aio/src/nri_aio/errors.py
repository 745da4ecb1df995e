"""
What can go wrong on the NRI and CRI wires, by what the caller does about it.

    NriError
    ├── Unavailable                      try again later
    │   ├── Unreachable                  nobody listens on the runtime's socket
    │   ├── Disconnected                 the connection ended, not by our wish
    │   └── Rejected                     the runtime does not take this plugin; try again slowly
    ├── ProtocolViolation                the peer sent what it must not; the connection is closed
    ├── CallFailed                       the runtime answered one of our calls with a status
    ├── CallTimedOut                     the runtime did not answer one of our calls in time
    ├── DeadlineOverrun                  a handler took too long; its answer was replaced by an error
    ├── OutOfOrder                       a registration step came at the wrong time; it is answered with an error
    ├── MessageTooLarge                  what we wanted to send exceeds the wire's limit
    ├── Misuse                           a bug on our side of the interface
    ├── Refused                          raised by a handler to refuse a request
    └── CriError
        ├── CriUnavailable               socket missing or cut; try again later
        ├── CriDeadlineExceeded          no answer in time; the effect is unknown
        └── CriFailed                    the runtime answered with a status

Every class keeps its facts as fields and builds its text from them.
"""
# ruff: noqa: N818 - the tree says that these are errors; the names say which.

from __future__ import annotations

import attrs

MAX_EXCERPT = 80
"""How much of a text from outside enters an error: enough to recognise it, too little to flood a log."""


def excerpt(text: str) -> str:
    """Show a text from outside: quoted, escaped and cut."""
    return repr(text) if len(text) <= MAX_EXCERPT else f"{text[:MAX_EXCERPT]!r}…"


class NriError(Exception):
    """The root of everything this library raises on purpose."""


class Unavailable(NriError):
    """The runtime cannot be used now; a later attempt may succeed."""


@attrs.frozen
class Unreachable(Unavailable):
    """Nobody accepts connections at the runtime's socket."""

    address: str
    reason: str

    def __str__(self) -> str:
        return f"NRI socket {self.address}: {self.reason}"


@attrs.frozen
class Disconnected(Unavailable):
    """The connection ended, and we did not ask for it: the runtime stopped, or dropped this plugin for a time-out."""

    reason: str
    state: str

    def __str__(self) -> str:
        return f"NRI connection lost while {self.state}: {self.reason}"


@attrs.frozen
class Rejected(Unavailable):
    """The runtime does not take this plugin as it is; the next attempt will probably end the same way."""

    reason: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"NRI registration rejected: {self.reason}"
        return f"{text} ({self.hint})" if self.hint else text


@attrs.frozen
class ProtocolViolation(NriError):
    """The peer sent bytes that no runtime sends."""

    reason: str

    def __str__(self) -> str:
        return f"NRI protocol violation: {self.reason}"


@attrs.frozen
class CallFailed(NriError):
    """The runtime answered a call of ours with an error status."""

    method: str
    code: int
    message: str

    def __str__(self) -> str:
        return f"NRI call {self.method} failed with status {self.code}: {excerpt(self.message)}"


@attrs.frozen
class CallTimedOut(NriError):
    """The runtime did not answer a call of ours; whether it took effect is unknown."""

    method: str
    seconds: float

    def __str__(self) -> str:
        return f"NRI call {self.method} was not answered within {self.seconds:g} s"


@attrs.frozen
class DeadlineOverrun(NriError):
    """A handler took longer than the runtime waits, less a margin for the answer's way."""

    method: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.method} was not handled within {self.seconds:.3g} s"


@attrs.frozen
class OutOfOrder(NriError):
    """A step of the registration came when it has no place."""

    event: str
    state: str

    def __str__(self) -> str:
        return f"{self.event} has no place while {self.state}"


@attrs.frozen
class MessageTooLarge(NriError):
    """A message is larger than the receiver accepts; sending it would end the connection."""

    size_bytes: int
    limit_bytes: int

    def __str__(self) -> str:
        return f"message of {self.size_bytes} bytes exceeds the limit of {self.limit_bytes} bytes"


@attrs.frozen
class Misuse(NriError):
    """The caller broke the interface's rules; fix the calling code."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@attrs.frozen
class Refused(NriError):
    """
    Raise this in a handler to refuse a request.

    The text reaches the runtime's caller, for a container creation the kubelet and so the pod's events: name what is
    wrong and what would be accepted, and put no secrets in it.
    """

    reason: str
    code: int = 2

    def __str__(self) -> str:
        return self.reason


class CriError(NriError):
    """A call to the runtime's CRI socket did not succeed."""


@attrs.frozen
class CriUnavailable(CriError):
    """The CRI socket is missing, refuses, or was cut during the call."""

    method: str
    reason: str

    def __str__(self) -> str:
        return f"CRI {self.method}: runtime unavailable: {self.reason}"


@attrs.frozen
class CriDeadlineExceeded(CriError):
    """The runtime did not answer in time; whether the call took effect is unknown."""

    method: str
    seconds: float

    def __str__(self) -> str:
        return f"CRI {self.method}: no answer within {self.seconds:g} s"


@attrs.frozen
class CriFailed(CriError):
    """The runtime answered with an error status; `status` is gRPC's name for it."""

    method: str
    status: str
    message: str

    def __str__(self) -> str:
        return f"CRI {self.method}: {self.status}: {excerpt(self.message)}"
