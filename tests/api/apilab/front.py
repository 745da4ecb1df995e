"""
A TLS server before the API server that knows only the newest token, as an API server does after a rotation.

The real server keeps accepting a token for a while after its end, so that what a client does at the first refusal
would take minutes to see. A watch is passed on for as long as its token is the newest: with the first event after that
it is cut.
"""

from __future__ import annotations

import ssl
from collections import Counter
from collections.abc import Callable
from typing import Self

import aiohttp
from aiohttp import web

from apilab.controlplane import ControlPlane, free_port


class Front:
    """
    Passes on what shows the newest token, and refuses the rest with 401.

    Args:
        plane: Whom it stands before.
        newest: Gives the token to accept.
    """

    def __init__(self, plane: ControlPlane, *, newest: Callable[[], str]) -> None:
        self.port = free_port()
        self.refused: Counter[str] = Counter()
        """
        Requests refused, by verb.
        """
        self.passed: Counter[str] = Counter()
        """
        Requests passed on, by verb.
        """
        self._plane = plane
        self._newest = newest
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """
        Where it is.
        """
        return f"https://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        trust = ssl.create_default_context(cafile=self._plane.certificates.ca)
        identity = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        identity.load_cert_chain(self._plane.certificates.server, self._plane.certificates.server_key)
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust))
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=identity).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if not self._is_newest(request):
            self.refused[request.method] += 1
            return web.json_response({"kind": "Status", "message": "Unauthorized", "code": 401}, status=401)
        self.passed[request.method] += 1
        return await self._passed_on(request)

    def _is_newest(self, request: web.Request) -> bool:
        return request.headers.get("Authorization") == f"Bearer {self._newest()}"

    async def _passed_on(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None, "entered"
        headers = {name: request.headers[name] for name in ("Authorization", "Accept", "Content-Type")}
        url = f"{self._plane.account.url}{request.path_qs}"
        body = await request.read()
        async with self._session.request(request.method, url, headers=headers, data=body) as answer:
            copy = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.headers["Content-Type"]})
            await copy.prepare(request)
            async for chunk in answer.content.iter_any():
                if not self._is_newest(request):
                    assert request.transport is not None, "open"
                    request.transport.abort()
                    break
                await copy.write(chunk)
            return copy
