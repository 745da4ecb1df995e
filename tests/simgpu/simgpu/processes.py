"""
Real processes that hold simulated GPU memory.

    with processes.started(Allocation(("GPU-1",), memory="512Mi", sm_percent=30)) as process:
        process.pid                                     # NVML lists it, when the state has `scan_processes`

NVML finds such a process anywhere on the machine by the UUIDs that it names: tests that may run at the same time are
to use UUIDs of their own.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import attrs

from simgpu import programs


@attrs.frozen
class Allocation:
    """
    What a process holds.

    Args:
        gpus: UUIDs of the GPUs.
        memory: On each of them: bytes, or a number with Ki, Mi or Gi.
        sm_percent: How much of their SMs it uses.
        is_graphics: Whether it draws; it computes otherwise.
        command: What runs beside it, as its child.
    """

    gpus: tuple[str, ...]
    memory: str = "0"
    sm_percent: int = 0
    is_graphics: bool = False
    command: tuple[str, ...] = ()

    def argv(self, program: str) -> tuple[str, ...]:
        """
        Give the command line, for a program that lies there.
        """
        graphics = ("--graphics",) if self.is_graphics else ()
        command = ("--", *self.command) if self.command else ()
        gpus = ",".join(self.gpus)
        return (program, f"--gpu={gpus}", f"--memory={self.memory}", f"--sm={self.sm_percent}", *graphics, *command)


class OutOfMemory(Exception):  # noqa: N818 - CUDA's name for it
    """
    The process was not given its memory; the text is what it said.
    """


@contextmanager
def started(allocation: Allocation, *, environ: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """
    Run a process on this machine until the context ends; it has its memory from the start.

    Args:
        allocation: What it holds.
        environ: All its variables; with that of the state it obeys the limit of its cgroup.

    Raises:
        OutOfMemory: It ended instead.
        MissingDriver: The program has not been made.
    """
    process = subprocess.Popen(  # noqa: S603 - our own program
        allocation.argv(str(programs.locate().run)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=dict(environ or {}),
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        if not line.startswith("simulated: ") or "out of memory" in line:
            raise OutOfMemory(line)
        yield process
    finally:
        process.terminate()
        process.communicate()
