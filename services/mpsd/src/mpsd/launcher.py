"""
One start of the control daemon: strays ended, configuration written, stale files removed, program run.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Protocol

import attrs
import structlog
from fractioning_core.errors import FileUnavailable, InvalidInput, Unavailable, escaped

from mpsd import configfile, controlconfig, controlsocket, daemonfiles, steps, strays
from mpsd.commands import CommandLine
from mpsd.controlconfig import Choices
from mpsd.controlsocket import Identity
from mpsd.process import Daemon
from mpsd.steps import Overdue
from mpsd.strays import Neighbourhood

# Of the 107 characters a socket's path may have, 24 are the daemon's; beyond it dies with a message that says nothing.
PIPE_DIR_LIMIT = 83
# For /proc to be read twice; a wedged process can hold up whoever reads of it.
KILL_SECONDS = 10.0


class Child(Protocol):
    """What the supervisor needs of a running daemon."""

    @property
    def pid(self) -> int:
        """Its process id."""

    async def wait(self) -> int:
        """Wait for its end."""

    def ask_quit(self) -> bool:
        """Ask it to end when its clients have; False when it cannot be asked."""

    def kill(self) -> None:
        """Kill it."""

    def close(self) -> None:
        """Let go of it."""


class Launch(Protocol):
    """What the supervisor needs of whoever starts daemons; `Launcher` does."""

    async def prepare(self) -> None:
        """Set the node up."""

    def obstacle(self) -> str:
        """Say why the program cannot be run; blocks."""

    async def start(self) -> Child:
        """Start the daemon."""

    async def kill_servers(self) -> None:
        """Kill the servers it started."""


@attrs.frozen(auto_exc=False)
class PipeDirTooLong(InvalidInput):
    """
    No socket fits under the pipe directory's path.
    """

    path: str

    def __str__(self) -> str:
        return (
            f"--pipe-dir {escaped(self.path, 200)} has {len(self.path)} characters; "
            f"accepted: at most {PIPE_DIR_LIMIT}, or the control daemon's sockets do not fit"
        )


@attrs.frozen(auto_exc=False)
class CannotStart(Unavailable):
    """
    The system made no process.
    """

    cause: str

    def __str__(self) -> str:
        return f"cannot start the control daemon: {self.cause}"


@attrs.frozen
class Plan:
    """
    How the daemon is started, whatever the driver.

    Args:
        line: Program and directories.
        choices: What its configuration says.
        config_path: Where that is; empty for none.
    """

    line: CommandLine
    choices: Choices
    config_path: str


class Launcher:
    """
    Starts the daemon, and knows what it was started with.

    Args:
        plan: How.
        environ: The environment to pass on.
        neighbourhood: Where strays are looked for.
        major: The driver's major at this moment; None while it is not known.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        environ: Mapping[str, str],
        neighbourhood: Neighbourhood,
        major: Callable[[], int | None],
    ) -> None:
        self._plan = plan
        self._environ = plan.line.environment(environ)
        self._neighbourhood = neighbourhood
        self._major = major
        self._session: int | None = None
        self.config_text: str | None = None
        """The configuration the last start was given; None where there is none."""

    async def prepare(self) -> None:
        """
        Make the directories, and see that they can be used.

        Raises:
            InvalidInput: the pipe directory's path is too long.
            Unavailable: the file system refuses; the text names what.
        """
        await asyncio.to_thread(_prepare, self._plan)

    def obstacle(self) -> str:
        """
        Say why the program cannot be run, one line; empty when it can. Blocks for a look at the file.
        """
        path = Path(self._plan.line.binary)
        if not path.is_file():
            return f"{escaped(str(path), 200)} is not there; the NVIDIA runtime puts it into the container"
        if not os.access(path, os.X_OK):
            return f"{escaped(str(path), 200)} is not executable"
        return ""

    async def start(self) -> Child:
        """
        Start the daemon.

        Raises:
            Unavailable: a stray does not end, the configuration could not be written, or no process be made.
        """
        if await strays.end_all(self._neighbourhood) or self._session is None:
            # Whoever still is at a server of the stray, or of an mpsd before us, is bound by nothing that we know of.
            await self._kill(self._neighbourhood.orphans)
        self.config_text = await asyncio.to_thread(self._write)
        argv = self._plan.line.daemon(multiuser=self._plan.choices.sm_sharing, config_path=self._plan.config_path)
        try:
            daemon = await Daemon.start(argv, self._environ)
        except OSError as error:
            raise CannotStart(configfile.cause(error)) from error
        self._session = daemon.pid
        structlog.get_logger().info("daemon_started", pid=daemon.pid, arguments=argv[1:])
        return daemon

    async def restore_config(self) -> None:
        """
        Put the file back to what the daemon was started with.

        Raises:
            Unavailable: the file system refuses.
        """
        if self.config_text is not None:
            await asyncio.to_thread(configfile.write, Path(self._plan.config_path), self.config_text)

    def config_difference(self) -> str:
        """
        Say how the file differs from what the daemon was started with; empty when it does not. Blocks.
        """
        if self.config_text is None:
            return ""
        return configfile.difference(Path(self._plan.config_path), self.config_text)

    def socket(self) -> Identity | None:
        """
        Identify the control socket; None when there is none. Blocks.
        """
        return controlsocket.look(self._plan.line.pipe_dir)

    def has_opened_socket(self) -> bool:
        """
        Tell whether the daemon of the last start has made its control socket, be it there or not. Blocks.
        """
        return self._session is not None and controlsocket.is_open(self._plan.line.pipe_dir, self._session)

    def other_daemons(self) -> tuple[int, ...]:
        """
        List the control daemons of our pipe directory that are not of the last start. Blocks.
        """
        try:
            return () if self._session is None else self._neighbourhood.others(self._session)
        except OSError:
            # The start before has listed /proc, and the next one says what is wrong with it.
            return ()

    async def kill_servers(self) -> None:
        """
        Kill the MPS servers, which outlive their control daemon and keep the GPU's state.
        """
        await self._kill(self._neighbourhood.servers)

    async def _kill(self, servers: Callable[[], Collection[int]]) -> None:
        log = structlog.get_logger()
        killing = asyncio.to_thread(strays.kill, servers)
        try:
            killed, refused = await steps.within(KILL_SECONDS, killing, doing="killing the MPS servers")
        except (Overdue, OSError) as error:
            log.error("servers_not_killed", error=str(error))  # noqa: TRY400  says enough
            return
        if killed or refused:
            log.warning("servers_killed", pids=killed, refused=refused)

    def _write(self) -> str | None:
        text = None
        if self._plan.config_path:
            text = controlconfig.render(controlconfig.sections(self._major(), self._plan.choices))
            path = Path(self._plan.config_path)
            # A disk may take long to say that a write is safe, and most starts write what is there already.
            if configfile.difference(path, text):
                configfile.write(path, text)
        controlsocket.remove(self._plan.line.pipe_dir)
        daemonfiles.renew(self._plan.line.pipe_dir)
        return text


def _prepare(plan: Plan) -> None:
    pipe_dir = plan.line.pipe_dir
    if len(pipe_dir) > PIPE_DIR_LIMIT:
        raise PipeDirTooLong(pipe_dir)
    for directory in (pipe_dir, plan.line.log_dir):
        try:
            configfile.make_directory(Path(directory))
            # Root may write everywhere but on a read-only mount, which only an attempt tells.
            tempfile.TemporaryFile(dir=directory).close()
        except OSError as error:
            raise FileUnavailable("write to", directory, configfile.cause(error)) from error
    controlsocket.remove(pipe_dir)
