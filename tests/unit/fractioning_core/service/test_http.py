from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from errno import EADDRINUSE, EADDRNOTAVAIL
from functools import partial
from os import strerror

import attrs
import pytest
import uvloop
from aiohttp import ClientConnectorError, ClientSession
from fractioning_core.errors import Unavailable
from fractioning_core.service import http
from fractioning_core.service.addresses import ALL_ADDRESSES, Address
from fractioning_core.service.http import CannotListen, HealthServer, Readiness
from prometheus_client import CollectorRegistry, Gauge, generate_latest

LOOPBACK = "127.0.0.1"
# A full node's page: less than the kernel would buffer for a connection by itself.
BIG = b"x" * 2**20


@attrs.define
class State:
    """A service whose readiness is set by the test."""

    readiness: Readiness

    def __call__(self) -> Readiness:
        """State it."""
        return self.readiness


def ready() -> Readiness:
    return Readiness(ready=True)


def no_metrics() -> bytes:
    return b""


def a_server(
    readiness: Callable[[], Readiness] = ready, page: Callable[[], bytes] = no_metrics, metrics_path: str = "/metrics"
) -> HealthServer:
    return HealthServer.on_ephemeral_port(readiness=readiness, page=page, host=LOOPBACK, metrics_path=metrics_path)


async def answer(server: HealthServer, path: str, method: str = "GET") -> tuple[int, str]:
    async with (
        ClientSession() as session,
        session.request(method, f"http://{LOOPBACK}:{server.bound_port}{path}") as response,
    ):
        return response.status, await response.text()


