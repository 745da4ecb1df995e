"""
mpsd over the simulated r615 control daemon, which is Debian's real one behind r615's command line.

    async with Mpsd(directory=tmp_path) as mpsd:
        await mpsd.ready()
        os.kill(mpsd.daemon(), signal.SIGKILL)
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from prometheus_client.parser import text_string_to_metric_families
from simgpu import programs
from simgpu.state import Machine, Mps, StateFile

from lab import process, waiting
from lab.errors import LabError
from lab.process import HttpResponse, Service

PREFIX = "gpu_fractioning_mpsd_"
READY_SECONDS = 10.0
_DAEMON = "nvidia-cuda-mps-control"


def program() -> Path:
    """
    Give the console script beside the interpreter that runs this.
    """
    return Path(sys.executable).with_name("mpsd")


class Mpsd:
    """
    One mpsd process; `start` after its end runs the next one on the same directories.

    Args:
        directory: Where its configuration and logs go. The pipe directory is elsewhere: a test's own path is too long.
        flags: Further arguments, which win over the ones given here.
        environ: Variables beside those of this process.
        machine: What the simulated driver shows at first.
    """

    def __init__(
        self,
        *,
        directory: Path,
        flags: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        machine: Machine | None = None,
    ) -> None:
        self.driver = programs.locate()
        self.machine = StateFile(directory / "machine")
        self.machine.write(machine or Machine())
        self.root = Path(tempfile.mkdtemp(prefix="mpsd-"))
        self.pipe_dir = self.root / "pipe"
        self.config = directory / "etc/mps-control.toml"
        self.port = _free_port()
        self._argv: list[str | Path] = [
            program(),
            f"--mps-binary={self.driver.control}",
            f"--pipe-dir={self.pipe_dir}",
            f"--log-dir={directory / 'log'}",
            f"--mps-config-path={self.config}",
            f"--rpc-socket={self.root / 'rpc/mpsd.sock'}",
            f"--health-port={self.port}",
            "--backoff=500ms",
            "--graceful-stop-delay=5s",
            *flags,
        ]
        self._environ = {"LD_LIBRARY_PATH": str(self.driver.library.parent), **self.machine.environ, **(environ or {})}
        self._directory = directory
        self._starts = 0
        self._service: Service | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        # Whatever a test made of the machine, `quit` is to work now.
        self.machine.write(Machine())
        if self._service is not None:
            await self._service.end()
        shutil.rmtree(self.root)

    @property
    def service(self) -> Service:
        """
        The process that runs now.
        """
        if self._service is None:
            raise LabError("mpsd was not started: enter it as a context first")
        return self._service

    @property
    def socket(self) -> Path:
        """
        The control socket.
        """
        return self.pipe_dir / "control"

    async def start(self) -> None:
        """
        Start the next process; the one before must have ended.
        """
        self._starts += 1
        service = Service(f"mpsd-{self._starts}", self._argv, directory=self._directory, environ=self._environ)
        self._service = await service.__aenter__()

    def simulate(self, mps: Mps) -> None:
        """
        Change how the simulated part of the control daemon behaves.
        """
        self.machine.write(Machine(mps=mps))

    def daemons(self) -> list[int]:
        """
        List the control daemons of its pipe directory, whoever's children they are.
        """
        return [pid for pid in _pids() if self._is_daemon(pid)]

    def daemon(self) -> int:
        """
        Give the one control daemon.
        """
        (pid,) = self.daemons()
        return pid

    def leftovers(self) -> list[int]:
        """
        List every process that was started with its pipe directory, but for mpsd itself.
        """
        own = self.service.pid
        return [pid for pid in _pids() if pid != own and self._variable() in _read(pid, "environ").split(b"\0")]

    async def another_daemon(self, former: int) -> int:
        """
        Wait for a daemon in place of a former one.
        """

        def find() -> int | None:
            found = [pid for pid in self.daemons() if pid != former]
            return found[0] if len(found) == 1 and self.socket.exists() else None

        return await waiting.until(
            find, what=f"a daemon after {former}", timeout_seconds=READY_SECONDS, details=self.service.output
        )

    async def ready(self, *, timeout_seconds: float = READY_SECONDS) -> None:
        """
        Wait until it calls itself ready.
        """
        await self._readyz(lambda answer: answer.status == 200, "mpsd to be ready", timeout_seconds)

    async def not_ready(self, reason: str, *, timeout_seconds: float = READY_SECONDS) -> str:
        """
        Wait until it calls itself not ready with a text in the reason; gives the whole.
        """
        answer = await self._readyz(
            lambda answer: answer.status == 503 and reason in answer.body,
            f"mpsd not to be ready because of {reason!r}",
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
        Read one sample of `/metrics`, by its name behind the common prefix.
        """
        page = (await self.get("/metrics")).body
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                if sample.name == PREFIX + name and sample.labels == labels:
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
            return last if fits(last) else None

        return await waiting.until_awaited(
            ask,
            what=what,
            timeout_seconds=timeout_seconds,
            details=lambda: f"last answer: {last.status} {last.body}\n{self.service.output()}",
        )

    def _is_daemon(self, pid: int) -> bool:
        arguments = _read(pid, "cmdline").split(b"\0")
        runs = Path(os.fsdecode(arguments[0])).name == _DAEMON and b"-f" in arguments
        return runs and self._variable() in _read(pid, "environ").split(b"\0")

    def _variable(self) -> bytes:
        return f"CUDA_MPS_PIPE_DIRECTORY={self.pipe_dir}".encode()


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _read(pid: int, name: str) -> bytes:
    try:
        return (Path("/proc") / str(pid) / name).read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
