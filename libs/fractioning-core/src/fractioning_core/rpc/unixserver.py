"""
A gRPC server on a unix socket that only root may use.

File permission is all the authentication there is, so the socket has mode 0600 before anybody can connect, and its
directory, which may be mounted into a container on purpose, holds nothing else.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Self

from grpclib.server import Server

from fractioning_core.rpc.errors import SocketUnusable

if TYPE_CHECKING:
    from grpclib._typing import IServable

SOCKET_MODE = 0o600
DIRECTORY_MODE = 0o755
_BACKLOG = 16


class UnixServer:
    """
    Serves while entered.

    Args:
        path: Where the socket is made; a stale one there is replaced, one in use is not.
        services: What is served.
    """

    def __init__(self, path: Path, services: Collection[IServable]) -> None:
        self._path = path
        self._services = services
        self._server: Server | None = None
        self._inode = 0

    async def __aenter__(self) -> Self:
        """
        Make the socket and listen.

        Raises:
            SocketUnusable: something is in the way; the text says what.
        """
        try:
            sock = _bind(self._path)
            self._inode = self._path.stat().st_ino
        except OSError as error:
            raise SocketUnusable(str(self._path), error.strerror or str(error)) from error
        self._server = Server(self._services)
        await self._server.start(sock=sock)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """
        Stop listening, end what is being answered, and remove the socket.
        """
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        await server.wait_closed()
        try:
            if self._path.stat().st_ino == self._inode:
                self._path.unlink()
        except FileNotFoundError:
            return


def _bind(path: Path) -> socket.socket:
    """
    Make a socket that does not listen yet, so that nobody can connect before its mode is right.
    """
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(DIRECTORY_MODE)
    _remove_stale(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        sock.bind(str(path))
        path.chmod(SOCKET_MODE)
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        # A path that is too long has no errno, only words.
        raise SocketUnusable(str(path), error.strerror or str(error)) from error
    return sock


def _remove_stale(path: Path) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise SocketUnusable(str(path), "there is a file that is no socket; remove it or choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        if probe.connect_ex(str(path)) == 0:
            raise SocketUnusable(str(path), "another process serves on it already")
    path.unlink()
