"""
One start of the control daemon: strays ended, configuration written, stale socket removed, program run.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import attrs
import structlog
from fractioning_core.errors import FileUnavailable, InvalidInput, Unavailable, escaped

from mpsd import configfile, controlconfig, strays
from mpsd.commands import CommandLine
from mpsd.controlconfig import Choices
from mpsd.process import Daemon
from mpsd.strays import Neighbourhood

SOCKET = "control"
# Of the 107 characters a socket's path may have, 24 are the daemon's; beyond it dies with a message that says nothing.
PIPE_DIR_LIMIT = 83


class Child(Protocol):
    """What the supervisor needs of a running daemon."""

    @property
    def pid(self) -> int:
        """Its process id."""

    async def wait(self) -> int:
        """Wait for its end."""

    def ask_quit(self) -> None:
        """Ask it to end when its clients have."""

    def kill(self) -> None:
        """Kill it."""

    def close(self) -> None:
        """Let go of it."""


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
            Unavailable: the configuration could not be written, or no process be made.
        """
        await strays.end_all(self._neighbourhood)
        self.config_text = await asyncio.to_thread(self._write)
        argv = self._plan.line.daemon(multiuser=self._plan.choices.sm_sharing, config_path=self._plan.config_path)
        try:
            daemon = await Daemon.start(argv, self._environ)
        except OSError as error:
            raise CannotStart(configfile.cause(error)) from error
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

    def socket_exists(self) -> bool:
        """
        Tell whether the control socket is there. Blocks.
        """
        return (Path(self._plan.line.pipe_dir) / SOCKET).is_socket()

    async def kill_servers(self) -> None:
        """
        Kill the MPS servers, which outlive their control daemon and keep the GPU's state.
        """
        log = structlog.get_logger()
        try:
            found = await asyncio.to_thread(self._neighbourhood.servers)
        except OSError as error:
            log.error("servers_not_found", error=configfile.cause(error))  # noqa: TRY400  says enough
            return
        refused = strays.kill(found)
        if found:
            log.warning("servers_killed", pids=found, refused=refused)

    def _write(self) -> str | None:
        text = None
        if self._plan.config_path:
            text = controlconfig.render(controlconfig.sections(self._major(), self._plan.choices))
            path = Path(self._plan.config_path)
            # A disk may take long to say that a write is safe, and most starts write what is there already.
            if configfile.difference(path, text):
                configfile.write(path, text)
        remove_socket(self._plan.line.pipe_dir)
        return text


def remove_socket(pipe_dir: str) -> None:
    """
    Remove the socket of a daemon that is gone, since its existence is what containers go by.

    Raises:
        FileUnavailable: the file system refuses.
    """
    path = Path(pipe_dir) / SOCKET
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise FileUnavailable("remove", str(path), configfile.cause(error)) from error


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
    remove_socket(pipe_dir)
