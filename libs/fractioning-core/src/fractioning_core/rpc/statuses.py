"""
Our errors as gRPC statuses, and back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from grpclib.const import Status
from grpclib.exceptions import GRPCError

from fractioning_core.errors import FractioningError, InvalidInput, Unavailable
from fractioning_core.rpc.errors import (
    CallBroken,
    CallRejected,
    ClientStuck,
    DaemonUnavailable,
    NoSuchClient,
    NothingToRestart,
)

# In the order looked through: the branches come after their leaves.
_STATUSES: tuple[tuple[type[FractioningError], Status], ...] = (
    (NoSuchClient, Status.NOT_FOUND),
    (ClientStuck, Status.DEADLINE_EXCEEDED),
    (NothingToRestart, Status.FAILED_PRECONDITION),
    (InvalidInput, Status.INVALID_ARGUMENT),
    (Unavailable, Status.UNAVAILABLE),
)
_ERRORS = {
    Status.NOT_FOUND: NoSuchClient,
    Status.DEADLINE_EXCEEDED: ClientStuck,
    Status.FAILED_PRECONDITION: NothingToRestart,
    Status.INVALID_ARGUMENT: CallRejected,
    Status.UNAVAILABLE: DaemonUnavailable,
}


@contextmanager
def answered() -> Iterator[None]:
    """
    Answer the expected errors of a service with their status; any other is logged by grpclib and hidden from the peer.
    """
    try:
        yield
    except FractioningError as error:
        status = next((status for kind, status in _STATUSES if isinstance(error, kind)), None)
        if status is None:
            raise
        raise GRPCError(status, str(error)) from error


def received(error: GRPCError) -> FractioningError:
    """
    Give the error that a status stands for.
    """
    message = error.message or ""
    kind = _ERRORS.get(error.status)
    return CallBroken(error.status.name, message) if kind is None else kind(message)
