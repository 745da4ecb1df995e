"""
What a demo may leave behind, found and removed by its directory's name alone.

Leaving the contexts of containerd and of our daemons does the same work with what they remember; this is for a demo
that was left running on purpose, or was killed, and it is how every demo proves in the end that nothing is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
from collections.abc import Iterable
from pathlib import Path

from fractioning_core import names
from lab import sweep, waiting
from lab.config import Layout

# As lab.containerd names its directories: nothing else may be removed by a typing error.
ACCEPTED_DIRECTORY = re.compile(r"/tmp/lab-[0-9a-f]{8}")
PROGRAMS = ("containerd", "fractiond", "mpsd", "metricsd")
# What mpsd starts is told where to work by a variable.
MPS_PROGRAMS = ("nvidia-cuda-mps-control", "simgpu-mps-helper")
_END_SECONDS = 10.0


def cgroup_of(base: Path) -> str:
    """
    Give the cgroup of the lab in this directory.
    """
    return f"/{base.name}"


def program_pids(base: Path) -> list[int]:
    """
    List the containerd and the daemons of ours that work in a directory, with all that mpsd started.
    """
    processes = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [int(entry.name) for entry in processes if _works_in(entry, base) or _serves(entry, base)]


def remains(base: Path, sockets: Iterable[Path] = ()) -> list[str]:
    """
    Describe everything of a lab that is still there, a line each.

    Args:
        base: The lab's directory.
        sockets: The sockets of its shims, listed before, which lie outside of it.
    """
    layout = Layout(base)
    return [
        *(f"process {pid}" for pid in program_pids(base)),
        *(f"container's process {pid}" for pid in sweep.cgroup_pids(cgroup_of(base))),
        *(f"shim {pid}" for pid in sweep.shim_pids(layout.cri_socket)),
        *(f"mount {point}" for point in sweep.mounts_below(base)),
        *(f"cgroup {path}" for path in sweep.cgroup_directories(cgroup_of(base))),
        *(f"socket {path}" for path in sockets if path.exists()),
        *([f"directory {base}"] if base.exists() else []),
    ]


async def clean(base: Path) -> None:
    """
    Remove all of a lab; what is already gone is fine.

    Raises:
        Overdue: Something does not go; the error names it.
    """
    layout = Layout(base)
    await waiting.until(
        lambda: not _kill(program_pids(base)), what=f"the programs in {base} to end", timeout_seconds=_END_SECONDS
    )
    sockets = sweep.shim_sockets(layout.state)
    await sweep.kill_containers(cgroup_of(base))
    await sweep.kill_shims(layout.cri_socket)
    sweep.remove_sockets(sockets)
    await sweep.remove_mounts(base)
    await sweep.remove_cgroups(cgroup_of(base))
    # Last, since through a mount that is still there it would empty what is mounted.
    await asyncio.to_thread(_remove_directory, base)


def _works_in(process: Path, base: Path) -> bool:
    arguments = _texts(process / "cmdline")
    # A script's own name comes behind its interpreter's.
    is_ours = any(_name(argument) in PROGRAMS for argument in arguments[:2])
    return is_ours and any(argument.rpartition("=")[2].startswith(f"{base}/") for argument in arguments)


def _serves(process: Path, base: Path) -> bool:
    is_ours = _name(_texts(process / "cmdline")[0]) in MPS_PROGRAMS
    variable = f"{names.ENV_MPS_PIPE_DIRECTORY}={base}/"
    return is_ours and any(text.startswith(variable) for text in _texts(process / "environ"))


def _name(argument: str) -> str:
    return argument.rpartition("/")[2]


def _texts(file: Path) -> list[str]:
    try:
        return file.read_bytes().decode(errors="replace").split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return [""]


def _remove_directory(base: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(base)


def _kill(pids: list[int]) -> list[int]:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return pids
