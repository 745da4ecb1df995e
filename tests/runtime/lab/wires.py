"""
A wire with faults: stands between a program and a unix socket, and passes bytes on as told.

Everything that goes through is real, from both ends; what a test changes is the wire.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Self

CHUNK_BYTES = 64 * 1024

Mangle = Callable[[bytes], bytes | None]
"""
What becomes of bytes on their way from the server to the client; None cuts the connection.
"""


def untouched(data: bytes) -> bytes:
    """
    Pass everything on.
    """
    return data


class Wire:
    """
    A unix socket that leads to another one.

    Args:
        listen: Where clients connect.
        target: Where their bytes go.
    """

    def __init__(self, listen: Path, target: Path) -> None:
        self.mangle: Mangle = untouched
        self.delay_seconds = 0.0
        self.connections = 0
        self._listen = listen
        self._target = target
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._clients: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._accept, str(self._listen))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        self.cut()

    def cut(self) -> None:
        """
        End every connection, without a word.
        """
        for writer in self._open:
            writer.transport.abort()

    def inject(self, data: bytes) -> None:
        """
        Send every client bytes that the server never sent.
        """
        for writer in self._clients:
            writer.write(data)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            far_reader, far_writer = await asyncio.open_unix_connection(str(self._target))
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, far_writer}
        self._open |= ends
        self._clients.add(writer)
        try:
            async with asyncio.TaskGroup() as group:
                there = group.create_task(self._pass_on(reader, far_writer, mangled=False))
                back = group.create_task(self._pass_on(far_reader, writer, mangled=True))
                # A half-closed connection is of no use to either side.
                await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
                there.cancel()
                back.cancel()
        finally:
            for end in ends:
                end.transport.abort()
            self._open -= ends
            self._clients.discard(writer)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, mangled: bool) -> None:
        try:
            while data := await reader.read(CHUNK_BYTES):
                passed = self.mangle(data) if mangled else data
                if self.delay_seconds:
                    await asyncio.sleep(self.delay_seconds)
                if passed is None:
                    return
                writer.write(passed)
                await writer.drain()
        except OSError:
            return
