"""
Control daemons of our pipe directory that are not ours, left by an mpsd before us or started by hand.

A second daemon on the same directory refuses to start, and one that we did not start has an unknown configuration; so
a stray is ended, not adopted: terminated, then killed, by its process id alone. It is one if it runs the same
program in the foreground or background, and its CUDA_MPS_PIPE_DIRECTORY is the very directory that is ours: the same
text in another container is another directory, and another daemon there is none of our business.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Collection
from pathlib import Path

import attrs
import structlog
from fractioning_core import names
from fractioning_core.errors import FileUnavailable

from mpsd import proctable
from mpsd.causes import SurvivesKill

CONTROL_PROGRAM = "nvidia-cuda-mps-control"
SERVER_PROGRAM = "nvidia-cuda-mps-server"
# Clients of a stray run without the accounting we stand for; they are not waited for as ours are.
GRACE_SECONDS = 3.0
# With one of these the program is the daemon; without, it is its client.
_DAEMON_FLAGS = frozenset({"-f", "-d"})


@attrs.frozen
class Neighbourhood:
    """
    Where to look.

    Args:
        proc_root: The node's /proc.
        pipe_dir: Our pipe directory.
        programs: Names that the control daemon's program may have.
    """

    proc_root: Path
    pipe_dir: str
    programs: frozenset[str] = frozenset({CONTROL_PROGRAM})

    def strays(self) -> tuple[int, ...]:
        """
        List the control daemons of our pipe directory.
        """
        found = [pid for program in sorted(self.programs) for pid in proctable.running(self.proc_root, program)]
        return tuple(pid for pid in found if self._is_daemon(pid) and self._is_here(pid))

    def servers(self) -> tuple[int, ...]:
        """
        List the MPS servers of the node, all but those that visibly belong to another pipe directory.

        They hold the GPU's state and outlive their daemon; one that does not tell where it belongs counts as ours.
        """
        found = proctable.running(self.proc_root, SERVER_PROGRAM)
        return tuple(pid for pid in found if not self._is_elsewhere(pid))

    def orphans(self) -> tuple[int, ...]:
        """
        List the MPS servers that visibly belong to our pipe directory; to be asked while no daemon of it runs.
        """
        found = proctable.running(self.proc_root, SERVER_PROGRAM)
        return tuple(pid for pid in found if self._is_here(pid))

    def others(self, leader: int) -> tuple[int, ...]:
        """
        List the control daemons of our pipe directory but those of one session.
        """
        return tuple(pid for pid in self.strays() if not proctable.is_of_session(pid, leader))

    def _is_daemon(self, pid: int) -> bool:
        return not _DAEMON_FLAGS.isdisjoint(proctable.arguments_of(self.proc_root, pid)[1:])

    def _is_here(self, pid: int) -> bool:
        named = proctable.variable_of(self.proc_root, pid, names.ENV_MPS_PIPE_DIRECTORY)
        return bool(named) and self._is_ours(pid, str(named))

    def _is_elsewhere(self, pid: int) -> bool:
        named = proctable.variable_of(self.proc_root, pid, names.ENV_MPS_PIPE_DIRECTORY)
        return bool(named) and not self._is_ours(pid, str(named))

    def _is_ours(self, pid: int, named: str) -> bool:
        theirs = proctable.directory_of(self.proc_root, pid, named)
        return theirs is not None and theirs == proctable.identity(Path(self.pipe_dir))


async def end_all(neighbourhood: Neighbourhood, *, grace_seconds: float = GRACE_SECONDS) -> tuple[int, ...]:
    """
    End every stray; TERM first, which the daemon obeys at once, then KILL.

    Returns: the process ids that were ended.

    Raises:
        FileUnavailable: /proc cannot be listed.
        SurvivesKill: one hangs in the kernel, so that no daemon can be started beside it.
    """
    try:
        found = await asyncio.to_thread(neighbourhood.strays)
    except OSError as error:
        raise FileUnavailable("list", str(neighbourhood.proc_root), error.strerror or str(error)) from error
    ended = []
    for pid in found:
        if await _end(neighbourhood, pid, grace_seconds):
            structlog.get_logger().warning("stray_daemon_ended", pid=pid, pipe_dir=neighbourhood.pipe_dir)
            ended.append(pid)
    return tuple(ended)


async def _end(neighbourhood: Neighbourhood, pid: int, grace_seconds: float) -> bool:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        # The id may have passed to another process between the look and the handle; the handle does not change hands.
        if pid not in await asyncio.to_thread(neighbourhood.strays):
            return False
        for number in (signal.SIGTERM, signal.SIGKILL):
            _signal(handle, number)
            if await _has_ended(handle, grace_seconds):
                return True
        raise SurvivesKill(f"a control daemon on {neighbourhood.pipe_dir} that is not ours,", pid)
    finally:
        os.close(handle)


def kill(pids: Callable[[], Collection[int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """
    Kill processes; one that is gone or refuses does not keep the others from it. Blocks.

    Args:
        pids: Lists them, and is asked again once each is held on to, since an id may have passed to another meanwhile.

    Returns: those that were killed, and those that could not be.

    Raises:
        OSError: they cannot be listed.
    """
    with contextlib.ExitStack() as stack:
        held = {pid: handle for pid in pids() if (handle := _held(stack, pid)) is not None}
        still = [pid for pid in pids() if pid in held] if held else []
        refused = tuple(pid for pid in still if not _is_killed(held[pid]))
    return tuple(pid for pid in still if pid not in refused), refused


def _held(stack: contextlib.ExitStack, pid: int) -> int | None:
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        # Gone; or a kernel's limit, and then the next hard end tries again.
        return None
    stack.callback(os.close, handle)
    return handle


def _is_killed(handle: int) -> bool:
    try:
        _signal(handle, signal.SIGKILL)
    except OSError:
        return False
    return True


def _signal(handle: int, number: signal.Signals) -> None:
    # One that has ended is fine.
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(handle, number)


async def _has_ended(handle: int, seconds: float) -> bool:
    """
    Wait for a process that is not our child: its handle becomes readable.
    """
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(handle, ended.set)
    try:
        async with asyncio.timeout(seconds):
            await ended.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(handle)
    return True
