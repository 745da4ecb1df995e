# ruff: noqa: D102 - what a handler means stands at the base class
from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import nri_aio
import pytest
from nri_aio import Call, ChangeRequest, Configuration, Connection, Plugin, Refused, State, methods
from nri_aio.errors import (
    CallFailed,
    Disconnected,
    Rejected,
)
from nri_aio.pb import nri_pb2 as pb
from nri_aio.testing import FakeRuntime, Script, scripted

POD = pb.PodSandbox(id="p1", name="pod")
CONTAINER = pb.Container(id="c1", pod_sandbox_id="p1", name="main")
ENV = pb.CreateContainerResponse(adjust=pb.ContainerAdjustment(env=[pb.KeyValue(key="A", value="1")]))

# What containerd 2.1.9 and a plugin "proto" with index "10" said to each other, byte for byte.
REGISTER = bytes.fromhex(
    "000000020000004b000000410000000101000a1c6e72692e706b672e6170692e7631616c706861312e52756e74696d65"
    "120e5265676973746572506c7567696e1a0b0a0570726f746f120231302080e497d012"
)
CONFIGURE = bytes.fromhex(
    "000000010000005b000000510000000101000a1b6e72692e706b672e6170692e7631616c706861312e506c7567696e1209436f6e666967757265"
    "1a21120a636f6e7461696e6572641a0d322e312e392b756e6b6e6f776e20882728d00f209f95d5b907"
)
CONFIGURE_ANSWER = bytes.fromhex("000000010000000f00000005000000010200120310ff0f")
SYNCHRONIZE = bytes.fromhex(
    "000000010000003a000000300000000301000a1b6e72692e706b672e6170692e7631616c706861312e506c7567696e"
    "120b53796e6368726f6e697a65209c9fd1b907"
)
SYNCHRONIZE_ANSWER = bytes.fromhex("000000010000000a00000000000000030200")
REGISTER_ANSWER = bytes.fromhex("000000020000000a00000000000000010200")


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


class Everything(Recorder):
    """A plugin that subscribes to all there is."""

    def create_container(self, request: pb.CreateContainerRequest, call: Call) -> None:
        self.seen.append("create_container")

    def update_container(self, request: pb.UpdateContainerRequest, call: Call) -> None:
        self.seen.append("update_container")

    def stop_container(self, request: pb.StopContainerRequest, call: Call) -> None:
        self.seen.append(f"stop_container {request.pod.id} {request.container.id}")

    def validate_container_adjustment(self, request: pb.ValidateContainerAdjustmentRequest, call: Call) -> None:
        self.seen.append(f"validate {[env.key for env in request.adjust.env]}")

    def update_pod_sandbox(self, request: pb.UpdatePodSandboxRequest, call: Call) -> None:
        self.seen.append("update_pod_sandbox")

    def run_pod_sandbox(self, request: ChangeRequest, call: Call) -> None:
        self.note("run_pod_sandbox", request)

    def post_update_pod_sandbox(self, request: ChangeRequest, call: Call) -> None:
        self.note("post_update_pod_sandbox", request)

    def stop_pod_sandbox(self, request: ChangeRequest, call: Call) -> None:
        self.note("stop_pod_sandbox", request)

    def remove_pod_sandbox(self, request: ChangeRequest, call: Call) -> None:
        self.note("remove_pod_sandbox", request)

    def post_create_container(self, request: ChangeRequest, call: Call) -> None:
        self.note("post_create_container", request)

    def start_container(self, request: ChangeRequest, call: Call) -> None:
        self.note("start_container", request)

    def post_start_container(self, request: ChangeRequest, call: Call) -> None:
        self.note("post_start_container", request)

    def post_update_container(self, request: ChangeRequest, call: Call) -> None:
        self.note("post_update_container", request)

    def remove_container(self, request: ChangeRequest, call: Call) -> None:
        self.note("remove_container", request)

    def note(self, handler: str, request: ChangeRequest) -> None:
        self.seen.append(f"{handler} {request.pod.id} {request.container.id}")


