"""
A runtime's end of one connection in the hands of a test, for what no well-behaved runtime does.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from nri_aio import methods
from nri_aio.errors import Disconnected
from nri_aio.session import Event, Response, Role, Session

SCRIPT_TIMEOUT = 5.0
"""Seconds a script may go on after the test; it should have ended with it."""


class Script:
    """The end of the connection: `reader` and `writer` move bytes, `session` knows what they mean."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.session = Session(Role.RUNTIME)
        self.reader = reader
        self.writer = writer
        self._events: list[Event] = []

    async def next_event(self) -> Event:
        """
        Wait for what the plugin sends next.

        Raises:
            Disconnected: The plugin closed.
        """
        while not self._events:
            data = await self.reader.read(65536)
            if not data:
                raise Disconnected("closed by the plugin", "following a script")
            self._events += self.session.receive(data)
        return self._events.pop(0)

    async def ask(self, method: str, payload: bytes = b"") -> Response:
        """Call the plugin and wait for its answer; what it sends before that is dropped."""
        service, timeout_nano = methods.PLUGIN_SERVICE, 2_000_000_000
        _, data = self.session.call(service=service, method=method, payload=payload, timeout_nano=timeout_nano)
        self.writer.write(data)
        while not isinstance(event := await self.next_event(), Response):
            pass
        return event


@contextlib.asynccontextmanager
async def scripted(socket_path: str, script: Callable[[Script], Awaitable[None]]) -> AsyncIterator[None]:
    """
    Listen, and serve one connection by a script.

    What the script raises is raised here, an assertion for one.
    """
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await script(Script(reader, writer))
        except Exception as error:  # noqa: BLE001 - handed to the test
            done.set_exception(error)
        else:
            done.set_result(None)
        finally:
            writer.close()

    server = await asyncio.start_unix_server(serve, socket_path)
    try:
        yield
        async with asyncio.timeout(SCRIPT_TIMEOUT):
            await done
    finally:
        server.close()
