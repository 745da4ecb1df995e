"""
The control daemon as a child process of ours.

It dies with us (`deathsig`), leads a session of its own, so that a Ctrl-C meant for us is not its end and a kill
reaches whatever it wraps, and its standard input is a pipe that we keep open, since the end of it would be the
daemon's, too. Its output passes through.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from typing import Self

from mpsd import deathsig

QUIT = b"quit\n"


class Daemon:
    """
    One run of the control daemon.

    Args:
        process: The child.
        stdin: The writing end of its standard input, ours to close.
    """

    def __init__(self, process: Process, stdin: int) -> None:
        self._process = process
        self._stdin: int | None = stdin

    @classmethod
    async def start(cls, argv: Sequence[str], environ: Mapping[str, str]) -> Self:
        """
        Start it. To be called in the main thread: the daemon is killed when the thread that forked it ends.

        Raises:
            OSError: no process could be made.
        """
        theirs, ours = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                # Isolated and without site-packages: the helper needs neither, and starts in half the time.
                *("-I", "-S", deathsig.__file__, str(os.getpid())),
                *argv,
                stdin=theirs,
                env=environ,
                start_new_session=True,
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        return cls(process, ours)

    @property
    def pid(self) -> int:
        """
        Its process id.
        """
        return self._process.pid

    async def wait(self) -> int:
        """
        Wait for its end; gives the status, negative for a signal.
        """
        return await self._process.wait()

    def ask_quit(self) -> bool:
        """
        Type `quit`, which a daemon that reads its input obeys once its clients have gone.

        Returns: whether there was anybody to read it.
        """
        if self._stdin is None:
            return False
        try:
            os.write(self._stdin, QUIT)
        except BrokenPipeError:
            return False
        return True

    def kill(self) -> None:
        """
        Kill it, and all in its session.
        """
        # The session lives on without its leader as long as a member does, so that no other can have its number; but
        # once all are gone it can, hence only before we have seen the leader's end.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """
        Close its input; once more is fine.
        """
        stdin, self._stdin = self._stdin, None
        if stdin is not None:
            os.close(stdin)
