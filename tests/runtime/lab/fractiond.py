"""
fractiond beside a private containerd: the real program, told where that containerd's sockets are.

    async with Fractiond(containerd, directory=tmp_path) as fractiond:
        await fractiond.ready()
        assert await fractiond.metric("containers_total", outcome="fenced") == 0
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from lab import waiting
from lab.containerd import Containerd
from lab.process import HttpResponse, Service
from lab.program import READY_SECONDS, Program

PREFIX = "gpu_fractioning_fractiond_"


class Fractiond:
    """
    One fractiond process; entering it again after `kill` starts the next one on the same directories.

    Args:
        containerd: Whom it serves.
        directory: Where its records, its pipe directory and its log go.
        flags: Further arguments.
        pipe_dir: The pipe directory that somebody else keeps; one of its own, without sockets, where None.
        nri_socket: Another NRI socket than containerd's own, for one who stands between them.
        cri_socket: Another CRI socket.
    """

    def __init__(
        self,
        containerd: Containerd,
        *,
        directory: Path,
        flags: Sequence[str] = (),
        pipe_dir: Path | None = None,
        nri_socket: Path | None = None,
        cri_socket: Path | None = None,
    ) -> None:
        self.map_dir = directory / "map"
        self.pipe_dir = pipe_dir or directory / "mps"
        if pipe_dir is None:
            (self.pipe_dir / "shared/default").mkdir(parents=True, exist_ok=True)
        arguments = [
            f"--socket-path={nri_socket or containerd.nri_socket}",
            f"--cri-socket={cri_socket or containerd.cri_socket}",
            f"--map-dir={self.map_dir}",
            f"--pipe-dir={self.pipe_dir}",
            "--retry-interval=100ms",
            *flags,
        ]
        self._program = Program("fractiond", arguments, port_flag="--readiness-port=", directory=directory)
        self.port = self._program.port

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._program.end()

    @property
    def service(self) -> Service:
        """
        The process that runs now.
        """
        return self._program.service

    async def start(self) -> None:
        """
        Start the next process; the one before must have ended.
        """
        await self._program.start()

    async def ready(self, *, timeout_seconds: float = READY_SECONDS) -> None:
        """
        Wait until it says that the runtime has synchronised it.
        """
        await self._program.ready(timeout_seconds=timeout_seconds)

    async def not_ready(self, reason: str, *, timeout_seconds: float = READY_SECONDS) -> str:
        """
        Wait until it calls itself not ready with a text in the reason; gives the whole.
        """
        return await self._program.not_ready(reason, timeout_seconds=timeout_seconds)

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
        return await self._program.get(path)

    async def metric(self, name: str, **labels: str) -> float:
        """
        Read one sample of `/metrics`, by its name behind the common prefix.
        """
        return await self._program.metric(PREFIX + name, **labels)

    async def answered_within(self, seconds: float) -> tuple[int, int]:
        """
        Count the creations that it has answered: those that took no longer than a bucket of its histogram, and all.
        """
        within, every = [
            await self.metric("handler_seconds_bucket", method="create", le=le) for le in (f"{seconds:g}", "+Inf")
        ]
        return int(within), int(every)

    def records(self) -> Mapping[str, Any]:
        """
        Read the record files, by container id.
        """
        return {path.stem: json.loads(path.read_text()) for path in self.map_dir.glob("*.json")}
