"""
Moves a session's bytes over an asyncio transport, and matches calls with their responses.

Requests are handed on inside `data_received`, so that an answer needs no trip through the event loop. When the peer
does not read, nothing more is read from it: answers wait in a buffer, and that buffer must not grow with its requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from nri_aio.errors import CallFailed, CallTimedOut, ProtocolViolation
from nri_aio.session import BadRequest, Request, Response, Session

Reply = asyncio.Future[Response | None]
"""The response to a call; None when the connection ended before it."""


class Wire(asyncio.Protocol):
    """
    One end of a connection.

    Args:
        session: Understands the bytes.
        on_request: Takes each request and the loop time of its arrival.
        on_end: Told once when the connection is over, with the reason if it was not closed from here.
    """

    def __init__(
        self,
        session: Session,
        *,
        on_request: Callable[[Request, float], None],
        on_end: Callable[[Exception | None], None],
    ) -> None:
        self.bytes_received = 0
        self.bytes_sent = 0
        self.closed = asyncio.Event()
        self._session = session
        self._on_request = on_request
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._is_closing = False
        self._calls: dict[int, Reply] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport; asyncio calls this."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Serve what the bytes hold; asyncio calls this."""
        arrived = self._loop.time()
        self.bytes_received += len(data)
        try:
            events = self._session.receive(data)
        except ProtocolViolation as violation:
            self._finish(violation)
            self.abort()
            return
        for event in events:
            if self._is_closing:
                return
            if isinstance(event, Request):
                self._on_request(event, arrived)
            elif isinstance(event, BadRequest):
                self.send(self._session.refuse(event.stream, event.code, event.reason))
            else:
                self._settle(event)

    def connection_lost(self, exc: Exception | None) -> None:
        """Learn of the end; asyncio calls this once."""
        self._finish(exc)
        self.closed.set()

    def pause_writing(self) -> None:
        """Stop reading while the peer does not; asyncio calls this."""
        if self._transport and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Read again; asyncio calls this."""
        if self._transport and not self._transport.is_closing():
            self._transport.resume_reading()

    def send(self, data: bytes) -> None:
        """Hand bytes to the transport; after the end they are dropped."""
        if self._transport and not self._is_closing:
            self.bytes_sent += len(data)
            self._transport.write(data)

    def begin_call(self, service: str, method: str, payload: bytes, *, timeout_nano: int) -> Reply:
        """Send a call; the future gets its response."""
        if self._is_closing:
            return self._unanswered()
        stream, data = self._session.call(service=service, method=method, payload=payload, timeout_nano=timeout_nano)
        reply: Reply = self._loop.create_future()
        reply.add_done_callback(lambda _: self._forget(stream))
        self._calls[stream] = reply
        self.send(data)
        return reply

    async def call(self, service: str, method: str, payload: bytes, *, timeout: float) -> bytes | None:  # noqa: ASYNC109 - sent to the peer, too
        """
        Call the peer and wait.

        Returns:
            The response's payload, or None when the connection ended.

        Raises:
            CallFailed: The peer answered with an error.
            CallTimedOut: It did not answer in time.
        """
        reply = self.begin_call(service, method, payload, timeout_nano=int(timeout * 1e9))
        try:
            async with asyncio.timeout(timeout):
                response = await reply
        except TimeoutError as error:
            raise CallTimedOut(method, timeout) from error
        if response is None:
            return None
        if response.code:
            raise CallFailed(method, response.code, response.message)
        return response.payload

    def close(self) -> None:
        """Close after what was handed over is sent; nothing that arrives from now on is looked at."""
        self._finish(None)
        if self._transport:
            self._transport.close()
        else:
            self.closed.set()

    def abort(self) -> None:
        """Close at once."""
        self._finish(None)
        if self._transport:
            self._transport.abort()

    def _unanswered(self) -> Reply:
        reply: Reply = self._loop.create_future()
        reply.set_result(None)
        return reply

    def _settle(self, response: Response) -> None:
        reply = self._calls.get(response.stream)
        if reply and not reply.done():
            reply.set_result(response)

    def _forget(self, stream: int) -> None:
        self._calls.pop(stream, None)
        self._session.abandon(stream)

    def _finish(self, reason: Exception | None) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        for reply in list(self._calls.values()):
            if not reply.done():
                reply.set_result(None)
        self._on_end(reason)
