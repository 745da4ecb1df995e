"""
What a call of one of our services can end with, the same on both sides of the socket.

    InvalidInput
    └── CallRejected         INVALID_ARGUMENT: what was asked for cannot be
    Unavailable
    ├── Declined             the service is there and says no
    │   ├── NoSuchClient         NOT_FOUND
    │   ├── ClientStuck          DEADLINE_EXCEEDED: its work did not end in time
    │   ├── NothingToRestart     FAILED_PRECONDITION
    │   └── DaemonUnavailable    UNAVAILABLE: what it speaks for does not answer
    ├── NobodyThere          nothing answers on the socket
    └── SocketUnusable       the socket cannot be made
    ProtocolViolation
    └── CallBroken           any other end of a call
"""

from __future__ import annotations

import attrs

from fractioning_core.errors import InvalidInput, ProtocolViolation, Unavailable, escaped

MESSAGE_LIMIT = 400


@attrs.frozen(auto_exc=False)
class CallRejected(InvalidInput):
    """
    An argument is out of bounds.
    """

    message: str

    def __str__(self) -> str:
        return escaped(self.message, MESSAGE_LIMIT)


@attrs.frozen(auto_exc=False)
class Declined(Unavailable):
    """
    The service said no, in its own words.
    """

    message: str

    def __str__(self) -> str:
        return escaped(self.message, MESSAGE_LIMIT)


class NoSuchClient(Declined):
    """
    No such client is attached.
    """


class ClientStuck(Declined):
    """
    A client's work did not end within the deadline.
    """


class NothingToRestart(Declined):
    """
    No daemon runs that could be restarted.
    """


class DaemonUnavailable(Declined):
    """
    The control daemon does not run, does not answer, or answers with an error.
    """


@attrs.frozen(auto_exc=False)
class NobodyThere(Unavailable):
    """
    Nothing answers on a socket.
    """

    path: str
    cause: str

    def __str__(self) -> str:
        return f"nothing answers on {escaped(self.path, 200)}: {escaped(self.cause, MESSAGE_LIMIT)}"


@attrs.frozen(auto_exc=False)
class SocketUnusable(Unavailable):
    """
    A socket cannot be made where it was asked for.
    """

    path: str
    cause: str

    def __str__(self) -> str:
        return f"cannot serve on {escaped(self.path, 200)}: {escaped(self.cause, MESSAGE_LIMIT)}"


@attrs.frozen(auto_exc=False)
class CallBroken(ProtocolViolation):
    """
    A call ended in a way that the service does not document.
    """

    status: str
    message: str

    def __str__(self) -> str:
        return f"{escaped(self.status)}: {escaped(self.message, MESSAGE_LIMIT)}"
