"""
One connection of a plugin to its runtime, from RegisterPlugin to the end.

While the runtime keeps us waiting, for its accept loop or for the lock under which it synchronises, the connection is
kept: a graceful stop elsewhere on the node can hold that lock for minutes, and a second connection would only queue
behind the first.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

import attrs
from google.protobuf.internal import api_implementation

from nri_aio import lifecycle, methods, routes
from nri_aio.errors import (
    Disconnected,
    Misuse,
    NriError,
    ProtocolViolation,
    Rejected,
    Unreachable,
    excerpt,
)
from nri_aio.lifecycle import Event, State
from nri_aio.pb import nri_pb2 as pb
from nri_aio.plugin import Configuration, Plugin
from nri_aio.registration import Registration
from nri_aio.serving import Server
from nri_aio.session import Request, Role, Session
from nri_aio.wire import Reply, Wire

DEFAULT_SOCKET = "/var/run/nri/nri.sock"

CONNECT_TIMEOUT = 5.0
"""Seconds; a unix socket connects at once or its queue is full."""

REGISTRATION_TIMEOUT = 5.0
"""Seconds we give the runtime to handle RegisterPlugin, once it got to it."""

UPDATE_TIMEOUT = 10.0
"""Seconds; an unsolicited update waits for the runtime's node-wide lock, and the runtime sets no limit itself."""

CLOSE_TIMEOUT = 1.0
"""Seconds the last bytes and the cancelled handlers get when we close."""

_NAME = re.compile(r"[A-Za-z0-9_.+-]+")
_INDEX = re.compile(r"[0-9]{2}")


@attrs.frozen
class Statistics:
    """What went over a connection so far."""

    requests: Mapping[str, int]
    """By method."""
    refusals: int
    """Requests answered with an error, meant or not."""
    bytes_received: int
    bytes_sent: int


