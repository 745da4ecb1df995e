"""
An API server in memory, spoken to over loopback without TLS: what a client sends, and how it takes each answer.

It knows no objects. What a real server makes of a request is for tests against a real one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeAlias

import attrs
from aiohttp import web

Answer: TypeAlias = Callable[[], web.Response]

_SHUTDOWN_SECONDS = 0.1


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


def refuse(status: int, message: str) -> Answer:
    """
    Make an answer that says no.
    """
    return lambda: web.json_response({"kind": "Status", "message": message}, status=status)


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

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.json() if await request.text() else None
        seen = Seen(
            request.method, request.raw_path.partition("?")[0], dict(request.query), dict(request.headers), body
        )
        self.seen.append(seen)
        if self.hangs:
            await asyncio.Event().wait()
        if self.accepted_token not in {None, seen.token}:
            return refuse(401, "Unauthorized")()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is cut and request.transport is not None:
            request.transport.abort()
        return answer()
