"""
mpsd over the simulated r615 control daemon, which is Debian's real one behind r615's command line.

    async with Mpsd(directory=tmp_path) as mpsd:
        await mpsd.ready()
        os.kill(mpsd.daemon(), signal.SIGKILL)
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from simgpu import programs
from simgpu.programs import MissingDriver
from simgpu.state import Machine, Mps, StateFile

from lab import mounts, waiting
from lab.errors import LabError, MissingToolchain
from lab.process import HttpResponse, Service
from lab.program import READY_SECONDS, Program

PREFIX = "gpu_fractioning_mpsd_"
_DAEMON = "nvidia-cuda-mps-control"


class Mpsd:
    """
    One mpsd process; `start` after its end runs the next one on the same directories.

    Args:
        directory: Where its configuration and logs go.
        sockets: The same for its pipe directory and its own socket, whose paths must be short; a temporary directory,
            which goes with it, where None.
        flags: Further arguments, which win over the ones given here.
        environ: Variables beside those of this process.
        machine: What the simulated driver shows at first.
        seen: Directories that it finds at other paths, as in a container, by those paths.
    """

    def __init__(
        self,
        *,
        directory: Path,
        sockets: Path | None = None,
        flags: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        machine: Machine | None = None,
        seen: Mapping[Path, Path] | None = None,
    ) -> None:
        try:
            self.driver = programs.locate()
        except MissingDriver as error:
            raise MissingToolchain(error.path, "simgpu") from error
        self.machine = StateFile(directory / "machine")
        self.machine.write(machine or Machine())
        self._is_temporary = sockets is None
        self._sockets = sockets or Path(tempfile.mkdtemp(prefix="mpsd-"))
        self.pipe_dir = self._sockets / "mps"
        self.rpc_socket = self._sockets / "rpc/mpsd.sock"
        self.config = directory / "etc/mps-control.toml"
        arguments = [
            f"--mps-binary={self.driver.control}",
            f"--pipe-dir={self.pipe_dir}",
            f"--log-dir={directory / 'log'}",
            f"--mps-config-path={self.config}",
            f"--rpc-socket={self.rpc_socket}",
            "--backoff=500ms",
            "--graceful-stop-delay=5s",
            *flags,
        ]
        variables = {
            # Where these tests run in a pod, its node is not ours to label.
            "KUBERNETES_SERVICE_HOST": "",
            "LD_LIBRARY_PATH": str(self.driver.library.parent),
            **self.machine.environ,
            **(environ or {}),
        }
        self._program = Program(
            "mpsd",
            arguments,
            port_flag="--health-port=",
            directory=directory,
            environ=variables,
            before=mounts.words(seen or {}),
        )
        self.port = self._program.port

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        # Whatever a test made of the machine, `quit` is to work now.
        self.machine.write(Machine())
        await self._program.end()
        if self._is_temporary:
            shutil.rmtree(self._sockets)

    @property
    def service(self) -> Service:
        """
        The process that runs now.
        """
        return self._program.service

    @property
    def socket(self) -> Path:
        """
        The control socket.
        """
        return self.pipe_dir / "control"

    @property
    def shared_socket(self) -> Path:
        """
        The socket of the server for containers that share SMs.
        """
        return self.pipe_dir / "shared/default/control"

    async def start(self) -> None:
        """
        Start the next process; the one before must have ended.
        """
        await self._program.start()

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

        Raises:
            LabError: There is none, or more than one.
        """
        found = self.daemons()
        if len(found) != 1:
            raise LabError(
                f"control daemons of {self.pipe_dir}: {found}, where there is to be one\n{self.service.output()}"
            )
        return found[0]

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
        await self._program.ready(timeout_seconds=timeout_seconds)

    async def not_ready(self, reason: str, *, timeout_seconds: float = READY_SECONDS) -> str:
        """
        Wait until it calls itself not ready with a text in the reason; gives the whole.
        """
        return await self._program.not_ready(reason, timeout_seconds=timeout_seconds)

    async def serving(self) -> None:
        """
        Wait until it is ready, and the running daemon has made the shared server's socket, too, which it does last.
        """
        await self.ready()
        await waiting.until(
            # A simulated server's socket is another name of the one socket.
            lambda: self.shared_socket.exists() and self.shared_socket.samefile(self.socket),
            what="the shared server's socket",
            timeout_seconds=READY_SECONDS,
            details=self.service.output,
        )

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

    async def heard(self, command: str) -> int:
        """
        Wait until a control daemon has logged a client's command, and give that daemon's process id.
        """
        line = re.compile(rf"Control +([0-9]+)\] Cmd:{re.escape(command)}$", re.MULTILINE)
        found = await waiting.until(
            lambda: line.search(self.service.output()),
            what=f"the control daemon to log {command}",
            timeout_seconds=READY_SECONDS,
            details=self.service.output,
        )
        return int(found[1])

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
