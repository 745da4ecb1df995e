"""
Who is compared: fractiond, and a plain Go plugin that injects the same.

Both are told where the sockets are and nothing else, so that each runs as it comes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs
from lab import program, toolchain
from lab.process import Service

# Records lie in memory here as they do on a node, in /var/run; the short name leaves room in a socket's path.
SCRATCH = "/dev/shm"


@attrs.frozen
class Place:
    """
    Where a plugin runs: the runtime's sockets, and a directory for what it writes.
    """

    nri_socket: Path
    cri_socket: Path
    directory: Path

    @property
    def pipe_dir(self) -> Path:
        """
        The MPS directory that containers get.
        """
        return self.directory / "mps"


@attrs.frozen
class Contestant:
    """
    A plugin, and how to start it.
    """

    name: str
    argv: Callable[[Place], list[str | Path]]

    def service(self, place: Place) -> Service:
        """
        Make a process of it, to be entered as a context.
        """
        place.pipe_dir.mkdir(parents=True, exist_ok=True)
        return Service(self.name, self.argv(place), directory=place.directory)


def go_plugin(*, validates: bool) -> Contestant:
    """
    Give the Go plugin; `validates` only where the runtime can ask for it, since that is when fractiond does.
    """
    extra = ["-validate"] if validates else []
    return Contestant("go-plugin", lambda place: [*_peer_argv(place), *extra])


def _peer_argv(place: Place) -> list[str | Path]:
    return [toolchain.bench_program("peer"), "-socket", place.nri_socket, "-pipe-dir", place.pipe_dir]


def _fractiond_argv(place: Place) -> list[str | Path]:
    return [
        program.script("fractiond"),
        f"--socket-path={place.nri_socket}",
        f"--cri-socket={place.cri_socket}",
        f"--map-dir={place.directory / 'map'}",
        f"--pipe-dir={place.pipe_dir}",
        f"--readiness-port={program.free_port()}",
    ]


FRACTIOND = Contestant("fractiond", _fractiond_argv)
