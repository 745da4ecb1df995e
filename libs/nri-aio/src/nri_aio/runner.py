"""
Keeps a plugin connected, the way its start asks for.

A plugin that the runtime launched finds a connected socket in NRI_PLUGIN_SOCKET; it cannot connect again, so the end of
that connection is its end. Any other dials the runtime's socket, again and again: sockets come and go with runtimes.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import socket
from collections.abc import MutableMapping

from nri_aio.backoff import Backoff
from nri_aio.connection import DEFAULT_SOCKET, Connection
from nri_aio.errors import Disconnected, Misuse, ProtocolViolation, Unavailable, Unreachable, excerpt
from nri_aio.plugin import Plugin

SOCKET_VARIABLE = "NRI_PLUGIN_SOCKET"

_DESCRIPTOR = re.compile(r"[0-9]{1,9}")

_SOON = (Unreachable, Disconnected)
"""What a restart of the runtime looks like; any other end will probably repeat itself."""


async def run(
    plugin: Plugin,
    *,
    name: str,
    index: str,
    socket_path: str = DEFAULT_SOCKET,
    environment: MutableMapping[str, str] = os.environ,
) -> None:
    """
    Serve until cancelled.

    A plugin launched by the runtime returns when the runtime closes the connection; any other reconnects for ever, and
    tells `Plugin.disconnected` before each wait.

    Args:
        plugin: Whose handlers to call.
        name: See `Connection.open`; a launched plugin's file name takes precedence at the runtime.
        index: As above.
        socket_path: The runtime's NRI socket.
        environment: Where NRI_PLUGIN_SOCKET is looked up; it is removed, so that no child inherits it.

    Raises:
        Misuse: A setting is of the wrong form.
    """
    descriptor = environment.pop(SOCKET_VARIABLE, None)
    if descriptor is None:
        await _reconnect(plugin, name=name, index=index, socket_path=socket_path)
    else:
        await _serve_launched(plugin, name=name, index=index, sock=_adopt(descriptor))


async def _serve_launched(plugin: Plugin, *, name: str, index: str, sock: socket.socket) -> None:
    async with await Connection.open(plugin, name=name, index=index, sock=sock) as connection:
        try:
            await connection.run()
        except (Unavailable, ProtocolViolation) as error:
            plugin.disconnected(error, None)


async def _reconnect(plugin: Plugin, *, name: str, index: str, socket_path: str) -> None:
    backoff = Backoff()
    while True:
        try:
            async with await Connection.open(plugin, name=name, index=index, socket_path=socket_path) as connection:
                await _serve(connection, backoff)
        except (Unavailable, ProtocolViolation) as error:
            seconds = backoff.advance(random.random(), slowly=not isinstance(error, _SOON))  # noqa: S311 - no secret
            plugin.disconnected(error, seconds)
            await asyncio.sleep(seconds)


async def _serve(connection: Connection, backoff: Backoff) -> None:
    try:
        await connection.run()
    finally:
        if connection.was_active:
            backoff.reset()


def _adopt(descriptor: str) -> socket.socket:
    """Make a socket of the inherited descriptor, for this process alone."""
    if not _DESCRIPTOR.fullmatch(descriptor):
        raise Misuse(f"{SOCKET_VARIABLE}={excerpt(descriptor)}: accepted is the number of a connected socket")
    try:
        sock = socket.socket(fileno=int(descriptor))
    except OSError as error:
        raise Misuse(f"{SOCKET_VARIABLE}={excerpt(descriptor)}: {error.strerror}") from error
    sock.set_inheritable(False)
    return sock
