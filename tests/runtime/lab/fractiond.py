"""
fractiond beside a private containerd: the real program, told where that containerd's sockets are.

    async with Fractiond(containerd, directory=tmp_path) as fractiond:
        await fractiond.ready()
        assert await fractiond.metric("containers_total", outcome="fenced") == 0
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from prometheus_client.parser import text_string_to_metric_families

from lab import process, waiting
from lab.containerd import Containerd
from lab.errors import LabError, Overdue
from lab.process import HttpResponse, Service

PREFIX = "gpu_fractioning_fractiond_"
READY_SECONDS = 10.0


def program() -> Path:
    """
    Give the console script beside the interpreter that runs this.
    """
    return Path(sys.executable).with_name("fractiond")


class Fractiond:
    """
    One fractiond process; entering it again after `kill` starts the next one on the same directories.

    Args:
        containerd: Whom it serves.
        directory: Where its records, its pipe directory and its log go.
        flags: Further arguments.
        nri_socket: Another NRI socket than containerd's own, for one who stands between them.
        cri_socket: Another CRI socket.
    """

    def __init__(
        self,
        containerd: Containerd,
        *,
        directory: Path,
        flags: Sequence[str] = (),
        nri_socket: Path | None = None,
        cri_socket: Path | None = None,
    ) -> None:
        self.map_dir = directory / "map"
        self.pipe_dir = directory / "mps"
        self.port = _free_port()
        (self.pipe_dir / "shared/default").mkdir(parents=True, exist_ok=True)
        self._argv: list[str | Path] = [
            program(),
            f"--socket-path={nri_socket or containerd.nri_socket}",
            f"--cri-socket={cri_socket or containerd.cri_socket}",
            f"--map-dir={self.map_dir}",
            f"--pipe-dir={self.pipe_dir}",
            f"--readiness-port={self.port}",
            "--retry-interval=100ms",
            *flags,
        ]
        self._directory = directory
        self._starts = 0
        self._service: Service | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._service is not None:
            await self._service.end()

    @property
    def service(self) -> Service:
        """
        The process that runs now.
        """
        if self._service is None:
            raise LabError("fractiond was not started: enter it as a context first")
        return self._service

    async def start(self) -> None:
        """
        Start the next process; the one before must have ended.
        """
        self._starts += 1
        service = Service(f"fractiond-{self._starts}", self._argv, directory=self._directory)
        self._service = await service.__aenter__()

    async def ready(self, *, timeout_seconds: float = READY_SECONDS) -> None:
        """
        Wait until it says that the runtime has synchronised it.
        """
        last = "nothing"
        try:
            async with asyncio.timeout(timeout_seconds):
                while True:
                    try:
                        answer = await self.get("/readyz")
                    except OSError as error:
                        last = str(error)
                    else:
                        if answer.status == 200:
                            return
                        last = answer.body
                    await asyncio.sleep(waiting.POLL_SECONDS)
        except TimeoutError as error:
            details = f"last answer: {last}\n{self.service.output()}"
            raise Overdue("fractiond to be ready", timeout_seconds, details) from error

    async def settled(self) -> None:
        """
        Wait until every record is written.
        """

        async def is_settled() -> bool:
            return await self.metric("record_queue_depth") == 0

        await waiting.until_awaited(is_settled, what="records to be written", timeout_seconds=READY_SECONDS)

    async def get(self, path: str) -> HttpResponse:
        """
        Fetch a page of its health server.
        """
        return await process.http_get(self.port, path)

    async def metric(self, name: str, **labels: str) -> float:
        """
        Read one sample of `/metrics`, by its name behind the common prefix.
        """
        page = (await self.get("/metrics")).body
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                if sample.name == PREFIX + name and sample.labels == labels:
                    return sample.value
        raise LabError(f"no sample {name} {labels} in:\n{page}")

    def records(self) -> Mapping[str, Any]:
        """
        Read the record files, by container id.
        """
        return {path.stem: json.loads(path.read_text()) for path in self.map_dir.glob("*.json")}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
