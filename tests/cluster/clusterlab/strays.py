"""
An MPS control daemon that somebody has started on a worker by hand: Debian's own, not in a container.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
from fractioning_core import names
from lab import waiting
from simgpu import programs

from clusterlab.worker import RunningWorker

_PART = "stray-control-daemon"
_SECONDS = 10.0


@attrs.frozen
class Stray:
    """
    The daemon, while it lives.
    """

    worker: RunningWorker

    @property
    def lives(self) -> bool:
        """
        Whether it still runs.
        """
        return self.worker.parts.pid(_PART) is not None


@asynccontextmanager
async def made(worker: RunningWorker, directory: str) -> AsyncIterator[Stray]:
    """
    Have one on a pipe directory below the worker's /run while entered.
    """
    here = worker.files.run / directory.removeprefix("/run/")
    here.mkdir(exist_ok=True)
    place = (f"--mount=/proc/{worker.pid}/ns/mnt", f"--pid=/proc/{worker.pid}/ns/pid_for_children")
    worker.parts.spawn(
        _PART,
        # The daemon ends with the process that waits for it.
        ["nsenter", *place, "--", "setpriv", "--pdeathsig=KILL", programs.locate().real_control.resolve(), "-f"],
        environ={names.ENV_MPS_PIPE_DIRECTORY: directory, "CUDA_MPS_LOG_DIRECTORY": directory},
    )
    try:
        await waiting.until((here / "control").exists, what="the stray's socket", timeout_seconds=_SECONDS)
        yield Stray(worker)
    finally:
        await worker.parts.end(_PART)