class TestRegistration:
    """From RegisterPlugin to active."""

    async def test_golden_exchange(self, socket_path: str) -> None:
        """The plugin's bytes equal those of Go's stub, and the answer to RegisterPlugin may come last."""
        plugin = Everything()

        async def script(script: Script) -> None:
            assert REGISTER == await script.reader.readexactly(len(REGISTER))
            script.writer.write(CONFIGURE + SYNCHRONIZE)
            expected = CONFIGURE_ANSWER + SYNCHRONIZE_ANSWER
            assert expected == await script.reader.readexactly(len(expected))
            script.writer.write(REGISTER_ANSWER)

        async with (
            scripted(socket_path, script),
            await Connection.open(plugin, name="proto", index="10", socket_path=socket_path) as connection,
        ):
            await plugin.active.wait()

            assert State.ACTIVE is connection.state

    @pytest.mark.parametrize(
        ("version", "nri", "expected"),
        [
            pytest.param("2.3.7", (0, 12), 0x3FFF, id="containerd 2.3"),
            pytest.param("2.2.1", (0, 11), 0x3FFF, id="containerd 2.2"),
            pytest.param("2.1.9+unknown", (0, 8), 0x07FF, id="containerd 2.1"),
            pytest.param("1.7.24~ds1", (0, 6), 0x07FF, id="containerd 1.7"),
        ],
    )
    async def test_subscription_fits_the_runtime(
        self, socket_path: str, version: str, nri: tuple[int, int], expected: int
    ) -> None:
        """Everything that is overridden is subscribed to, as far as the runtime has it."""
        async with (
            FakeRuntime(socket_path, version=version, nri=nri) as runtime,
            runtime.connected(Everything()),
        ):
            assert expected == runtime.plugins[0].events

    async def test_only_overridden_handlers_are_subscribed(self, socket_path: str) -> None:
        """Events nobody handles cost the node nothing."""
        async with FakeRuntime(socket_path) as runtime, runtime.connected(Creator()):
            assert 0x0008 == runtime.plugins[0].events

    async def test_plugin_without_handlers_does_not_get_everything(self, socket_path: str) -> None:
        """An empty subscription would mean all events; the rarest one stands for none."""
        async with FakeRuntime(socket_path) as runtime, runtime.connected(Recorder()):
            assert 0x0100 == runtime.plugins[0].events

    async def test_configuration(self, socket_path: str) -> None:
        """The plugin learns what was agreed on, in seconds."""
        plugin = Creator()
        async with FakeRuntime(socket_path, request_timeout=3) as runtime, runtime.connected(plugin) as connection:
            expected = Configuration("containerd", "2.3.7", "v0.12.0", 3.0, 5.0, "", 0x0008)

            assert (expected, expected) == (plugin.configuration, connection.configuration)

    async def test_old_runtime_tells_no_limits(self, socket_path: str) -> None:
        """Before NRI 0.7 the limits are the runtimes' defaults."""
        async with (
            FakeRuntime(socket_path, version="1.7.24", nri=(0, 6)) as runtime,
            runtime.connected(Creator()) as connection,
        ):
            assert connection.configuration
            assert (2.0, 5.0) == (
                connection.configuration.request_timeout,
                connection.configuration.registration_timeout,
            )

    async def test_unknown_events_get_the_plugin_rejected(self, socket_path: str) -> None:
        """A connection closed right after Configure is a rejection, with a hint at where the reason stands."""
        async with FakeRuntime(socket_path, version="2.3.7", nri=(0, 8)) as runtime:
            async with await Connection.open(
                Everything(), name="example", index="10", socket_path=socket_path
            ) as connection:
                with pytest.raises(Rejected, match="closed right after Configure: its log has the reason"):
                    await connection.run()

            assert ["plugin 10-example not admitted: invalid plugin events: 0x3fff"] == runtime.log

    async def test_refused_registration(self, socket_path: str) -> None:
        """A status in answer to RegisterPlugin is a rejection with the runtime's text."""

        async def script(script: Script) -> None:
            request = await script.next_event()
            script.writer.write(script.session.refuse(request.stream, 2, "plugins are off"))

        async with (
            scripted(socket_path, script),
            await Connection.open(Plugin(), name="example", index="10", socket_path=socket_path) as connection,
        ):
            with pytest.raises(Rejected, match="plugins are off"):
                await connection.run()

    async def test_end_before_configure_is_a_disconnection(self, socket_path: str) -> None:
        """A runtime that goes before it looked at us did not refuse us."""

        async def script(script: Script) -> None:
            await script.next_event()

        async with (
            scripted(socket_path, script),
            await Connection.open(Plugin(), name="example", index="10", socket_path=socket_path) as connection,
        ):
            with pytest.raises(Disconnected) as caught:
                await connection.run()

        assert "NRI connection lost while registering: closed by the runtime" == str(caught.value)

    async def test_failing_configure_gives_the_connection_up(self, socket_path: str) -> None:
        """A plugin that cannot live with the runtime refuses Configure and is not connected any more."""

        class Picky(Recorder):
            def configure(self, configuration: Configuration) -> None:
                raise Refused("not this runtime")

        async with (
            FakeRuntime(socket_path) as runtime,
            await Connection.open(Picky(), name="example", index="10", socket_path=socket_path) as connection,
        ):
            with pytest.raises(Rejected, match="we refused Configure: not this runtime"):
                await connection.run()

            assert [] == runtime.plugins

    @pytest.mark.looptime
    async def test_slow_configure(self, socket_path: str) -> None:
        """Configure may be handled by a coroutine."""

        class Slow(Creator):
            async def configure(self, configuration: Configuration) -> None:  # type: ignore[override] # both forms are accepted
                await asyncio.sleep(1)
                super().configure(configuration)

        async with FakeRuntime(socket_path) as runtime, runtime.connected(Slow()):
            assert 0x0008 == runtime.plugins[0].events

    @pytest.mark.looptime
    async def test_waiting_runtime_keeps_the_connection(self, socket_path: str) -> None:
        """A Synchronize that comes minutes after Configure finds the same connection."""
        async with FakeRuntime(socket_path) as runtime:
            await runtime.lock.acquire()
            async with await Connection.open(
                Recorder(), name="example", index="10", socket_path=socket_path
            ) as connection:
                await asyncio.sleep(300)
                waiting = connection.state
                runtime.lock.release()
                await runtime.wait_plugins()

                assert (State.CONFIGURED, 1) == (waiting, len(runtime._peers))


