"""The HTTP side of a service: alive, ready, and its metrics.

`/healthz` says that the event loop turns and nothing else, so that a restart is asked for only when one would help.
`/readyz` says what the service states about itself, with the reason when it is not ready. Both and the metrics are open
to the pod network, hence the small bounds.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from http import HTTPStatus
from typing import Self

import attrs
import structlog
from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from fractioning_core.errors import Unavailable
from fractioning_core.service.addresses import ALL_ADDRESSES, Address

METRICS_PATH = "/metrics"

SHUTDOWN_SECONDS = 5.0
"""How long a request in progress may hold up the end of a service."""

MAX_SCRAPES = 8
"""How many may be under way at a time. Each holds a page, megabytes on a full node, until its scraper has read it."""

SEND_BUFFER_BYTES = 65_536
"""What the kernel may take of answers that nobody reads, for each connection. By itself it would take megabytes."""

SCRAPE_SECONDS = 10.0
"""How long a scraper may take to read the page, as long as Prometheus waits for it by default."""

IDLE_SECONDS = 10.0
"""How long a connection may stay without a complete request head. A scraper that comes less often connects anew."""

MAX_HEAD_LINE_BYTES = 4096
"""No probe or scraper sends a request line or header near this."""

_LINGER_SECONDS = 1.0
"""How long to go on reading a body that nobody asked for, so that its sender sees the answer."""


@attrs.frozen
class Readiness:
    """
    What a service states about itself.

    Args:
        ready: Whether it does its work now.
        reason: What is missing, one line; empty when nothing is.
    """

    ready: bool
    reason: str = ""


@attrs.frozen(auto_exc=False)
class CannotListen(Unavailable):
    """
    An address could not be listened on.
    """

    address: Address
    cause: str

    def __str__(self) -> str:
        where = f"port {self.address.port}" if self.address.host == ALL_ADDRESSES else str(self.address)
        return f"cannot listen on {where}: {self.cause}"


@attrs.define(eq=False)
class HealthServer:
    """
    Serves `/healthz`, `/readyz` and the metrics while entered.

    Args:
        port: Where to listen; 0 serves nothing. `on_ephemeral_port` takes whatever port is free instead.
        readiness: Asked at each `/readyz`, from the event loop, so it answers from memory.
        page: Gives the metrics as Prometheus text, from the event loop as well.
        metrics_path: Where they are; it may be the path of one of the other pages, which is then not served.
        host: Address to listen on.
    """

    port: int
    _readiness: Callable[[], Readiness] = attrs.field(kw_only=True)
    _page: Callable[[], bytes] = attrs.field(kw_only=True)
    _metrics_path: str = attrs.field(default=METRICS_PATH, kw_only=True)
    _host: str = attrs.field(default=ALL_ADDRESSES, kw_only=True)
    _enabled: bool = attrs.field(init=False)
    _scrapes: int = attrs.field(default=0, init=False)
    _runner: web.AppRunner | None = attrs.field(default=None, init=False)
    bound_port: int | None = attrs.field(default=None, init=False)
    """The port while it listens."""

    def __attrs_post_init__(self) -> None:
        self._enabled = self.port != 0

    @classmethod
    def on_ephemeral_port(
        cls,
        *,
        readiness: Callable[[], Readiness],
        page: Callable[[], bytes],
        host: str,
        metrics_path: str = METRICS_PATH,
    ) -> Self:
        """
        Make a server on a port that the kernel picks; read it from `bound_port`.
        """
        server = cls(0, readiness=readiness, page=page, metrics_path=metrics_path, host=host)
        server._enabled = True
        return server

    async def __aenter__(self) -> Self:
        """
        Start to listen.

        Raises:
            CannotListen: The address is taken or not allowed; the caller decides whether that matters.
        """
        if self._enabled:
            sock = _bind(Address(self._host, self.port))
            # Connections have it from here.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
            self._runner = web.AppRunner(
                self._application(),
                access_log=None,
                # It is waited for so long twice: before a request is told, and after.
                shutdown_timeout=SHUTDOWN_SECONDS / 2,
                keepalive_timeout=IDLE_SECONDS,
                lingering_time=_LINGER_SECONDS,
                max_line_size=MAX_HEAD_LINE_BYTES,
                max_field_size=MAX_HEAD_LINE_BYTES,
            )
            await self._runner.setup()
            await web.SockSite(self._runner, sock).start()
            self.bound_port = sock.getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """
        Stop listening and let requests in progress end, within the shutdown grace.
        """
        runner, self._runner, self.bound_port = self._runner, None, None
        if runner is not None:
            await runner.cleanup()

    def _application(self) -> web.Application:
        pages = {"/healthz": self._healthz, "/readyz": self._readyz} | {self._metrics_path: self._metrics}
        application = web.Application()
        for path, handler in pages.items():
            application.router.add_get(path, handler)
        return application

    # An exception in one of these is answered with 500 and logged by aiohttp, which goes on serving.

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _readyz(self, _: web.Request) -> web.Response:
        state = self._readiness()
        if state.ready:
            return web.Response(text="ok")
        return web.Response(text=state.reason or "not ready", status=HTTPStatus.SERVICE_UNAVAILABLE)

    async def _metrics(self, request: web.Request) -> web.Response:
        if self._scrapes >= MAX_SCRAPES:
            return web.Response(
                text="too many scrapes at a time",
                status=HTTPStatus.SERVICE_UNAVAILABLE,
                headers={"Retry-After": f"{SCRAPE_SECONDS:.0f}"},
            )
        self._scrapes += 1
        try:
            # Of the older format, which every scraper reads and which no family of ours needs more than.
            response = web.Response(body=self._page(), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})
            await _send(response, request)
        finally:
            self._scrapes -= 1
        return response


async def serve_if_possible(stack: AsyncExitStack, server: HealthServer) -> None:
    """
    Enter a server; a port that cannot be had is logged (the probe that fails tells of it), and the service goes on.
    """
    try:
        await stack.enter_async_context(server)
    except CannotListen as error:
        structlog.get_logger().error("http_not_served", error=str(error))


async def _send(response: web.Response, request: web.Request) -> None:
    """
    Send a response until the kernel has all of it; a connection that takes too long is cut.
    """
    transport = request.transport
    if transport is None:
        return
    # No buffer of ours counts as sent.
    transport.set_write_buffer_limits(high=0)
    # Not a timeout here, after which the writer could be waited for no more.
    overdue = asyncio.get_running_loop().call_later(SCRAPE_SECONDS, transport.abort)
    try:
        # The receiver may leave; aiohttp sees that by itself.
        with suppress(ConnectionError):
            await response.prepare(request)
            await response.write_eof()
    finally:
        overdue.cancel()
        # aiohttp keeps the response until the next request of the connection.
        response.body = None


def _bind(address: Address) -> socket.socket:
    host, port = address.host, address.port
    try:
        if host != ALL_ADDRESSES:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            return socket.create_server((host, port), family=family)
        if socket.has_dualstack_ipv6():
            return socket.create_server((host, port), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server(("", port))
    except OSError as exc:
        # The error's own text repeats the address; its number says it all.
        raise CannotListen(address, os.strerror(exc.errno) if exc.errno else str(exc)) from exc
