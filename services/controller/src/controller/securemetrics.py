"""
The metrics behind TLS, for callers that the API server vouches for.

The certificate is read again when its files change, as those of a mounted Secret do before it runs out; one that
cannot be read then is told of, and the old one stays in use.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Self

import attrs
import structlog
from aiohttp import web
from fractioning_core.errors import FileUnavailable, InvalidInput, ProtocolViolation, Unavailable
from fractioning_core.service import http
from fractioning_core.service.addresses import ALL_ADDRESSES, Address
from fractioning_core.service.http import CannotListen
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from controller.scrapers import Scrapers, Verdict

RELOAD_SECONDS = 60.0


@attrs.frozen
class Certificate:
    """
    A certificate with its key, as files.
    """

    certificate: Path
    key: Path

    def version(self) -> tuple[int, int]:
        """
        Tell both files from those that may be there later, blocking.

        Raises:
            FileUnavailable: One of them is not there.
        """
        with _unavailable(self):
            return self.certificate.stat().st_mtime_ns, self.key.stat().st_mtime_ns

    def load(self, context: ssl.SSLContext) -> None:
        """
        Use it from now on, blocking; raises FileUnavailable.
        """
        with _unavailable(self):
            context.load_cert_chain(self.certificate, self.key)


class SecureMetrics:
    """
    Serves the page while entered.

    Args:
        address: Where to listen.
        certificate: Who we are.
        scrapers: Who may read it.
        page: The metrics as Prometheus text.
        reload_seconds: How often the certificate's files are looked at.
    """

    def __init__(
        self,
        address: Address,
        *,
        certificate: Certificate,
        scrapers: Scrapers,
        page: Callable[[], bytes],
        reload_seconds: float,
    ) -> None:
        self._address = address
        self._certificate = certificate
        self._scrapers = scrapers
        self._page = page
        self._reload_seconds = reload_seconds
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._version = (0, 0)
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        """
        Start to listen.

        Raises:
            FileUnavailable: The certificate cannot be used.
            CannotListen: The address is taken or not allowed.
        """
        await asyncio.to_thread(self._load)
        application = web.Application()
        application.router.add_get(http.METRICS_PATH, self._answer)
        self._runner = web.AppRunner(
            application,
            access_log=None,
            shutdown_timeout=http.SHUTDOWN_SECONDS,
            keepalive_timeout=http.IDLE_SECONDS,
        )
        await self._runner.setup()
        host = None if self._address.host == ALL_ADDRESSES else self._address.host
        try:
            await web.TCPSite(self._runner, host, self._address.port, ssl_context=self._context).start()
        except OSError as error:
            raise CannotListen(self._address, error.strerror or str(error)) from error
        return self

    async def __aexit__(self, *_: object) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def run(self) -> None:
        """
        Follow the certificate's files, for ever.
        """
        log = structlog.get_logger()
        while True:
            await asyncio.sleep(self._reload_seconds)
            try:
                if await asyncio.to_thread(self._load):
                    log.info("certificate_reloaded", path=str(self._certificate.certificate))
            except FileUnavailable as error:
                log.warning("certificate_not_reloaded", error=str(error))

    def _load(self) -> bool:
        version = self._certificate.version()
        if version == self._version:
            return False
        self._certificate.load(self._context)
        self._version = version
        return True

    async def _answer(self, request: web.Request) -> web.Response:
        try:
            verdict = await self._scrapers.judge(request.headers.get("Authorization", ""))
        except (Unavailable, InvalidInput, ProtocolViolation) as error:
            structlog.get_logger().warning("scraper_not_judged", error=str(error))
            return web.Response(text="cannot ask the API server who you are", status=HTTPStatus.SERVICE_UNAVAILABLE)
        if verdict is not Verdict.ALLOWED:
            return web.Response(status=verdict.value)
        return web.Response(body=self._page(), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})


@contextmanager
def _unavailable(certificate: Certificate) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # Of a TLS error, which is one too, only the text says what is wrong with the files.
        cause = str(error) if isinstance(error, ssl.SSLError) else error.strerror or str(error)
        raise FileUnavailable("use", f"{certificate.certificate} with {certificate.key}", cause) from error
