# ruff: noqa: D102 - what a handler means stands at the base class
from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence

import nri_aio
import pytest
from nri_aio import Call, Configuration, Connection, Plugin, State
from nri_aio.errors import (
    CallFailed,
    CallTimedOut,
    Disconnected,
    Misuse,
    ProtocolViolation,
    Unreachable,
)
from nri_aio.pb import nri_pb2 as pb
from nri_aio.testing import CreationFailed, FakeRuntime, Script, scripted

POD = pb.PodSandbox(id="p1", name="pod")
CONTAINER = pb.Container(id="c1", pod_sandbox_id="p1", name="main")
ENV = pb.CreateContainerResponse(adjust=pb.ContainerAdjustment(env=[pb.KeyValue(key="A", value="1")]))


class Recorder(Plugin):
    """A plugin that remembers what it was told."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.failures: list[tuple[str, Exception]] = []
        self.configuration: Configuration | None = None
        self.active = asyncio.Event()

    def configure(self, configuration: Configuration) -> None:
        self.configuration = configuration

    def synchronize(self, pods: Sequence[pb.PodSandbox], containers: Sequence[pb.Container]) -> None:
        self.seen.append(f"sync {[pod.id for pod in pods]} {[container.id for container in containers]}")

    def synchronized(self) -> None:
        self.seen.append("synchronized")
        self.active.set()

    def handler_failed(self, method: str, error: Exception) -> None:
        self.failures.append((method, error))


class Creator(Recorder):
    """A plugin whose answer to a creation is given by the test."""

    def __init__(
        self,
        answer: Callable[[pb.CreateContainerRequest, Call], nri_aio.Reply[pb.CreateContainerResponse]] = lambda *_: ENV,
    ) -> None:
        super().__init__()
        self.answer = answer

    def create_container(
        self, request: pb.CreateContainerRequest, call: Call
    ) -> nri_aio.Reply[pb.CreateContainerResponse]:
        return self.answer(request, call)


class TestOpen:
    """Connecting."""

    async def test_missing_socket_is_unreachable(self, socket_path: str) -> None:
        """A runtime that is not there is an error that names the socket."""
        with pytest.raises(Unreachable) as caught:
            await Connection.open(Plugin(), name="example", index="10", socket_path=socket_path)

        assert f"NRI socket {socket_path}: No such file or directory" == str(caught.value)

    async def test_abandoned_socket_is_unreachable(self, socket_path: str) -> None:
        """A socket file without a listener is the same as none."""
        async with FakeRuntime(socket_path) as runtime:
            runtime.socket_path.rename(socket_path + ".kept")
        (runtime.socket_path.parent / "nri.sock.kept").rename(socket_path)

        with pytest.raises(Unreachable, match="Connection refused"):
            await Connection.open(Plugin(), name="example", index="10", socket_path=socket_path)

    @pytest.mark.parametrize(
        ("name", "index", "text"),
        [
            pytest.param("example", "5", "plugin index '5': accepted are two digits", id="one digit"),
            pytest.param("example", "100", "plugin index '100': accepted are two digits", id="three digits"),
            pytest.param("example", "²1", "plugin index '²1': accepted are two digits", id="other digits"),
            pytest.param("", "10", "plugin name '': accepted are letters", id="no name"),
            pytest.param("a b", "10", "plugin name 'a b': accepted are letters", id="blank in the name"),
        ],
    )
    async def test_form_is_checked_before_connecting(self, name: str, index: str, text: str) -> None:
        """What every runtime refuses is refused here, with the accepted form."""
        with pytest.raises(Misuse, match=re.escape(text)):
            await Connection.open(Plugin(), name=name, index=index, socket_path="/nowhere")


class TestEnd:
    """How a connection ends."""

    async def test_close_from_here(self, socket_path: str) -> None:
        """`run` returns when the connection was closed by us; closing again does nothing."""
        async with FakeRuntime(socket_path) as runtime, runtime.connected(Creator()) as connection:
            await connection.aclose()
            await connection.aclose()
            await connection.run()
            await runtime.wait_plugins(0)

            assert (State.CLOSED, True) == (connection.state, connection.was_active)

    async def test_runtime_goes(self, socket_path: str) -> None:
        """The end of the socket is the end of the runtime; no farewell comes."""
        async with FakeRuntime(socket_path) as runtime, runtime.connected(Creator()) as connection:
            await runtime.stop()
            with pytest.raises(Disconnected) as caught:
                await connection.run()

        assert ("closed by the runtime", "active") == (caught.value.reason, caught.value.state)

    async def test_runtime_goes_during_a_request(self, socket_path: str) -> None:
        """A handler that waits when the connection ends is cancelled."""
        entered, ended = asyncio.Event(), asyncio.Event()

        async def wait(*_: object) -> None:
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async with FakeRuntime(socket_path) as runtime, runtime.connected(Creator(wait)) as connection:
            async with asyncio.TaskGroup() as group:
                creation = group.create_task(runtime.create_container(POD, CONTAINER))
                await entered.wait()
                await runtime.stop()
                await ended.wait()
                with pytest.raises(Disconnected):
                    await connection.run()

            assert () == creation.result().answered

    async def test_close_during_a_request(self, socket_path: str) -> None:
        """Closing cancels the handler, and the request ends with the connection instead of a late answer."""
        entered = asyncio.Event()

        async def wait(*_: object) -> None:
            entered.set()
            await asyncio.Event().wait()

        async with FakeRuntime(socket_path) as runtime, runtime.connected(Creator(wait)) as connection:
            async with asyncio.TaskGroup() as group:
                creation = group.create_task(runtime.create_container(POD, CONTAINER))
                await entered.wait()
                await connection.aclose()

            assert (set(), ()) == (connection._server.tasks, creation.result().answered)

    @pytest.mark.parametrize(
        "garbage",
        [
            pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", id="another protocol"),
            pytest.param((1).to_bytes(4) + (10).to_bytes(4) + b"\xff" * 10, id="oversized message"),
        ],
    )
    async def test_garbage(self, socket_path: str, garbage: bytes) -> None:
        """A peer that is no runtime is left at once."""

        async def script(script: Script) -> None:
            await script.next_event()
            script.writer.write(garbage)
            assert b"" == await script.reader.read()

        async with scripted(socket_path, script):
            connection = await Connection.open(Plugin(), name="example", index="10", socket_path=socket_path)
            with pytest.raises(ProtocolViolation, match="exceeds the limit"):
                await connection.run()
            await connection.aclose()

    async def test_bad_request_is_answered(self, socket_path: str) -> None:
        """A request with an even stream id is refused by status; the connection stays."""

        async def script(script: Script) -> None:
            await script.next_event()
            script.session._next_stream = 2
            answer = await script.ask("StateChange")
            assert (2, 3, "stream id 2 is not odd and increasing") == (answer.stream, answer.code, answer.message)
            script.session._next_stream = 3
            assert 0 == (await script.ask("StateChange")).code

        async with (
            scripted(socket_path, script),
            await Connection.open(Plugin(), name="example", index="10", socket_path=socket_path) as connection,
        ):
            with pytest.raises(Disconnected, match="while registering"):
                await connection.run()


class TestUpdateContainers:
    """Asking the runtime for changes."""

    async def test_update(self, socket_path: str) -> None:
        """An update is applied, and nothing failed."""
        update = pb.ContainerUpdate(container_id="c1")
        async with FakeRuntime(socket_path) as runtime, runtime.connected(Creator()) as connection:
            failed = await connection.update_containers([update])

            assert ((), [update]) == (failed, runtime.updates)

    async def test_from_a_handler_is_misuse(self, socket_path: str) -> None:
        """A handler that would wait for its own lock is told so, and its request refused."""
        plugin = Creator()
        async with FakeRuntime(socket_path) as runtime, runtime.connected(plugin) as connection:

            async def call_back(*_: object) -> None:
                await connection.update_containers([])

            plugin.answer = call_back
            with pytest.raises(CreationFailed, match="CreateContainer handler failed: Misuse"):
                await runtime.create_container(POD, CONTAINER)

    async def test_before_active_is_misuse(self, socket_path: str) -> None:
        """Only an active plugin may ask."""
        async with (
            FakeRuntime(socket_path),
            await Connection.open(Plugin(), name="example", index="10", socket_path=socket_path) as connection,
        ):
            with pytest.raises(Misuse, match="while registering"):
                await connection.update_containers([])

    @pytest.mark.looptime
    async def test_time_out(self, socket_path: str) -> None:
        """A runtime that keeps its lock is waited for as long as asked."""
        async with FakeRuntime(socket_path) as runtime, runtime.connected(Creator()) as connection:
            async with runtime.lock:
                with pytest.raises(CallTimedOut) as caught:
                    await connection.update_containers([], timeout=3)

            assert "NRI call UpdateContainers was not answered within 3 s" == str(caught.value)

    async def test_refused(self, socket_path: str) -> None:
        """A runtime's error comes as the error of the call."""

        async def script(script: Script) -> None:
            register = await script.next_event()
            script.writer.write(script.session.answer(register.stream, b""))
            await script.ask("Configure", pb.ConfigureRequest(runtime_name="containerd").SerializeToString())
            await script.ask("Synchronize")
            update = await script.next_event()
            script.writer.write(script.session.refuse(update.stream, 2, "NRI update of some containers failed"))
            await script.reader.read()

        plugin = Recorder()
        async with (
            scripted(socket_path, script),
            await Connection.open(plugin, name="example", index="10", socket_path=socket_path) as connection,
        ):
            await plugin.active.wait()
            with pytest.raises(CallFailed) as caught:
                await connection.update_containers([])
            await connection.aclose()

        assert (2, "NRI update of some containers failed") == (caught.value.code, caught.value.message)

    async def test_connection_ends_meanwhile(self, socket_path: str) -> None:
        """A call that loses its connection fails as disconnected."""
        async with FakeRuntime(socket_path) as runtime, runtime.connected(Creator()) as connection:
            async with runtime.lock, asyncio.TaskGroup() as group:
                call = group.create_task(self.update(connection))
                await asyncio.sleep(0)
                await runtime.stop()

            assert "NRI connection lost while active: closed during UpdateContainers" == call.result()

    async def update(self, connection: Connection) -> str:
        """Give the text of the error."""
        with pytest.raises(Disconnected) as caught:
            await connection.update_containers([])
        return str(caught.value)
