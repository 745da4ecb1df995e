"""
A private Prometheus that scrapes one page every second, and promtool's opinion of a page.

    async with Prometheus(target=metricsd.port, directory=tmp_path) as prometheus:
        assert (Answer({}, 1.0),) == await prometheus.answers("sum(up) == 1")
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self
from urllib.parse import urlencode

import attrs

from lab import process, program, toolchain, waiting
from lab.errors import Died, LabError, MissingToolchain
from lab.process import Service

INTERVAL = "1s"
READY_WITHIN_SECONDS = 30.0
# It looks for targets only every 5 s.
ANSWERS_WITHIN_SECONDS = 20.0


@attrs.frozen
class Answer:
    """
    One element of an instant vector.
    """

    labels: Mapping[str, str]
    value: float


class Prometheus:
    """
    One server with its own storage, which goes with its directory.

    Args:
        target: The port of the page on this machine.
        directory: Where its configuration, its storage and its output go.
        path: Of the page.
    """

    def __init__(self, *, target: int, directory: Path, path: str = "/metrics") -> None:
        self._port = program.free_port()
        self._directory = directory / "prometheus"
        self._config = _config(target, path)
        argv: list[str | Path] = [
            _program("prometheus"),
            f"--config.file={self._directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
        ]
        self._service = Service("prometheus", argv, directory=self._directory)

    async def __aenter__(self) -> Self:
        self._directory.mkdir()
        (self._directory / "prometheus.yml").write_text(self._config)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._service)
            await waiting.until_awaited(
                self._is_ready,
                what="Prometheus to be ready",
                timeout_seconds=READY_WITHIN_SECONDS,
                details=self._service.output,
            )
            stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._service.end()

    async def query(self, promql: str) -> tuple[Answer, ...]:
        """
        Evaluate an expression now.

        Raises:
            LabError: It is none, or not one that gives a vector.
        """
        answer = await process.http_get(self._port, f"/api/v1/query?{urlencode({'query': promql})}")
        found = json.loads(answer.body)
        if found["status"] != "success":
            raise LabError(f"{promql}: {found['error']}")
        kind, elements = found["data"]["resultType"], found["data"]["result"]
        if kind != "vector":
            raise LabError(f"{promql} gives a {kind}; accepted: a vector")
        return tuple(Answer(each["metric"], float(each["value"][1])) for each in elements)

    async def answers(self, promql: str, *, timeout_seconds: float = ANSWERS_WITHIN_SECONDS) -> tuple[Answer, ...]:
        """
        Evaluate an expression again and again until it gives something.

        Raises:
            Overdue: It did not.
        """

        async def ask() -> tuple[Answer, ...] | None:
            return await self.query(promql) or None

        return await waiting.until_awaited(
            ask, what=f"an answer to {promql}", timeout_seconds=timeout_seconds, details=self._service.output
        )

    async def _is_ready(self) -> bool:
        ended = self._service.exit_code
        if ended is not None:
            raise Died(self._service.name, ended, self._service.output())
        try:
            return (await process.http_get(self._port, "/-/ready")).status == 200
        except OSError:
            # It listens only after a while.
            return False


async def complaints(page: str) -> str:
    """
    Have promtool check a page.

    Returns:
        What it has to say; empty when it accepts the page and has no advice either.
    """
    done = await promtool("check", "metrics", stdin=page)
    said = done.stdout + done.stderr
    return said or ("" if done.returncode == 0 else f"promtool ended with status {done.returncode}")


async def promtool(*arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """
    Run promtool; gives how it ended and what it said.
    """
    argv = [_program("promtool"), *arguments]
    return await asyncio.to_thread(subprocess.run, argv, input=stdin, capture_output=True, text=True, check=False)


def _program(name: str) -> Path:
    path = toolchain.PROGRAMS / "prometheus" / name
    if not os.access(path, os.X_OK):
        raise MissingToolchain(path, "prometheus")
    return path


def _config(target: int, path: str) -> str:
    # A JSON text is YAML too.
    return json.dumps(
        {
            "global": {"scrape_interval": INTERVAL, "scrape_timeout": INTERVAL},
            "scrape_configs": [
                {
                    "job_name": "metricsd",
                    "metrics_path": path,
                    "static_configs": [{"targets": [f"127.0.0.1:{target}"]}],
                }
            ],
        }
    )
