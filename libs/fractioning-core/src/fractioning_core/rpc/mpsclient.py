"""
A client of mps.v1: calls with deadlines, values out, our errors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Self, TypeVar

from grpclib.client import Channel
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError

from fractioning_core.rpc import mpswire, statuses
from fractioning_core.rpc.errors import NobodyThere
from fractioning_core.rpc.mpsvalues import MpsStatus, RestartKind
from fractioning_core.rpc.pb.fractioning.mps import v1

T = TypeVar("T")

# mpsd answers from memory, or asks a control daemon that has ten seconds of its own.
STATUS_SECONDS = 5.0
COMMAND_SECONDS = 15.0
# What mpsd needs around a termination: a list before and one after.
TERMINATE_MARGIN_SECONDS = 25.0


class MpsClient:
    """
    The calls; use it inside `async with`.

    Args:
        channel: To mpsd; `at` makes one for a socket.
        path: The socket, for errors.
    """

    def __init__(self, channel: Channel, *, path: str) -> None:
        self._channel = channel
        self._path = path
        self._stub = v1.MpsStub(channel)

    @classmethod
    def at(cls, path: str) -> MpsClient:
        """
        Give a client for a socket; it dials at its first call.
        """
        return cls(Channel(path=path), path=path)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._channel.close()

    async def status(self) -> MpsStatus:
        """
        Ask what mpsd knows.

        Raises:
            NobodyThere: nothing answers.
            CallBroken: no answer of this service.
        """
        return mpswire.decode_status(await self._call(self._stub.status(v1.StatusRequest()), STATUS_SECONDS))

    async def list_clients(self) -> tuple[int, ...]:
        """
        Ask who is attached.

        Raises:
            DaemonUnavailable: the control daemon does not tell.
            NobodyThere: nothing answers.
        """
        answer = await self._call(self._stub.list_clients(v1.ListClientsRequest()), COMMAND_SECONDS)
        return tuple(answer.pids)

    async def terminate_client(self, pid: int, *, deadline_seconds: float) -> None:
        """
        Take a client off its GPU.

        Raises:
            CallRejected: pid or deadline out of bounds.
            NoSuchClient: no such client is attached.
            ClientStuck: its work did not end in time.
            DaemonUnavailable: the control daemon does not obey.
            NobodyThere: nothing answers.
        """
        request = v1.TerminateClientRequest(pid=pid, deadline_seconds=deadline_seconds)
        await self._call(self._stub.terminate_client(request), deadline_seconds + TERMINATE_MARGIN_SECONDS)

    async def restart(self, kind: RestartKind, *, reason: str) -> None:
        """
        Ask for a restart; `status` tells how it goes.

        Raises:
            CallRejected: the reason is too long.
            NothingToRestart: no daemon runs.
            NobodyThere: nothing answers.
        """
        request = v1.RestartRequest(kind=mpswire.encode_kind(kind), reason=reason)
        await self._call(self._stub.restart(request), COMMAND_SECONDS)

    async def _call(self, call: Awaitable[T], deadline_seconds: float) -> T:
        # Not gRPC's own deadline: that covers neither dialling nor a server that reads nothing.
        try:
            async with asyncio.timeout(deadline_seconds):
                return await call
        except GRPCError as error:
            raise statuses.received(error) from error
        except TimeoutError as error:
            raise NobodyThere(self._path, f"no answer within {deadline_seconds:g} s") from error
        except (OSError, ProtocolError, StreamTerminatedError) as error:
            raise NobodyThere(self._path, getattr(error, "strerror", None) or str(error)) from error
