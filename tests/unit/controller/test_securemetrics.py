from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import attrs
import pytest
import structlog
from controller.scrapers import TOKEN_REVIEWS, Scrapers
from controller.securemetrics import Certificate, SecureMetrics
from fractioning_core.errors import FileUnavailable
from fractioning_core.kube.errors import ApiUnreachable
from fractioning_core.kube.objects import Objects
from fractioning_core.kube.transport import Request
from fractioning_core.service.addresses import Address
from fractioning_core.service.http import CannotListen

PAGE = b"# the page\n"


@attrs.define
class Reviewer:
    """
    An API server that knows the token `good` and lets everybody in whom it knows, unless it is away.
    """

    is_away: bool = False

    async def ask(self, request: Request) -> Mapping[str, Any]:
        """
        Review.
        """
        if self.is_away:
            raise ApiUnreachable("s", "gone")
        body: Any = request.body
        if request.path == TOKEN_REVIEWS.path:
            return {"status": {"authenticated": body["spec"] == {"token": "good"}, "user": {"username": "u"}}}
        return {"status": {"allowed": True}}


async def make_certificate(directory: Path, name: str) -> Certificate:
    """
    Let the openssl program make a certificate that is its own authority.
    """
    certificate, key = directory / "tls.crt", directory / "tls.key"
    process = await asyncio.create_subprocess_exec(
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
        *("-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"),
        *("-out", str(certificate), "-keyout", str(key)),
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert 0 == await process.wait()
    return Certificate(certificate, key)


@attrs.define
class Scene:
    """
    A certificate, and who reviews tokens.
    """

    certificate: Certificate
    port: int
    reviewer: Reviewer = attrs.field(factory=Reviewer)

    def server(self) -> SecureMetrics:
        """
        Make a server.
        """
        scrapers = Scrapers(Objects(self.reviewer, field_manager="t"), path="/metrics", clock=lambda: 0.0)
        address = Address("127.0.0.1", self.port)
        return SecureMetrics(
            address, certificate=self.certificate, scrapers=scrapers, page=lambda: PAGE, reload_seconds=0.01
        )

    async def get(self, token: str, *, trusting: str = "") -> tuple[int, bytes]:
        """
        Ask for the page, trusting a certificate, or the one that is on disk.
        """
        context = ssl.create_default_context(cadata=trusting or self.certificate.certificate.read_text())
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"https://127.0.0.1:{self.port}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url, ssl=context, headers=headers) as answer:
            return answer.status, await answer.read()


@pytest.fixture
async def scene(tmp_path: Path, unused_tcp_port: int) -> Scene:
    return Scene(await make_certificate(tmp_path, "first"), unused_tcp_port)


class TestServing:
    """
    Who gets the page.
    """

    @pytest.mark.parametrize(
        ("token", "expected"),
        [
            pytest.param("good", (200, PAGE), id="one that may"),
            pytest.param("bad", (401, b""), id="one that nobody knows"),
            pytest.param("", (401, b""), id="nobody"),
        ],
    )
    async def test_tokens(self, scene: Scene, token: str, expected: tuple[int, bytes]) -> None:
        """
        Only whoever the API server vouches for.
        """
        async with scene.server():
            status, body = await scene.get(token)

        assert expected == (status, body if status == 200 else b"")

    async def test_no_api_server(self, scene: Scene) -> None:
        """
        While the API server is away nobody gets it, and is told to come again.
        """
        scene.reviewer.is_away = True
        async with scene.server():
            assert (503, b"cannot ask the API server who you are") == await scene.get("good")

    async def test_plain(self, scene: Scene) -> None:
        """
        Without TLS there is no answer.
        """
        async with scene.server(), aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientError):
                await session.get(f"http://127.0.0.1:{scene.port}/metrics")


class TestStarting:
    """
    What keeps it from serving.
    """

    async def test_no_certificate(self, scene: Scene) -> None:
        """
        A certificate that is not there stops the start, with its path.
        """
        scene.certificate.certificate.unlink()
        with pytest.raises(FileUnavailable) as raised:
            await scene.server().__aenter__()

        assert str(scene.certificate.certificate) in raised.value.path

    async def test_no_key_of_it(self, scene: Scene) -> None:
        """
        So does a file that is no key.
        """
        scene.certificate.key.write_text("nothing")
        with pytest.raises(FileUnavailable):
            await scene.server().__aenter__()

    async def test_taken(self, scene: Scene) -> None:
        """
        So does a port that another has.
        """
        async with scene.server():
            with pytest.raises(CannotListen):
                await scene.server().__aenter__()


async def until(event: str, lines: list[MutableMapping[str, Any]]) -> None:
    """
    Wait for a line of the log.
    """
    async with asyncio.timeout(10):
        while True:
            if event in {line["event"] for line in lines}:
                return
            await asyncio.sleep(0.01)


class TestReloading:
    """
    A certificate that changes on disk.
    """

    @asynccontextmanager
    async def followed(self, scene: Scene) -> AsyncIterator[None]:
        """
        Serve and follow the files.
        """
        async with scene.server() as server, asyncio.TaskGroup() as group:
            task = group.create_task(server.run())
            yield
            task.cancel()

    async def test_renewed(self, scene: Scene) -> None:
        """
        A new certificate is served to new connections without a restart.
        """
        with structlog.testing.capture_logs() as lines:
            async with self.followed(scene):
                await make_certificate(scene.certificate.certificate.parent, "second")
                await until("certificate_reloaded", lines)

                assert (200, PAGE) == await scene.get("good")

    async def test_broken(self, scene: Scene) -> None:
        """
        One that cannot be read is told of, and the old one stays in use.
        """
        before = scene.certificate.certificate.read_text()
        with structlog.testing.capture_logs() as lines:
            async with self.followed(scene):
                scene.certificate.certificate.write_text("nothing")
                await until("certificate_not_reloaded", lines)

                assert (200, PAGE) == await scene.get("good", trusting=before)

    async def test_unchanged(self, scene: Scene) -> None:
        """
        One that has not changed is not read again.
        """
        async with scene.server() as server:
            assert not server._load()
