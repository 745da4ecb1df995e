"""
Answers the runtime's requests from a plugin's handlers: exactly one answer to each, in time.

An answer that comes too late is worse than an error: the runtime goes on as if the plugin were not there. So a
handler's deadline is kept here, whatever the handler does: one that waits is cancelled and its request refused, and the
result of one that blocked the loop is replaced by a refusal.
"""

from __future__ import annotations

import asyncio
import collections
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import attrs
from google.protobuf.message import DecodeError, Message

from nri_aio import methods
from nri_aio.errors import (
    DeadlineOverrun,
    MessageTooLarge,
    OutOfOrder,
    Refused,
    excerpt,
)
from nri_aio.plugin import Call
from nri_aio.session import Request, Session
from nri_aio.ttrpc import Code

DEADLINE_SHARE = 0.75
"""The part of the runtime's limit that a handler may use; the rest is for a busy loop and the answer's way."""

MAX_TASKS = 256
"""Handlers that do not end when cancelled must not pile up; a runtime sends one request at a time."""


@attrs.frozen
class Route:
    """How one method is served. `settle` is told, once the answer was handed over, whether it was a refusal."""

    decode: Callable[[bytes], Any]
    handle: Callable[[Any, Call], Any]
    response: type[Message]
    settle: Callable[[Exception | None], None] | None = None


@attrs.define(eq=False)
class _Exchange:
    stream: int
    route: Route
    call: Call
    is_answered: bool = False


class Server:
    """
    Serves one connection.

    Args:
        session: Builds the answers.
        routes: How each method is served.
        send: Hands bytes to the transport.
        report: Takes what went wrong without anyone meaning it; must not raise.
    """

    def __init__(
        self,
        *,
        session: Session,
        routes: Mapping[str, Route],
        send: Callable[[bytes], None],
        report: Callable[[str, Exception], None],
    ) -> None:
        self.default_timeout = 2.0
        self.requests: collections.Counter[str] = collections.Counter()
        self.refusals = 0
        self.tasks: set[asyncio.Task[None]] = set()
        self._session = session
        self._routes = routes
        self._send = send
        self._report = report
        self._is_closed = False
        self._loop = asyncio.get_running_loop()

    def serve(self, request: Request, arrived: float) -> None:
        """Answer a request now, or begin the task that will."""
        route = self._routes.get(request.method) if request.service == methods.PLUGIN_SERVICE else None
        if route is None:
            self._refuse_unknown(request)
            return
        self.requests[request.method] += 1
        exchange = _Exchange(request.stream, route, self._call(request, arrived))
        try:
            result = route.handle(route.decode(request.payload), exchange.call)
        except Exception as error:  # noqa: BLE001 - every exception must become an answer
            self._fail(exchange, error)
            return
        if result is not None and inspect.isawaitable(result):
            self._start(exchange, result)
        else:
            self._complete(exchange, result)

    def close(self) -> None:
        """Cancel every handler that still waits; nothing is answered any more."""
        self._is_closed = True
        for task in self.tasks:
            task.cancel()

    def _call(self, request: Request, arrived: float) -> Call:
        timeout = self.default_timeout
        if request.timeout_nano > 0:
            timeout = min(timeout, request.timeout_nano / 1e9)
        return Call(request.method, arrived, arrived + timeout * DEADLINE_SHARE, timeout)

    def _refuse_unknown(self, request: Request) -> None:
        text = f"unknown method {excerpt(request.method)} of service {excerpt(request.service)}"
        self.refusals += 1
        self._send(self._session.refuse(request.stream, Code.UNIMPLEMENTED, text))

    def _complete(self, exchange: _Exchange, result: Message | None) -> None:
        """Answer with what a handler returned, unless it is unfit or late."""
        try:
            if self._loop.time() > exchange.call.deadline:
                raise _overrun(exchange)  # noqa: TRY301 - one place turns errors into answers
            data = self._session.answer(exchange.stream, _serialize(exchange.route, result))
        except Exception as error:  # noqa: BLE001 - every exception must become an answer
            self._fail(exchange, error)
            return
        exchange.is_answered = True
        self._send(data)
        if exchange.route.settle:
            exchange.route.settle(None)

    def _fail(self, exchange: _Exchange, error: Exception) -> None:
        exchange.is_answered = True
        self.refusals += 1
        code, text = _refusal(exchange.call.method, error)
        self._send(self._session.refuse(exchange.stream, code, text))
        if not isinstance(error, Refused):
            self._report(exchange.call.method, error)
        if exchange.route.settle:
            exchange.route.settle(error)

    def _start(self, exchange: _Exchange, result: Awaitable[Message | None]) -> None:
        if len(self.tasks) >= MAX_TASKS:
            if inspect.iscoroutine(result):
                result.close()
            self._fail(exchange, Refused(f"more than {MAX_TASKS} requests are being handled", Code.RESOURCE_EXHAUSTED))
            return
        # No task group: a request can come before `run` does, and every exception ends as an answer.
        task = self._loop.create_task(self._finish(exchange, result), name=f"nri {exchange.call.method}")
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        timer = self._loop.call_at(exchange.call.deadline, self._expire, exchange, task)
        task.add_done_callback(lambda _: timer.cancel())

    def _expire(self, exchange: _Exchange, task: asyncio.Task[None]) -> None:
        if self._is_open(exchange):
            self._fail(exchange, _overrun(exchange))
        task.cancel()

    async def _finish(self, exchange: _Exchange, pending: Awaitable[Message | None]) -> None:
        try:
            result = await pending
        except asyncio.CancelledError:
            # By us, after an answer or at the end of the connection; or by the handler itself, which needs an answer.
            if self._is_open(exchange):
                self._fail(exchange, Refused(f"{exchange.call.method} was cancelled"))
            raise
        except Exception as error:  # noqa: BLE001 - every exception must become an answer
            if self._is_open(exchange):
                self._fail(exchange, error)
        else:
            if self._is_open(exchange):
                self._complete(exchange, result)

    def _is_open(self, exchange: _Exchange) -> bool:
        """Tell whether a request still wants an answer: not after its deadline, nor after the connection's end."""
        return not (exchange.is_answered or self._is_closed)


def _overrun(exchange: _Exchange) -> DeadlineOverrun:
    call = exchange.call
    return DeadlineOverrun(call.method, call.deadline - call.arrived)


def _serialize(route: Route, result: Message | None) -> bytes:
    if result is None:
        return b""
    if result.__class__ is not route.response:
        raise TypeError(f"handler returned {type(result).__name__}, not {route.response.__name__} or None")
    return result.SerializeToString()


def _refusal(method: str, error: Exception) -> tuple[int, str]:
    """Choose code and text; an exception's own text may hold a secret and stays here."""
    match error:
        case Refused():
            return error.code, error.reason
        case DeadlineOverrun():
            return Code.DEADLINE_EXCEEDED, str(error)
        case OutOfOrder():
            return Code.FAILED_PRECONDITION, str(error)
        case MessageTooLarge():
            return Code.RESOURCE_EXHAUSTED, f"answer to {method}: {error}"
        case DecodeError():
            return Code.INVALID_ARGUMENT, f"undecodable {method} request"
        case _:
            return Code.UNKNOWN, f"{method} handler failed: {type(error).__name__}"
