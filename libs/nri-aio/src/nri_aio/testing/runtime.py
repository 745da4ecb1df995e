"""
A runtime to test plugins against, in the test's own event loop: no containers, but containerd's manners.

It speaks both roles of the protocol over a real unix socket: registers one plugin at a time, refuses a subscription it
does not know, sends its state in parts, holds one lock during every request, and treats a plugin that is late or gone
as containerd does: the container is created without it, unless a validator was lost with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator, Coroutine, Sequence
from types import TracebackType
from typing import Self, TypeVar

import attrs
from google.protobuf.message import Message

from nri_aio import methods
from nri_aio.connection import Connection
from nri_aio.errors import CallFailed, NriError
from nri_aio.pb import nri_pb2 as pb
from nri_aio.plugin import Plugin
from nri_aio.session import Request
from nri_aio.testing.claims import Claims
from nri_aio.testing.peer import Lost, Peer
from nri_aio.wire import Wire

M = TypeVar("M", bound=Message)

OLD_EVENTS = 0x07FF
"""What runtimes before NRI 0.10 accept."""

NEW_EVENTS = 0x3FFF
"""What they accept since."""


class CreationFailed(NriError):  # noqa: N818 - says what happened
    """The container was not created; the text is what the kubelet would show."""


@attrs.frozen
class Creation:
    """A created container: what its plugins changed, together, and which of them answered."""

    adjust: pb.ContainerAdjustment
    updates: tuple[pb.ContainerUpdate, ...]
    answered: tuple[str, ...]


class FakeRuntime:
    """
    A runtime; `start` it or use it inside `async with`.

    Args:
        socket_path: Where to listen.
        name: The runtime's name in Configure.
        version: Its version there.
        nri: The version of NRI: decides on events, on the form of requests and on what Configure holds.
        request_timeout: Seconds a plugin has to answer, and for all parts of Synchronize together.
        registration_timeout: Seconds from a connection to RegisterPlugin.
        state: The node's state in the parts to send; their `more` is set here.
    """

    def __init__(
        self,
        socket_path: str | pathlib.Path,
        *,
        name: str = "containerd",
        version: str = "2.3.7",
        nri: tuple[int, int] = (0, 12),
        request_timeout: float = 2.0,
        registration_timeout: float = 5.0,
        state: Sequence[pb.SynchronizeRequest] = (pb.SynchronizeRequest(),),
    ) -> None:
        self.socket_path = pathlib.Path(socket_path)
        self.state = list(state)
        """What the next plugin is told in Synchronize."""
        self.plugins: list[Peer] = []
        """The active ones, in the order in which they are called."""
        self.updates: list[pb.ContainerUpdate] = []
        """What plugins asked for by themselves or in answer to Synchronize."""
        self.log: list[str] = []
        """What a runtime would log about plugins."""
        self.lock = asyncio.Lock()
        """Held during every request; hold it to play a long stop on the same node."""
        self._name, self._version, self._nri = name, version, nri
        self._request_timeout = request_timeout
        self._registration_timeout = registration_timeout
        self._valid_events = NEW_EVENTS if nri >= (0, 10) else OLD_EVENTS
        self._peers: list[Peer] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.Lock()
        self._changed = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.get_running_loop().create_unix_server(self._accept, str(self.socket_path))

    async def stop(self) -> None:
        """Close every connection without a word, as runtimes do, and take the socket away."""
        if self._server:
            self._server.close()
        self.socket_path.unlink(missing_ok=True)
        for task in self._tasks:
            task.cancel()
        for peer in self._peers:
            peer.wire.close()
        for peer in self._peers:
            await peer.wire.closed.wait()
        self._peers.clear()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    async def wait_plugins(self, count: int = 1) -> None:
        """Wait until this many plugins are active, no more and no fewer."""
        while len(self.plugins) != count:
            self._changed.clear()
            await self._changed.wait()

    @contextlib.asynccontextmanager
    async def connected(self, plugin: Plugin, *, name: str = "example", index: str = "10") -> AsyncIterator[Connection]:
        """Connect a plugin, wait until it is active, and close it in the end."""
        count = len(self.plugins) + 1
        path = str(self.socket_path)
        async with await Connection.open(plugin, name=name, index=index, socket_path=path) as connection:
            await self.wait_plugins(count)
            yield connection

    async def create_container(self, pod: pb.PodSandbox, container: pb.Container) -> Creation:
        """
        Create a container: ask the plugins for adjustments, then the validators for their consent.

        Raises:
            CreationFailed: A plugin refused, two of them conflict, or a validator was lost.
        """
        async with self.lock:
            plugins = list(self.plugins)
            try:
                creation = await self._adjust(plugins, pod, container)
                await self._validate(plugins, pod, container, creation)
            except CreationFailed:
                await self._stop(pod, container)
                await self._change("RemoveContainer", pod, container)
                raise
            return creation

    async def stop_container(self, pod: pb.PodSandbox, container: pb.Container) -> None:
        """Say that a container stopped."""
        async with self.lock:
            await self._stop(pod, container)

    async def change(self, method: str, pod: pb.PodSandbox, container: pb.Container | None = None) -> None:
        """Say what happened, by one of the names in `methods.CHANGES`; in the form of this runtime's version."""
        async with self.lock:
            await self._change(method, pod, container)

    async def _adjust(self, plugins: Sequence[Peer], pod: pb.PodSandbox, container: pb.Container) -> Creation:
        request = pb.CreateContainerRequest(pod=pod, container=container)
        total, claims, answered = pb.CreateContainerResponse(), Claims(), []
        for peer in plugins:
            if not peer.has(pb.CREATE_CONTAINER):
                continue
            try:
                reply = await self._ask(peer, "CreateContainer", request, pb.CreateContainerResponse)
            except Lost:
                continue
            except CallFailed as error:
                raise CreationFailed(f"failed to get NRI adjustment for container: {error.message}") from error
            if conflict := claims.add(peer.name, reply.adjust):
                raise CreationFailed(str(conflict))
            total.MergeFrom(reply)
            answered.append(peer.name)
        return Creation(total.adjust, tuple(total.update), tuple(answered))

    async def _validate(
        self, plugins: Sequence[Peer], pod: pb.PodSandbox, container: pb.Container, creation: Creation
    ) -> None:
        instances = [pb.PluginInstance(index=peer.name[:2], name=peer.name[3:]) for peer in plugins]
        request = pb.ValidateContainerAdjustmentRequest(
            pod=pod, container=container, adjust=creation.adjust, update=creation.updates, plugins=instances
        )
        for peer in plugins:
            if not peer.has(pb.VALIDATE_CONTAINER_ADJUSTMENT):
                continue
            try:
                reply = await self._ask(
                    peer, "ValidateContainerAdjustment", request, pb.ValidateContainerAdjustmentResponse
                )
            except (Lost, CallFailed) as error:
                raise CreationFailed(f"validator plugin {peer.name} failed: {error}") from error
            if reply.reject:
                raise CreationFailed(f'validator "{peer.name}" rejected container adjustment, reason: {reply.reason}')

    async def _stop(self, pod: pb.PodSandbox, container: pb.Container) -> None:
        await self._tell(pb.STOP_CONTAINER, "StopContainer", pb.StopContainerRequest(pod=pod, container=container))

    async def _change(self, method: str, pod: pb.PodSandbox, container: pb.Container | None) -> None:
        event = next(row.event for row in methods.CHANGES if row.name == method)
        if self._nri >= (0, 12):
            await self._tell(event, method, pb.LifecycleRequest(pod=pod, container=container))
        else:
            state_change = pb.StateChangeEvent(event=pb.Event.Name(event), pod=pod, container=container)
            await self._tell(event, "StateChange", state_change)

    async def _tell(self, event: int, method: str, request: Message) -> None:
        """Call every subscriber; what they answer is logged, as for all events after the fact."""
        for peer in list(self.plugins):
            if peer.has(event):
                try:
                    await self._ask(peer, method, request, pb.Empty)
                except (Lost, CallFailed) as error:
                    self.log.append(f"{method} of {peer.name}: {error}")

    async def _ask(self, peer: Peer, method: str, request: Message, reply: type[M]) -> M:
        return await peer.ask(method, request, reply, seconds=self._request_timeout)

    def _accept(self) -> Wire:
        peer = Peer(on_update=self._begin_update, on_end=self._forget)
        self._peers.append(peer)
        self._spawn(self._admit(peer))
        return peer.wire

    async def _admit(self, peer: Peer) -> None:
        """Take a plugin through its registration, one plugin at a time."""
        async with self._accepting:
            try:
                async with asyncio.timeout(self._registration_timeout):
                    await peer.registered
                await self._configure(peer)
                async with self.lock, asyncio.timeout(self._request_timeout):
                    await self._synchronize(peer)
            except (CallFailed, Lost, TimeoutError) as error:
                self.log.append(f"plugin {peer.name} not admitted: {str(error) or 'timed out'}")
                peer.wire.close()

    async def _configure(self, peer: Peer) -> None:
        request = pb.ConfigureRequest(runtime_name=self._name, runtime_version=self._version)
        if self._nri >= (0, 7):
            request.registration_timeout = int(self._registration_timeout * 1000)
            request.request_timeout = int(self._request_timeout * 1000)
        if self._nri >= (0, 12):
            request.NRI_version = f"v{self._nri[0]}.{self._nri[1]}.0"
        reply = await self._ask(peer, "Configure", request, pb.ConfigureResponse)
        peer.events = reply.events or self._valid_events
        if peer.events & ~self._valid_events:
            raise Lost(f"invalid plugin events: {peer.events:#x}")

    async def _synchronize(self, peer: Peer) -> None:
        for position, part in enumerate(self.state, start=1):
            request = pb.SynchronizeRequest()
            request.CopyFrom(part)
            request.more = position < len(self.state)
            reply = await self._ask(peer, "Synchronize", request, pb.SynchronizeResponse)
            if reply.more != request.more or (reply.more and reply.update):
                raise Lost("plugin does not handle split sync requests")
            self.updates.extend(reply.update)
        self.plugins.append(peer)
        self.plugins.sort(key=lambda plugin: plugin.name[:2])
        self._changed.set()

    def _begin_update(self, peer: Peer, request: Request) -> None:
        self._spawn(self._update(peer, request))

    async def _update(self, peer: Peer, request: Request) -> None:
        # The runtime's own work on containers waits for the lock as everybody's does.
        async with self.lock:
            self.updates.extend(pb.UpdateContainersRequest.FromString(request.payload).update)
        peer.wire.send(peer.session.answer(request.stream, b""))

    def _forget(self, peer: Peer) -> None:
        if peer in self.plugins:
            self.plugins.remove(peer)
        self._changed.set()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
