"""
One call of the runtime's gRPC service, with a deadline, and every failure as one kind of error.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from google.protobuf.message import Message
from grpclib.client import Channel, UnaryUnaryMethod
from grpclib.exceptions import GRPCError, StreamTerminatedError

from lab.errors import CriError

DEADLINE_SECONDS = 30.0
_SERVICE = "/runtime.v1.RuntimeService"

M = TypeVar("M", bound=Message)


class Rpc:
    """
    A channel to the service behind a socket; it dials again by itself when the runtime was restarted.
    """

    def __init__(self, socket: Path) -> None:
        self._channel = Channel(path=str(socket))

    def close(self) -> None:
        """
        Hang up.
        """
        self._channel.close()

    async def call(
        self, method: str, request: Message, answer: type[M], *, deadline_seconds: float = DEADLINE_SECONDS
    ) -> M:
        """
        Call a method by its bare name.

        Raises:
            CriError: It was refused, not answered in time, or there is no runtime.
        """
        call = UnaryUnaryMethod[Message, M](self._channel, f"{_SERVICE}/{method}", type(request), answer)
        with _errors_of(method):
            response: M = await call(request, timeout=deadline_seconds)
        return response


@contextmanager
def _errors_of(method: str) -> Iterator[None]:
    try:
        yield
    except GRPCError as error:
        raise CriError(method, error.status.name, error.message or "") from error
    except TimeoutError as error:
        raise CriError(method, "DEADLINE_EXCEEDED", "no answer in time") from error
    except (OSError, StreamTerminatedError) as error:
        raise CriError(method, "UNAVAILABLE", str(error)) from error