class TestSynchronize:
    """Taking over the node's state."""

    async def test_parts_are_put_together(self, socket_path: str) -> None:
        """Containers may come before their pods and parts may be empty; the handler is called once, with all."""
        state = [
            pb.SynchronizeRequest(containers=[CONTAINER]),
            pb.SynchronizeRequest(),
            pb.SynchronizeRequest(pods=[POD]),
        ]
        plugin = Recorder()
        async with FakeRuntime(socket_path, state=state) as runtime, runtime.connected(plugin):
            assert ["sync ['p1'] ['c1']", "synchronized"] == plugin.seen

    async def test_thousands_of_empty_parts(self, socket_path: str) -> None:
        """A runtime that sends empty parts in a loop is answered as long as it likes."""
        state = [pb.SynchronizeRequest()] * 3000
        plugin = Recorder()
        async with FakeRuntime(socket_path, state=state, request_timeout=30) as runtime, runtime.connected(plugin):
            assert ["sync [] []", "synchronized"] == plugin.seen

    async def test_500_containers(self, socket_path: str) -> None:
        """A big node's state of 2 MB in one message gets through."""
        container = pb.Container(env=["SERVICE_HOST=10.0.0.1"] * 170)
        part = pb.SynchronizeRequest(containers=[container] * 500)
        plugin = Recorder()
        async with FakeRuntime(socket_path, state=[part]) as runtime, runtime.connected(plugin):
            assert (2, True) == (len(plugin.seen), part.ByteSize() > 1_900_000)

    async def test_updates_reach_the_runtime(self, socket_path: str) -> None:
        """What the handler returns is asked for in the answer to the last part."""

        class Updater(Plugin):
            def synchronize(
                self, pods: Sequence[pb.PodSandbox], containers: Sequence[pb.Container]
            ) -> list[pb.ContainerUpdate]:
                return [pb.ContainerUpdate(container_id=container.id) for container in containers]

        state = [pb.SynchronizeRequest(containers=[CONTAINER]), pb.SynchronizeRequest()]
        async with FakeRuntime(socket_path, state=state) as runtime, runtime.connected(Updater()):
            assert [pb.ContainerUpdate(container_id="c1")] == runtime.updates

    @pytest.mark.looptime
    async def test_late_answer_gives_the_connection_up(self, socket_path: str) -> None:
        """A plugin that cannot take the state over in time is not active, and says so itself."""

        class Slow(Recorder):
            async def synchronize(  # type: ignore[override] # both forms are accepted
                self, pods: Sequence[pb.PodSandbox], containers: Sequence[pb.Container]
            ) -> None:
                await asyncio.sleep(60)

        plugin = Slow()
        async with (
            FakeRuntime(socket_path) as runtime,
            await Connection.open(plugin, name="example", index="10", socket_path=socket_path) as connection,
        ):
            with pytest.raises(Rejected, match=r"we refused Synchronize: Synchronize was not handled within 1\.5 s"):
                await connection.run()

            assert ([], []) == (plugin.seen, runtime.plugins)

    async def test_failing_hook_after_it_does_not_end_the_connection(self, socket_path: str) -> None:
        """The runtime counts on us by then: a fault in `synchronized` is reported and no more."""

        class Clumsy(Creator):
            def synchronized(self) -> None:
                raise ValueError("oops")

        plugin = Clumsy()
        async with FakeRuntime(socket_path) as runtime, runtime.connected(plugin) as connection:
            creation = await runtime.create_container(POD, CONTAINER)

            assert (State.ACTIVE, ("10-example",)) == (connection.state, creation.answered)
            assert ["synchronized"] == [method for method, _ in plugin.failures]

    async def test_second_synchronize_is_refused(self, socket_path: str) -> None:
        """Steps out of order are answered with an error and change nothing."""
        plugin = Creator()
        async with FakeRuntime(socket_path) as runtime, runtime.connected(plugin) as connection:
            wire = runtime.plugins[0].wire
            with pytest.raises(CallFailed) as caught:
                await wire.call(methods.PLUGIN_SERVICE, "Synchronize", b"", timeout=1)

            assert (9, State.ACTIVE) == (caught.value.code, connection.state)
            assert ("10-example",) == (await runtime.create_container(POD, CONTAINER)).answered
