"""
One plugin, as a runtime knows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from google.protobuf.message import Message

from nri_aio import methods
from nri_aio.errors import CallTimedOut, NriError
from nri_aio.pb import nri_pb2 as pb
from nri_aio.session import Request, Role, Session
from nri_aio.ttrpc import Code
from nri_aio.wire import Wire

M = TypeVar("M", bound=Message)


class Lost(NriError):  # noqa: N818 - says what happened
    """A plugin was late, gone, or did what a runtime does not accept; it was dropped."""


class Peer:
    """
    A plugin's connection.

    Args:
        on_update: Takes the requests that come at any time, UpdateContainers.
        on_end: Told when the connection is over.
    """

    def __init__(self, *, on_update: Callable[[Peer, Request], None], on_end: Callable[[Peer], None]) -> None:
        self.name = ""
        """Index and name, as runtimes say it: "10-example"."""
        self.events = 0
        self.registered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_update = on_update
        self._on_end = on_end
        self.session = Session(Role.RUNTIME)
        self.wire = Wire(self.session, on_request=self._serve, on_end=self._lost)

    def has(self, event: int) -> bool:
        """Tell whether the plugin subscribed to an event."""
        return bool(self.events >> (event - 1) & 1)

    async def ask(self, method: str, request: Message, reply: type[M], *, seconds: float) -> M:
        """
        Call the plugin.

        Raises:
            Lost: It did not answer in time, or is gone.
            CallFailed: It refused.
        """
        sent = request.SerializeToString()
        try:
            payload = await self.wire.call(methods.PLUGIN_SERVICE, method, sent, timeout=seconds)
        except CallTimedOut as error:
            self.wire.close()
            raise Lost(str(error)) from error
        if payload is None:
            raise Lost("ttrpc: closed")
        return reply.FromString(payload)

    def _serve(self, request: Request, _arrived: float) -> None:
        if request.method == "RegisterPlugin" and not self.registered.done():
            self._register(request)
        elif request.method == "UpdateContainers":
            self._on_update(self, request)
        else:
            self.wire.send(self.session.refuse(request.stream, Code.UNIMPLEMENTED, "unknown method"))

    def _register(self, request: Request) -> None:
        message = pb.RegisterPluginRequest.FromString(request.payload)
        index = message.plugin_idx
        if len(index) != 2 or not (index.isascii() and index.isdigit()):
            text = f'invalid plugin index: "{index}", must be 2 digits'
            self.wire.send(self.session.refuse(request.stream, Code.UNKNOWN, text))
            self.wire.close()
            return
        self.name = f"{index}-{message.plugin_name}"
        self.wire.send(self.session.answer(request.stream, b""))
        self.registered.set_result(None)

    def _lost(self, _reason: Exception | None) -> None:
        if not self.registered.done():
            self.registered.cancel()
        self._on_end(self)
