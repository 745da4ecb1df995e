"""
A TLS server before the API server that makes trouble: it refuses, delays, cuts and swallows, and counts.

    async with Gate(plane) as gate:
        gate.refuse(429, verb="PATCH", path="/nodes/", headers={"Retry-After": "2"}, times=1)
        ...
        gate.cut_watches()
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Self

import aiohttp
import attrs
from aiohttp import web

from apilab.controlplane import ControlPlane, free_port

_PASSED_ON = ("Authorization", "Accept", "Accept-Encoding", "Content-Type", "User-Agent")


@attrs.frozen
class Seen:
    """
    A request that came.
    """

    verb: str
    path: str
    """With its query."""
    status: int
    """What was answered."""

    @property
    def is_watch(self) -> bool:
        """
        Whether it asked for a watch.
        """
        return "watch=" in self.path

    @property
    def is_list(self) -> bool:
        """
        Whether it asked for everything that is there, be it as the first part of a watch.
        """
        if self.is_watch:
            return "sendInitialEvents=true" in self.path
        return self.verb == "GET" and "limit=" in self.path


@attrs.define
class _Refusal:
    """
    What is answered in the API server's place.
    """

    status: int
    verb: str
    path: re.Pattern[str]
    headers: Mapping[str, str]
    left: float

    def fits(self, verb: str, path: str) -> bool:
        return self.left > 0 and self.verb in {"", verb} and bool(self.path.search(path))


class Gate:
    """
    Passes on everything, but for the trouble that was asked for.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self.port = free_port()
        self.seen: list[Seen] = []
        """
        Every request so far, in the order of the answers' beginnings.
        """
        self.delay_seconds = 0.0
        """
        How long each request waits before it is passed on.
        """
        self.newest: Callable[[], str] | None = None
        """
        Gives the only token that is accepted; the real server goes on accepting a token for a while after its end.
        """
        self._plane = plane
        self._refusals: list[_Refusal] = []
        self._watches: set[_Watch] = set()
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """
        Where it is.
        """
        return f"https://127.0.0.1:{self.port}"

    @property
    def watches(self) -> int:
        """
        How many watches are open.
        """
        return len(self._watches)

    def refuse(
        self,
        status: int,
        *,
        verb: str = "",
        path: str = "",
        headers: Mapping[str, str] | None = None,
        times: float = float("inf"),
    ) -> None:
        """
        Answer with a status from now on.

        Args:
            status: The answer's.
            verb: Only requests with this one; empty for all.
            path: Only those in whose path and query this regular expression is found.
            headers: The answer's.
            times: How many requests.
        """
        self._refusals.append(_Refusal(status, verb, re.compile(path), headers or {}, times))

    def relent(self) -> None:
        """
        Refuse nothing more, and delay nothing.
        """
        self._refusals.clear()
        self.delay_seconds = 0.0

    def cut_watches(self) -> None:
        """
        Break off each watch that is open, as a balancer that is restarted.
        """
        for watch in tuple(self._watches):
            watch.cut.set()

    def swallow_watches(self) -> None:
        """
        Let nothing more through on the watches that are open, and do not close them either.
        """
        for watch in self._watches:
            watch.is_swallowed = True

    async def __aenter__(self) -> Self:
        trust = ssl.create_default_context(cafile=self._plane.certificates.ca)
        identity = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        identity.load_cert_chain(self._plane.certificates.server, self._plane.certificates.server_key)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=trust, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        application = web.Application(client_max_size=1 << 26)
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=identity).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut_watches()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        refusal = next((each for each in self._refusals if each.fits(request.method, request.path_qs)), None)
        if refusal is not None:
            refusal.left -= 1
            return self._refused(request, refusal.status, refusal.headers)
        if self.newest is not None and request.headers.get("Authorization") != f"Bearer {self.newest()}":
            return self._refused(request, 401, {})
        # First: what has come is passed on even when whoever sent it is gone by then, as from a slow server's queue.
        body = await request.read()
        await asyncio.sleep(self.delay_seconds)
        return await self._passed_on(request, body)

    def _refused(self, request: web.Request, status: int, headers: Mapping[str, str]) -> web.Response:
        self._note(request, status)
        body = {"kind": "Status", "message": f"the gate says {status}", "code": status}
        return web.json_response(body, status=status, headers=headers)

    async def _passed_on(self, request: web.Request, body: bytes) -> web.StreamResponse:
        assert self._session is not None, "entered"
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        url = f"{self._plane.account.url}{request.path_qs}"
        try:
            async with self._session.request(request.method, url, headers=headers, data=body) as answer:
                self._note(request, answer.status)
                return await self._copied(request, answer)
        except aiohttp.ClientError:
            _abort(request)
            raise

    async def _copied(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        names = ("Content-Type", "Content-Encoding", "Retry-After")
        copy = web.StreamResponse(
            status=answer.status, headers={name: answer.headers[name] for name in names if name in answer.headers}
        )
        await copy.prepare(request)
        if "watch=" in request.query_string:
            await self._watched(request, answer, copy)
        else:
            await copy.write(await answer.read())
        return copy

    async def _watched(self, request: web.Request, answer: aiohttp.ClientResponse, copy: web.StreamResponse) -> None:
        watch = _Watch()
        self._watches.add(watch)
        try:
            async with asyncio.TaskGroup() as group:
                pump = group.create_task(_pump(answer, copy, watch))
                cut = group.create_task(watch.cut.wait())
                await asyncio.wait((pump, cut), return_when=asyncio.FIRST_COMPLETED)
                pump.cancel()
                cut.cancel()
        finally:
            self._watches.discard(watch)
        if watch.cut.is_set():
            _abort(request)

    def _note(self, request: web.Request, status: int) -> None:
        self.seen.append(Seen(request.method, request.path_qs, status))


@attrs.define(eq=False)
class _Watch:
    """
    One that is open.
    """

    cut: asyncio.Event = attrs.field(factory=asyncio.Event)
    is_swallowed: bool = False


async def _pump(answer: aiohttp.ClientResponse, copy: web.StreamResponse, watch: _Watch) -> None:
    # Whoever asked may have gone.
    with suppress(aiohttp.ClientError, ConnectionError):
        async for chunk in answer.content.iter_any():
            if not watch.is_swallowed:
                await copy.write(chunk)
    if watch.is_swallowed:
        await watch.cut.wait()


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