class Connection:
    """One connection; make it with `open`, then `run` it, best inside `async with`."""

    def __init__(self, plugin: Plugin) -> None:
        session = Session(Role.PLUGIN)
        self._plugin = plugin
        self._registration = Registration(plugin, reject=self._end, activated=self._activated)
        self._wire = Wire(session, on_request=self._serve, on_end=self._lost)
        self._server = Server(
            session=session,
            routes=routes.build(plugin, self._registration),
            send=self._wire.send,
            report=self._report,
        )
        self._was_active = False
        self._ended = asyncio.Event()
        self._error: NriError | None = None

    @classmethod
    async def open(
        cls,
        plugin: Plugin,
        *,
        name: str,
        index: str,
        socket_path: str = DEFAULT_SOCKET,
        sock: socket.socket | None = None,
    ) -> Self:
        """
        Connect and send RegisterPlugin; what follows happens while the event loop runs, `run` waits for its end.

        Args:
            plugin: Whose handlers to call.
            name: The plugin's name, of letters, digits and "_.+-".
            index: Two digits, "00" to "99": plugins are called in this order.
            socket_path: The runtime's NRI socket.
            sock: A connected socket instead, for a plugin that the runtime launched.

        Raises:
            Unreachable: Nobody listens.
            Misuse: Name or index are of the wrong form, or protobuf is too slow to keep the runtime's limits.
        """
        _require_upb(api_implementation.Type())
        _require_form("name", name, _NAME, "letters, digits and any of _.+-")
        _require_form("index", index, _INDEX, 'two digits, "00" to "99"')
        connection = cls(plugin)
        await connection._connect(socket_path, sock)
        connection._register(name, index)
        return connection

    @property
    def state(self) -> State:
        """Where in its life the connection is."""
        return self._registration.state

    @property
    def was_active(self) -> bool:
        """Whether the connection is active or was before it ended."""
        return self._was_active

    @property
    def configuration(self) -> Configuration | None:
        """What was agreed on; None before Configure."""
        return self._registration.configuration

    def statistics(self) -> Statistics:
        """Count what went over the connection so far."""
        return Statistics(
            requests=dict(self._server.requests),
            refusals=self._server.refusals,
            bytes_received=self._wire.bytes_received,
            bytes_sent=self._wire.bytes_sent,
        )

    async def run(self) -> None:
        """
        Wait until the connection ends; return if it was closed with `aclose`.

        Raises:
            Disconnected: The runtime closed the connection, or went away.
            Rejected: It closed the connection in a way that says it does not take us.
            ProtocolViolation: What is at the other end is no runtime.
        """
        await self._ended.wait()
        if self._error:
            raise self._error

    async def update_containers(
        self,
        updates: Sequence[pb.ContainerUpdate],
        *,
        timeout: float = UPDATE_TIMEOUT,  # noqa: ASYNC109 - it is sent to the runtime, too
    ) -> tuple[pb.ContainerUpdate, ...]:
        """
        Change resources of running containers; never from a handler, where the runtime's lock is already taken.

        Returns:
            The updates that failed, as far as the runtime says; known runtimes raise CallFailed instead.

        Raises:
            Misuse: Called from a handler, or before the connection is active.
            CallFailed: Some update failed; send one per call to learn which.
            CallTimedOut: No answer in time.
            Disconnected: The connection ended meanwhile.
        """
        if asyncio.current_task() in self._server.tasks:
            raise Misuse("update_containers called from a handler would wait for the lock its own request holds")
        if self.state is not State.ACTIVE:
            raise Misuse(f"update_containers called while {self.state.value}")
        request = pb.UpdateContainersRequest(update=updates).SerializeToString()
        payload = await self._wire.call(methods.RUNTIME_SERVICE, "UpdateContainers", request, timeout=timeout)
        if payload is None:
            raise Disconnected("closed during UpdateContainers", State.ACTIVE.value)
        return tuple(pb.UpdateContainersResponse.FromString(payload).failed)

    async def aclose(self) -> None:
        """Close now: handlers that still wait are cancelled, their requests stay unanswered; more calls do nothing."""
        self._end(None)
        others = self._server.tasks - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=CLOSE_TIMEOUT)
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self._wire.closed.wait()
        except TimeoutError:
            # The runtime does not read; what it has not read it will not miss.
            self._wire.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _connect(self, socket_path: str, sock: socket.socket | None) -> None:
        path = None if sock else socket_path
        address = f"descriptor {sock.fileno()}" if sock else socket_path
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                await asyncio.get_running_loop().create_unix_connection(lambda: self._wire, path, sock=sock)
        except TimeoutError as error:
            raise Unreachable(address, f"not connected within {CONNECT_TIMEOUT:g} s") from error
        except OSError as error:
            raise Unreachable(address, error.strerror or str(error)) from error

    def _register(self, name: str, index: str) -> None:
        self._registration.advance(Event.OPENED)
        request = pb.RegisterPluginRequest(plugin_name=name, plugin_idx=index).SerializeToString()
        nano = int(REGISTRATION_TIMEOUT * 1e9)
        reply = self._wire.begin_call(methods.RUNTIME_SERVICE, "RegisterPlugin", request, timeout_nano=nano)
        reply.add_done_callback(self._registered)

    def _registered(self, reply: Reply) -> None:
        response = None if reply.cancelled() else reply.result()
        if response is None or self.state is State.CLOSED:
            return
        if response.code:
            self._end(Rejected(excerpt(response.message)))
        else:
            self._registration.advance(Event.ACCEPTED)

    def _serve(self, request: Request, arrived: float) -> None:
        self._server.serve(request, arrived)
        if request.method == "Configure" and self.configuration:
            self._server.default_timeout = self.configuration.request_timeout

    def _activated(self) -> None:
        self._was_active = True
        try:
            self._plugin.synchronized()
        except Exception as error:  # noqa: BLE001 - the runtime has its answer; a hook must not end the connection
            self._report("synchronized", error)

    def _report(self, method: str, error: Exception) -> None:
        try:
            self._plugin.handler_failed(method, error)
        except Exception as failure:  # noqa: BLE001 - raised here it would end the connection
            context = {"message": f"handler_failed raised for {method}", "exception": failure}
            asyncio.get_running_loop().call_exception_handler(context)

    def _lost(self, reason: Exception | None) -> None:
        if isinstance(reason, ProtocolViolation):
            self._end(reason)
            return
        text = str(reason) if reason else "closed by the runtime"
        hint = lifecycle.describe_end(self.state)
        self._end(Rejected(text, hint) if hint else Disconnected(text, self.state.value))

    def _end(self, error: NriError | None) -> None:
        if self.state is State.CLOSED:
            return
        self._registration.advance(Event.CLOSED)
        self._error = error
        self._server.close()
        self._wire.close()
        self._ended.set()


def _require_upb(implementation: str) -> None:
    if implementation != "upb":
        raise Misuse(
            f"protobuf runs its {implementation!r} implementation, accepted is 'upb': any other needs seconds for a "
            "node's state and misses the runtime's limit"
        )


def _require_form(key: str, value: str, form: re.Pattern[str], accepted: str) -> None:
    if not form.fullmatch(value):
        raise Misuse(f"plugin {key} {excerpt(value)}: accepted are {accepted}")
