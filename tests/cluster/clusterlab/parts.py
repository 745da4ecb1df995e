"""
The processes of a cluster, which outlive whoever started them.

Each has the cluster's directory in its environment and hands it down, so that all of them are found even after a run
that was killed, and no other process is ever taken for one. A file with the id tells which one is which.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
from lab import waiting

from clusterlab.layout import Layout

VARIABLE = "GPU_FRACTIONING_CLUSTER"
_PROC = Path("/proc")
_END_SECONDS = 10.0
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@attrs.frozen
class Parts:
    """
    The processes of the cluster in one directory.
    """

    layout: Layout

    def spawn(self, name: str, argv: Sequence[str | Path], *, environ: Mapping[str, str] | None = None) -> int:
        """
        Start a part; what it writes goes to a file called after it.
        """
        log = os.open(self.log(name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            actions = [(os.POSIX_SPAWN_DUP2, log, 1), (os.POSIX_SPAWN_DUP2, log, 2)]
            nothing = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
            variables = {"PATH": _SYSTEM_PATH, **(environ or {}), VARIABLE: str(self.layout.base)}
            words = [str(word) for word in argv]
            # Not subprocess, which takes a process that lives on for a leak.
            pid = os.posix_spawnp(words[0], words, variables, file_actions=[*nothing, *actions], setsid=True)
        finally:
            os.close(log)
        # The kernel shows the environment a moment after the program is started.
        while not self._owns(pid) and (_PROC / str(pid)).exists():
            time.sleep(0.001)
        (self.layout.pids / name).write_text(str(pid))
        return pid

    def log(self, name: str) -> Path:
        """
        Where a part writes to.
        """
        return self.layout.log / f"{name}.log"

    def pid(self, name: str) -> int | None:
        """
        Give a part's process; None when it does not run.
        """
        try:
            pid = int((self.layout.pids / name).read_text())
        except (FileNotFoundError, ValueError):
            return None
        return pid if self._owns(pid) else None

    def pids(self) -> list[int]:
        """
        List every process of the cluster that this machine sees, but for those in containers, which end with them.
        """
        return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit() and self._owns(int(entry.name))]

    async def end(self, name: str, signum: signal.Signals = signal.SIGKILL) -> None:
        """
        End a part, if it runs.
        """
        pid = self.pid(name)
        if pid is not None:
            _send(pid, signum)
            await waiting.until(
                lambda: not self._owns(pid), what=f"{name} (process {pid}) to end", timeout_seconds=_END_SECONDS
            )
        (self.layout.pids / name).unlink(missing_ok=True)

    async def end_all(self) -> None:
        """
        End all of them.
        """

        def ended() -> bool:
            left = self.pids()
            for pid in left:
                _send(pid, signal.SIGKILL)
            return not left

        await waiting.until(ended, what=f"the processes of {self.layout.base} to end", timeout_seconds=_END_SECONDS)

    def _owns(self, pid: int) -> bool:
        with contextlib.suppress(ChildProcessError):
            # One that ended stays until whoever started it has asked.
            os.waitpid(pid, os.WNOHANG)
        try:
            environment = (_PROC / str(pid) / "environ").read_bytes()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return False
        return f"{VARIABLE}={self.layout.base}".encode() in environment.split(b"\0")


def _send(pid: int, signum: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signum)
