"""
The processes in a worker's containers, as this machine sees them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

from lab import sweep, waiting

from clusterlab.worker import RunningWorker

_CONTROL_DAEMON = ("nvidia-cuda-mps-control", "-f")
_SECONDS = 60.0


def find(worker: RunningWorker, name: str, *words: str) -> list[int]:
    """
    List the processes of a program in the worker's containers whose arguments have all these words.
    """
    found = []
    for pid in sweep.cgroup_pids(worker.cgroup):
        arguments = _arguments(pid)
        if Path(arguments[0]).name == name and all(word in arguments for word in words):
            found.append(pid)
    return found


async def appear(worker: RunningWorker, name: str, *words: str) -> list[int]:
    """
    Wait until there are such processes: a container runs before its shell has become what it is to run.
    """
    return await waiting.until(
        lambda: find(worker, name, *words) or None,
        what=f"{name} on {worker.worker.name}",
        timeout_seconds=_SECONDS,
    )


def running(worker: RunningWorker, service: str) -> list[int]:
    """
    List the processes of one of the product's services on a worker.
    """
    return find(worker, "python3", f"/usr/local/bin/{service}")


def environment(pid: int) -> Mapping[str, str]:
    """
    Read the environment that a process was started with; empty where it has gone.
    """
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        # ENOENT, ESRCH.
        text = ""
    return dict(entry.partition("=")[::2] for entry in text.split("\0") if "=" in entry)


async def only(worker: RunningWorker, service: str) -> int:
    """
    Give the process of a service on a worker, once it is the only one: a child looks like it until it has become
    another program.
    """

    def one() -> int | None:
        found = running(worker, service)
        return found[0] if len(found) == 1 else None

    return await waiting.until(one, what=f"one {service} on {worker.worker.name}", timeout_seconds=_SECONDS)


def control_daemons(worker: RunningWorker) -> list[int]:
    """
    List the MPS control daemons of a worker.
    """
    return find(worker, *_CONTROL_DAEMON)


async def kill_control_daemon(worker: RunningWorker) -> int:
    """
    Kill the one that runs, once there is one; gives its process id.
    """
    pid, *_ = await appear(worker, *_CONTROL_DAEMON)
    os.kill(pid, signal.SIGKILL)
    return pid


async def another_control_daemon(worker: RunningWorker, former: int) -> int:
    """
    Wait for a control daemon in the place of a former one.
    """

    def find_other() -> int | None:
        others = [pid for pid in control_daemons(worker) if pid != former]
        return others[0] if len(others) == 1 and socket(worker).exists() else None

    return await waiting.until(find_other, what=f"a control daemon after {former}", timeout_seconds=_SECONDS)


def socket(worker: RunningWorker) -> Path:
    """
    Give the control socket of a worker.
    """
    return worker.files.run / "nvidia-mps" / "control"


def _arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return [""]
