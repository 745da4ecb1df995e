"""
Asks the running control daemon, by its own command line client.

The program is run directly: the image may have no shell. Each command has a deadline, its output is bounded, and a
client that overruns either is killed with all of its session.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import attrs
from fractioning_core.errors import Unavailable, shown

from mpsd import commands
from mpsd.commands import CommandLine

TIMEOUT_SECONDS = 10.0
# A line for each client, and there are at most 60 clients to a device.
MAX_OUTPUT_BYTES = 65_536
_SHOWN_OUTPUT = 200
# For a killed client to be gone; one that hangs in the kernel is not waited for.
END_SECONDS = 2.0


@attrs.frozen(auto_exc=False)
class NoAnswer(Unavailable):
    """
    The control daemon did not answer a command in time.
    """

    command: str
    seconds: float

    def __str__(self) -> str:
        return f"the control daemon did not answer `{self.command}` within {self.seconds:g} s"


@attrs.frozen(auto_exc=False)
class Refused(Unavailable):
    """
    A command ended with an error.
    """

    command: str
    status: int
    output: str

    def __str__(self) -> str:
        said = f", said {shown(self.output, _SHOWN_OUTPUT)}" if self.output else " without a word"
        return f"the control daemon's client ended `{self.command}` with status {self.status}{said}"


@attrs.frozen(auto_exc=False)
class TooLong(Unavailable):
    """
    A command's answer has no end.
    """

    command: str

    def __str__(self) -> str:
        return f"the control daemon's client said more than {MAX_OUTPUT_BYTES} bytes to `{self.command}`"


@attrs.frozen(auto_exc=False)
class NotRun(Unavailable):
    """
    The client could not be run at all.
    """

    command: str
    cause: str

    def __str__(self) -> str:
        return f"cannot run `{self.command}`: {self.cause}"


class Control:
    """
    The commands we need.

    Args:
        line: The program and what each call has in common.
        environ: The environment to pass on.
    """

    def __init__(self, line: CommandLine, environ: Mapping[str, str]) -> None:
        self._line = line
        self._environ = line.environment(environ)

    async def list_clients(self, deadline_seconds: float = TIMEOUT_SECONDS) -> tuple[int, ...]:
        """
        List the process ids of the attached clients; also the cheapest question that proves the daemon alive.

        Raises:
            Unavailable: NoAnswer, Refused, TooLong or NotRun.
        """
        return commands.parse_clients(await self._ask(*commands.LIST_CLIENTS, deadline_seconds=deadline_seconds))

    async def terminate(self, pid: int, deadline_seconds: float) -> None:
        """
        Take a client off the GPU once what it has under way is done.

        Raises:
            Unavailable: NoAnswer, Refused, TooLong or NotRun.
        """
        await self._ask(*commands.terminate_client(pid), deadline_seconds=deadline_seconds)

    async def _ask(self, *words: str, deadline_seconds: float) -> str:
        told = " ".join(words)
        try:
            async with asyncio.timeout(deadline_seconds), self._client(*words) as process:
                output = await _read(process, told)
                status = await process.wait()
        except TimeoutError as error:
            raise NoAnswer(told, deadline_seconds) from error
        if status != 0:
            raise Refused(told, status, output.strip())
        return output

    @asynccontextmanager
    async def _client(self, *words: str) -> AsyncIterator[Process]:
        """
        Run the client; nothing is left of it in the end, whatever comes.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                *self._line.command(*words),
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=STDOUT,
                env=self._environ,
                start_new_session=True,
            )
        except OSError as error:
            raise NotRun(" ".join(words), error.strerror or str(error)) from error
        try:
            yield process
        except BaseException:
            await _kill(process)
            raise


async def _read(process: Process, command: str) -> str:
    """
    Read what is said to its end.

    Raises:
        TooLong: it is more than the bound.
    """
    said = bytearray()
    async for chunk in _chunks(process):
        said += chunk
        if len(said) > MAX_OUTPUT_BYTES:
            raise TooLong(command)
    return said.decode(errors="replace")


async def _chunks(process: Process) -> AsyncIterator[bytes]:
    reader = process.stdout
    assert reader is not None  # noqa: S101  asked for at the start
    while chunk := await reader.read(MAX_OUTPUT_BYTES):
        yield chunk


async def _kill(process: Process) -> None:
    """
    Kill a client and its session, of which some may hold its output open after its own end.
    """
    # Nobody has read to the end of the output, so that somebody of the session lives and its number is no other's.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        async with asyncio.timeout(END_SECONDS):
            # asyncio tells of the end only once the output was read to its own.
            async for _ in _chunks(process):
                pass
            await process.wait()
    except TimeoutError:
        # One that left the session or hangs in the kernel keeps its end of the pipe, but not ours.
        process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001  asyncio has no public way to
