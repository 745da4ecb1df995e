"""
An API server in memory, spoken to over loopback without TLS: what a client sends, and how it takes each answer.

It knows no objects. What a real server makes of a request is for tests against a real one.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeAlias

import attrs
from aiohttp import web

_SHUTDOWN_SECONDS = 0.1


class Ending(enum.Enum):
    """
    What becomes of a stream after its last chunk.
    """

    CLEAN = enum.auto()
    CUT = enum.auto()
    SILENCE = enum.auto()


@attrs.frozen
class Streamed:
    """
    An answer in chunks, and how it ends.
    """

    chunks: tuple[bytes, ...]
    ending: Ending = Ending.CLEAN
    headers: Mapping[str, str] = attrs.field(factory=dict)


Answer: TypeAlias = Callable[[], web.Response] | Streamed


@attrs.frozen
class Seen:
    """
    One request as it arrived.
    """

    verb: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any

    @property
    def token(self) -> str:
        """
        The token it showed.
        """
        return self.headers["Authorization"].removeprefix("Bearer ")


def agree() -> web.Response:
    """
    Answer as a server does that did what was asked.
    """
    return web.json_response({"kind": "Node"})


def cut() -> web.Response:
    """
    Stand for a connection that is dropped instead of answered.
    """
    return web.Response()


def refuse(status: int, message: str, *, retry_after: str | None = None) -> Answer:
    """
    Make an answer that says no.
    """
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return lambda: web.json_response({"kind": "Status", "message": message}, status=status, headers=headers)


@attrs.define
class FakeApiServer:
    """
    Answers with what it was given, in order, and goes on with the last answer; serves while entered.
    """

    answers: list[Answer] = attrs.field(factory=lambda: [agree])
    accepted_token: str | None = None
    """
    The only token it knows; None lets everybody in.
    """

    hangs: bool = False
    """
    Whether it keeps requests without an answer.
    """

    seen: list[Seen] = attrs.field(factory=list)
    _runner: web.AppRunner | None = attrs.field(default=None, init=False)

    @property
    def url(self) -> str:
        """
        Where it is, while entered.
        """
        assert self._runner is not None, "enter it first"  # noqa: S101 - it is a tool for tests
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}"

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json() if await request.text() else None
        seen = Seen(
            request.method, request.raw_path.partition("?")[0], dict(request.query), dict(request.headers), body
        )
        self.seen.append(seen)
        if self.hangs:
            await asyncio.Event().wait()
        if self.accepted_token not in {None, seen.token}:
            return web.json_response({"kind": "Status", "message": "Unauthorized"}, status=401)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Streamed):
            return await _streamed(request, answer)
        if answer is cut:
            _abort(request)
        return answer()


async def _streamed(request: web.Request, answer: Streamed) -> web.StreamResponse:
    response = web.StreamResponse(headers=answer.headers)
    await response.prepare(request)
    for chunk in answer.chunks:
        await response.write(chunk)
    if answer.ending is Ending.CUT:
        _abort(request)
    if answer.ending is Ending.SILENCE:
        await asyncio.Event().wait()
    return response


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
