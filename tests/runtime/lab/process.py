"""
Any other program of a scene: started, watched by its log lines, measured, and always ended.

    async with Service("fractiond", [".venv/bin/fractiond", "--nri-socket-path", …], directory=tmp_path) as service:
        await service.wait_for_log("plugin_active", timeout_seconds=5)
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import attrs

from lab import procfs, waiting
from lab.errors import Died, LabError

Record = Mapping[str, Any]
"""
One JSON object of a program's log.
"""

_STOP_SECONDS = 10.0
_HTTP_SECONDS = 10.0


class Service:
    """
    A program whose standard output is one JSON object a line.

    Args:
        name: What it is called in errors and in the names of its output files.
        argv: The program and its arguments.
        directory: Where its output goes: `<name>.out` and `<name>.err`.
        environ: Variables beside those of this process.
    """

    def __init__(
        self, name: str, argv: Sequence[str | Path], *, directory: Path, environ: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self._argv = argv
        self._environ = dict(environ or {})
        self._out = directory / f"{name}.out"
        self._err = directory / f"{name}.err"
        self._process: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> Self:
        self._process = self._spawn()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end()

    @property
    def pid(self) -> int:
        """
        Its process id.
        """
        return self._started().pid

    @property
    def exit_code(self) -> int | None:
        """
        Its exit status, negative for a signal; None while it runs.
        """
        return self._started().poll()

    def records(self) -> list[Record]:
        """
        List the JSON objects it has logged so far; lines that are none are left out.
        """
        lines = self._out.read_bytes().split(b"\n")[:-1]
        return [json.loads(line) for line in lines if line.startswith(b"{")]

    def output(self) -> str:
        """
        Read all it has written so far, standard output first.
        """
        return self._out.read_text(errors="replace") + self._err.read_text(errors="replace")

    async def wait_for_log(
        self, event: str, *, timeout_seconds: float = 30.0, since: int = 0, **fields: object
    ) -> Record:
        """
        Wait for a log line.

        Args:
            event: The value of its key `event`.
            timeout_seconds: How long to wait.
            since: How many records to pass over: `len(service.records())` taken before the cause.
            fields: Further keys and values it must have.

        Returns:
            The first such record.

        Raises:
            Overdue: It did not come.
            Died: The program ended without it.
        """
        wanted = {"event": event, **fields}

        def find() -> Record | None:
            ended = self.exit_code
            for record in self.records()[since:]:
                if wanted.items() <= record.items():
                    return record
            if ended is not None:
                raise Died(self.name, ended, self.output())
            return None

        return await waiting.until(
            find, what=f"{self.name} to log {wanted}", timeout_seconds=timeout_seconds, details=self.output
        )

    def signal(self, signum: signal.Signals) -> None:
        """
        Send it a signal.
        """
        self._started().send_signal(signum)

    async def wait(self, *, timeout_seconds: float = 30.0) -> int:
        """
        Wait until it has ended.

        Returns:
            Its exit status, negative for a signal.
        """
        await waiting.until(
            lambda: self.exit_code is not None,
            what=f"{self.name} to end",
            timeout_seconds=timeout_seconds,
            details=self.output,
        )
        return self._started().returncode

    async def end(self) -> None:
        """
        End it if it still runs: politely first, by force after 5 s.
        """
        process = self._started()
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            await asyncio.to_thread(_reap, process)

    def usage(self) -> procfs.Usage:
        """
        Read its memory and processor time.
        """
        return procfs.read_usage(self.pid)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise LabError(f"{self.name} was not started: enter it as a context first")
        return self._process

    def _spawn(self) -> subprocess.Popen[bytes]:
        with self._out.open("wb") as out, self._err.open("wb") as err:
            environ = {**os.environ, **self._environ}
            return subprocess.Popen(self._argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environ)


@attrs.frozen
class HttpResponse:
    """
    An answer over HTTP.
    """

    status: int
    body: str


async def http_get(port: int, path: str) -> HttpResponse:
    """
    Fetch a page from a server on this machine; OSError while nobody listens.
    """
    async with asyncio.timeout(_HTTP_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        # Version 1.0, so that the body is simply what comes until the end.
        writer.write(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    return HttpResponse(status=int(head.split()[1]), body=body.decode(errors="replace"))


def _reap(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
