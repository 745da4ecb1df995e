"""
The runtime's side of the bench: the Go program `timer`, which plays containerd's NRI layer and times a plugin.

    async with PlayedRuntime(socket, version="2.3.7") as runtime:
        await runtime.listen(containers=500)
        …start a plugin…
        print(await runtime.synchronized())
        print(await runtime.round(Kind.ANNOTATED, 200))
"""

from __future__ import annotations

import asyncio
import enum
import json
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any, Self

import attrs
from lab import toolchain
from lab.errors import Died, LabError

# The longest command is a round of some hundred calls.
ANSWER_SECONDS = 60.0


class Kind(enum.Enum):
    """
    What a container asks for: a share of a GPU, or nothing of ours.
    """

    ANNOTATED = "annotated"
    UNTOUCHED = "untouched"


@attrs.frozen
class Percentiles:
    """
    Times of the calls of one round, in one unit.
    """

    p50: float
    p90: float
    p99: float


@attrs.frozen
class Burst:
    """
    Calls that began together: how long until the last one was answered.
    """

    total_ms: float


class PlayedRuntime:
    """
    One timer and its socket.

    Args:
        socket: Where it listens for plugins.
        version: The containerd it passes itself off as; from 2.2 on it asks plugins to validate.
    """

    def __init__(self, socket: Path, *, version: str) -> None:
        self.socket = socket
        self._version = version
        self._process: Process | None = None

    async def __aenter__(self) -> Self:
        argv = (toolchain.bench_program("timer"), "-socket", self.socket, "-runtime-version", self._version)
        self._process = await asyncio.create_subprocess_exec(*argv, stdin=PIPE, stdout=PIPE)
        return self

    async def __aexit__(self, *_: object) -> None:
        process = self._running()
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()

    async def open(self) -> None:
        """
        Open the socket without waiting for a plugin.
        """
        await self._order("open", answer="listening")

    async def listen(self, *, containers: int) -> None:
        """
        Open the socket for a plugin to come, to be told of that many running containers.
        """
        await self._order(f"listen {containers}", answer="listening")

    async def synchronized(self) -> float:
        """
        Wait for the plugin.

        Returns:
            How long the call of Synchronize took, in milliseconds.
        """
        answer = await self._answer("synchronized")
        return float(answer["synchronize_us"]) / 1000

    async def round(self, kind: Kind, count: int) -> Percentiles:
        """
        Time calls of CreateContainer one after the other, in microseconds.
        """
        report = await self._calls("round", kind, count)
        return Percentiles(report["p50_us"], report["p90_us"], report["p99_us"])

    async def burst(self, kind: Kind, count: int) -> Burst:
        """
        Time calls that begin together.
        """
        report = await self._calls("burst", kind, count)
        return Burst(report["total_us"] / 1000)

    async def _calls(self, event: str, kind: Kind, count: int) -> dict[str, Any]:
        report = await self._order(f"{event} {kind.value} {count}", answer=event)
        if report["failed"]:
            raise LabError(f"{report['failed']} of {count} calls failed in {event} {kind.value}: {report['error']}")
        return report

    async def _order(self, command: str, *, answer: str) -> dict[str, Any]:
        stdin = self._running().stdin
        if stdin is None:
            raise LabError("the timer takes no commands")
        stdin.write(f"{command}\n".encode())
        return await self._answer(answer)

    async def _answer(self, event: str) -> dict[str, Any]:
        process = self._running()
        line = b""
        if process.stdout is not None:
            async with asyncio.timeout(ANSWER_SECONDS):
                line = await process.stdout.readline()
        if not line:
            raise Died("timer", await process.wait())
        answer: dict[str, Any] = json.loads(line)
        if answer["event"] != event:
            raise LabError(f"the timer answered {answer['event']!r} where {event!r} was due")
        return answer

    def _running(self) -> Process:
        if self._process is None:
            raise LabError("the timer was not started: enter it as a context first")
        return self._process
