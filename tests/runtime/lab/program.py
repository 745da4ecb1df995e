"""
One of our own programs: its console script, run again and again with the same arguments, and asked on its health port.

What `fractiond`, `mpsd` and `metricsd` of this package have in common; each adds what only it has.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from lab import process, waiting
from lab.errors import Died, LabError
from lab.process import HttpResponse, Service

READY_SECONDS = 30.0


def script(name: str) -> Path:
    """
    Give the console script beside the interpreter that runs this.
    """
    return Path(sys.executable).with_name(name)


def free_port() -> int:
    """
    Give a port of this machine on which nobody listens now.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Program:
    """
    One program, of which one process runs at a time.

    Args:
        name: Of its console script; with a number it names the files of its output.
        flags: Its arguments, without the one for the port.
        port_flag: That one up to the port, such as `--health-port=`.
        directory: Where its output goes.
        environ: Variables beside those of this process.
        before: Words before the script, of a program that becomes it.
    """

    def __init__(
        self,
        name: str,
        flags: Sequence[str],
        *,
        port_flag: str,
        directory: Path,
        environ: Mapping[str, str] | None = None,
        before: Sequence[str | Path] = (),
    ) -> None:
        self.port = free_port()
        self._name = name
        self._argv: list[str | Path] = [*before, script(name), f"{port_flag}{self.port}", *flags]
        self._directory = directory
        self._environ = environ
        self._starts = 0
        self._service: Service | None = None

    @property
    def service(self) -> Service:
        """
        The process that runs now.
        """
        if self._service is None:
            raise LabError(f"{self._name} was not started: enter it as a context first")
        return self._service

    async def start(self) -> None:
        """
        Start the next process; the one before must have ended.
        """
        self._starts += 1
        service = Service(f"{self._name}-{self._starts}", self._argv, directory=self._directory, environ=self._environ)
        self._service = await service.__aenter__()

    async def end(self) -> None:
        """
        End it, if it ever started.
        """
        if self._service is not None:
            await self._service.end()

    async def ready(self, *, timeout_seconds: float = READY_SECONDS) -> None:
        """
        Wait until it calls itself ready.
        """
        await self._readyz(lambda answer: answer.status == 200, "to be ready", timeout_seconds)

    async def not_ready(self, reason: str, *, timeout_seconds: float = READY_SECONDS) -> str:
        """
        Wait until it calls itself not ready with a text in the reason; gives the whole.
        """
        answer = await self._readyz(
            lambda answer: answer.status == 503 and reason in answer.body,
            f"not to be ready because of {reason!r}",
            timeout_seconds,
        )
        return answer.body

    async def get(self, path: str) -> HttpResponse:
        """
        Fetch a page of its health server.
        """
        return await process.http_get(self.port, path)

    async def metric(self, name: str, **labels: str) -> float:
        """
        Read one sample of `/metrics`, by its full name.
        """
        page = (await self.get("/metrics")).body
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                if sample.name == name and sample.labels == labels:
                    return sample.value
        raise LabError(f"no sample {name} {labels} in:\n{page}")

    async def _readyz(self, fits: Callable[[HttpResponse], bool], what: str, timeout_seconds: float) -> HttpResponse:
        last = HttpResponse(0, "nothing")

        async def ask() -> HttpResponse | None:
            nonlocal last
            try:
                last = await self.get("/readyz")
            except OSError as error:
                last = HttpResponse(0, str(error))
                ended = self.service.exit_code
                if ended is not None:
                    raise Died(self.service.name, ended, self.service.output()) from error
            return last if fits(last) else None

        return await waiting.until_awaited(
            ask,
            what=f"{self._name} {what}",
            timeout_seconds=timeout_seconds,
            details=lambda: f"last answer: {last.status} {last.body}\n{self.service.output()}",
        )