async def stall(server: HealthServer, *, requests: int = 1) -> socket.socket:
    """Ask for the metrics, and read the beginning of the answer only."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(sock, (LOOPBACK, server.bound_port))
    await loop.sock_sendall(sock, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * requests)
    await loop.sock_recv(sock, 1)
    return sock


def hang_up(socks: list[socket.socket]) -> None:
    """Close connections without a word."""
    for sock in socks:
        sock.close()


class TestReadiness:
    async def test_life(self) -> None:
        """Readiness follows what the service states, with its reason while it is not ready."""
        state = State(Readiness(ready=False, reason="not registered"))

        async with a_server(state) as server:
            before = await answer(server, "/readyz")
            state.readiness = Readiness(ready=True)
            during = await answer(server, "/readyz")
            state.readiness = Readiness(ready=False)
            after = await answer(server, "/readyz")

        assert [(503, "not registered"), (200, "ok"), (503, "not ready")] == [before, during, after]

    async def test_bad_callback(self) -> None:
        """A callback that raises is answered with 500, and the server goes on."""

        def broken() -> Readiness:
            raise LookupError("a secret")

        async with a_server(broken) as server:
            status, text = await answer(server, "/readyz")
            health = await answer(server, "/healthz")

        assert (500, (200, "ok")) == (status, health)
        assert "secret" not in text


class TestPages:
    @pytest.mark.parametrize(
        ("method", "path", "expected"),
        [
            pytest.param("GET", "/healthz", (200, "ok"), id="alive"),
            pytest.param("HEAD", "/healthz", (200, ""), id="alive without a body"),
            pytest.param("HEAD", "/readyz", (200, ""), id="ready without a body"),
            pytest.param("HEAD", "/metrics", (200, ""), id="metrics without a body"),
            pytest.param("GET", "/healthz?verbose", (200, "ok"), id="a query is ignored"),
            pytest.param("GET", "/", (404, "404: Not Found"), id="no such page"),
            pytest.param("GET", "/healthz/", (404, "404: Not Found"), id="no such page below"),
            pytest.param("POST", "/healthz", (405, "405: Method Not Allowed"), id="nothing to post"),
        ],
    )
    async def test_answer(self, method: str, path: str, expected: tuple[int, str]) -> None:
        """Three pages answer GET and HEAD, and nothing else is there."""
        async with a_server() as server:
            found = await answer(server, path, method)

        assert expected == found

    async def test_not_ready_is_alive(self) -> None:
        """A service that is not ready is alive all the same."""
        async with a_server(State(Readiness(ready=False))) as server:
            found = await answer(server, "/healthz")

        assert (200, "ok") == found

    async def test_metrics(self) -> None:
        """The metrics are the page as it is at the moment, and say that they are Prometheus text."""
        registry = CollectorRegistry()
        demo = Gauge("demo", "A demo.", registry=registry)

        async with a_server(page=partial(generate_latest, registry)) as server, ClientSession() as session:
            demo.set(3)
            response = await session.get(f"http://{LOOPBACK}:{server.bound_port}/metrics")
            text = await response.text()

        assert "text/plain; version=0.0.4; charset=utf-8" == response.headers["Content-Type"]
        assert "# HELP demo A demo.\n# TYPE demo gauge\ndemo 3.0\n" == text

    @pytest.mark.parametrize(
        ("metrics_path", "expected"),
        [
            pytest.param("/pods", {"/pods": "demo 1\n", "/healthz": "ok", "/readyz": "ok"}, id="elsewhere"),
            pytest.param("/healthz", {"/healthz": "demo 1\n", "/readyz": "ok"}, id="where health would be"),
            pytest.param("/readyz", {"/healthz": "ok", "/readyz": "demo 1\n"}, id="where readiness would be"),
        ],
    )
    async def test_metrics_path(self, metrics_path: str, expected: dict[str, str]) -> None:
        """The metrics are where the service wants them, and nowhere else."""
        async with a_server(page=lambda: b"demo 1\n", metrics_path=metrics_path) as server:
            found = {path: await answer(server, path) for path in ("/pods", "/healthz", "/readyz", "/metrics")}

        assert expected == {path: text for path, (status, text) in found.items() if status == 200}

    async def test_broken_page(self) -> None:
        """A page that cannot be made is answered with 500, and the server goes on."""

        def broken() -> bytes:
            raise LookupError("a secret")

        async with a_server(page=broken) as server:
            status, text = await answer(server, "/metrics")
            health = await answer(server, "/healthz")

        assert (500, (200, "ok")) == (status, health)
        assert "secret" not in text

    async def test_long_head(self) -> None:
        """A request head past its bound is refused."""
        async with a_server() as server, ClientSession() as session:
            response = await session.get(
                f"http://{LOOPBACK}:{server.bound_port}/healthz",
                headers={"X-Long": "x" * (http.MAX_HEAD_LINE_BYTES + 1)},
            )

        assert 400 == response.status

    @pytest.mark.looptime
    async def test_request_that_never_ends(self) -> None:
        """A connection without a complete request head is closed after its time."""
        loop = asyncio.get_running_loop()
        async with a_server() as server:
            reader, writer = await asyncio.open_connection(LOOPBACK, server.bound_port)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost:")
            started = loop.time()
            rest = await reader.read()
            elapsed = loop.time() - started
            writer.close()

        assert b"" == rest
        assert http.IDLE_SECONDS == pytest.approx(elapsed, abs=1.0)


class TestSlowScrapers:
    """Scrapers that ask and do not read, in virtual time."""

    pytestmark = pytest.mark.looptime

    async def test_bound(self) -> None:
        """Only so many pages are held at a time; one more is refused at once, and health is not."""
        pages = iter([BIG] * http.MAX_SCRAPES)
        async with a_server(page=pages.__next__) as server:
            stalled = [await stall(server) for _ in range(http.MAX_SCRAPES)]
            async with (
                ClientSession() as session,
                session.get(f"http://{LOOPBACK}:{server.bound_port}/metrics") as refused,
            ):
                health = [await answer(server, path) for path in ("/healthz", "/readyz")]
            hang_up(stalled)

        assert (503, "10") == (refused.status, refused.headers["Retry-After"])
        assert [(200, "ok")] * 2 == health

    async def test_end(self) -> None:
        """A scraper that has not read its page in time is cut off, and others have their turn."""
        pages = iter([*[BIG] * http.MAX_SCRAPES, b"demo 1\n"])
        async with a_server(page=pages.__next__) as server:
            stalled = [await stall(server) for _ in range(http.MAX_SCRAPES)]
            await asyncio.sleep(http.SCRAPE_SECONDS)
            found = await answer(server, "/metrics")
            with pytest.raises(ConnectionResetError):
                await asyncio.get_running_loop().sock_sendall(stalled[0], b"x" * 2**20)
            hang_up(stalled)

        assert (200, "demo 1\n") == found

    async def test_who_leaves(self) -> None:
        """A scraper that hangs up in the middle of its page makes room at once."""
        pages = iter([*[BIG] * http.MAX_SCRAPES, b"demo 1\n"])
        async with a_server(page=pages.__next__) as server:
            hang_up([await stall(server) for _ in range(http.MAX_SCRAPES)])
            await asyncio.sleep(0.1)
            found = await answer(server, "/metrics")

        assert (200, "demo 1\n") == found

    async def test_whole_page(self) -> None:
        """Who reads gets all of a big page, and may ask again over the same connection."""
        async with a_server(page=lambda: BIG) as server, ClientSession() as session:
            found = []
            for _ in range(2):
                async with session.get(f"http://{LOOPBACK}:{server.bound_port}/metrics") as response:
                    found.append(await response.read() == BIG)

        assert [True, True] == found

    async def test_page_of_a_connection_that_stays(self) -> None:
        """A page is let go when it is sent, not when the connection ends."""
        page = BIG[:-1] + b"y"
        before = sys.getrefcount(page)
        async with a_server(page=lambda: page) as server, ClientSession() as session:
            async with session.get(f"http://{LOOPBACK}:{server.bound_port}/metrics") as response:
                whole = await response.read() == page
            await asyncio.sleep(0.1)

            assert (True, before) == (whole, sys.getrefcount(page))

    @pytest.mark.parametrize("requests", [1, 500])
    async def test_end_of_the_service(self, requests: int) -> None:
        """However much is asked for and not read, the end takes no longer than its time."""
        loop = asyncio.get_running_loop()
        server = a_server(page=lambda: BIG)
        async with server:
            stalled = await stall(server, requests=requests)
            started = loop.time()
        elapsed = loop.time() - started
        hang_up([stalled])

        assert http.SHUTDOWN_SECONDS == pytest.approx(elapsed, abs=0.5)


class TestListening:
    async def test_disabled(self) -> None:
        """Port 0 serves nothing, and entering it is fine."""
        server = HealthServer(0, readiness=ready, page=no_metrics)

        async with server:
            port = server.bound_port

        assert port is None

    async def test_taken_port(self) -> None:
        """An address that is taken is an error that names it."""
        with socket.create_server((LOOPBACK, 0)) as taken:
            port = taken.getsockname()[1]
            server = HealthServer(port, readiness=ready, page=no_metrics, host=LOOPBACK)
            with pytest.raises(Unavailable) as caught:
                await server.__aenter__()

        assert CannotListen(Address(LOOPBACK, port), strerror(EADDRINUSE)) == caught.value
        assert f"cannot listen on 127.0.0.1:{port}: Address already in use" == str(caught.value)

    async def test_taken_port_of_all_addresses(self) -> None:
        """Where the host says nothing, only the port is named."""
        with socket.create_server(("", 0)) as taken:
            port = taken.getsockname()[1]
            server = HealthServer(port, readiness=ready, page=no_metrics)
            with pytest.raises(CannotListen) as caught:
                await server.__aenter__()

        assert f"cannot listen on port {port}: Address already in use" == str(caught.value)

    async def test_foreign_address(self) -> None:
        """An address that is not this machine's is an error that names it."""
        server = HealthServer(2112, readiness=ready, page=no_metrics, host="192.0.2.1")
        with pytest.raises(CannotListen) as caught:
            await server.__aenter__()

        assert CannotListen(Address("192.0.2.1", 2112), strerror(EADDRNOTAVAIL)) == caught.value

    @pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
    async def test_one_address_of_six(self) -> None:
        """An IPv6 address is listened on alone."""
        server = HealthServer.on_ephemeral_port(readiness=ready, page=no_metrics, host="::1")
        async with server, ClientSession() as session:
            response = await session.get(f"http://[::1]:{server.bound_port}/healthz")
            with pytest.raises(ClientConnectorError):
                await answer(server, "/healthz")

        assert 200 == response.status

    async def test_all_addresses(self) -> None:
        """Without a host, it answers on every address of the machine."""
        server = HealthServer.on_ephemeral_port(readiness=ready, page=no_metrics, host=ALL_ADDRESSES)

        async with server:
            found = await answer(server, "/healthz")

        assert (200, "ok") == found

    def test_uvloop(self) -> None:
        """It serves on the event loop of our services as well."""

        async def main() -> tuple[int, str]:
            async with a_server() as server:
                return await answer(server, "/readyz")

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            found = runner.run(main())

        assert (200, "ok") == found

    async def test_given_port(self) -> None:
        """It listens where it is told, and the port is free again afterwards."""
        with socket.create_server((LOOPBACK, 0)) as free:
            port = free.getsockname()[1]
        ports = []

        for _ in range(2):
            async with HealthServer(port, readiness=ready, page=no_metrics, host=LOOPBACK) as server:
                ports.append(server.bound_port)

        assert ([port, port], None) == (ports, server.bound_port)

    async def test_idle_connection_at_the_end(self) -> None:
        """An idle connection does not hold up the end."""
        async with a_server() as server, asyncio.timeout(30):
            reader, writer = await asyncio.open_connection(LOOPBACK, server.bound_port)
            await server.aclose()
            rest = await reader.read()
            writer.close()

        assert b"" == rest
