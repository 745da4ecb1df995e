# ruff: noqa: D102 - what a handler means stands at the base class
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from nri_aio import Call, ChangeRequest, Plugin, Refused, methods
from nri_aio.errors import CallFailed
from nri_aio.pb import nri_pb2 as pb
from nri_aio.session import Request, Role, Session
from nri_aio.testing import CreationFailed, FakeRuntime
from nri_aio.wire import Wire

POD = pb.PodSandbox(id="p1")
CONTAINER = pb.Container(id="c1", pod_sandbox_id="p1")
CREATE = 0x0008
VALIDATE = 0x2000


class Setter(Plugin):
    """Sets one environment variable."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys

    def create_container(self, request: pb.CreateContainerRequest, call: Call) -> pb.CreateContainerResponse:
        env = [pb.KeyValue(key=key, value="1") for key in self.keys]
        return pb.CreateContainerResponse(adjust=pb.ContainerAdjustment(env=env))


class RawPlugin:
    """A plugin without manners: it registers, answers as told, and is silent otherwise."""

    def __init__(self, *, events: int, more: bool = False, index: str = "10") -> None:
        self.session = Session(Role.PLUGIN)
        self.wire = Wire(self.session, on_request=self.serve, on_end=lambda _: None)
        self.answers = {
            "Configure": pb.ConfigureResponse(events=events),
            "Synchronize": pb.SynchronizeResponse(more=more),
        }
        self.index = index

    def serve(self, request: Request, _arrived: float) -> None:
        """Answer what there is an answer for."""
        answer = self.answers.get(request.method)
        if answer is not None:
            self.wire.send(self.session.answer(request.stream, answer.SerializeToString()))

    async def register(self) -> None:
        """Send RegisterPlugin and wait for its answer."""
        request = pb.RegisterPluginRequest(plugin_name="raw", plugin_idx=self.index).SerializeToString()
        await self.wire.call(methods.RUNTIME_SERVICE, "RegisterPlugin", request, timeout=60)


@asynccontextmanager
async def dialled(plugin: RawPlugin, socket_path: str) -> AsyncIterator[None]:
    """Connect a raw plugin."""
    await asyncio.get_running_loop().create_unix_connection(lambda: plugin.wire, socket_path)
    try:
        yield
    finally:
        plugin.wire.close()
        await plugin.wire.closed.wait()


@pytest.mark.looptime
class TestAdmission:
    """Who becomes a plugin."""

    @pytest.mark.parametrize("index", ["", "1", "abc", "100"])
    async def test_bad_index_is_refused(self, socket_path: str, index: str) -> None:
        """An index that is not two digits is answered with an error and the end."""
        plugin = RawPlugin(events=CREATE, index=index)
        async with FakeRuntime(socket_path), dialled(plugin, socket_path):
            with pytest.raises(CallFailed, match="invalid plugin index"):
                await plugin.register()

            await plugin.wire.closed.wait()

    async def test_silent_client_is_dropped_after_five_seconds(self, socket_path: str) -> None:
        """Who does not register in time is closed, and meanwhile holds everybody up."""
        loop = asyncio.get_running_loop()
        silent = RawPlugin(events=CREATE)
        async with FakeRuntime(socket_path) as runtime, dialled(silent, socket_path):
            started = loop.time()
            async with runtime.connected(Setter("A")):
                waited = loop.time() - started

            assert pytest.approx(5, abs=0.1) == waited
            assert ["plugin  not admitted: timed out"] == runtime.log

    async def test_part_answered_as_the_last_is_refused(self, socket_path: str) -> None:
        """A plugin that does not repeat `more` cannot handle parts."""
        plugin = RawPlugin(events=CREATE)
        async with (
            FakeRuntime(socket_path, state=[pb.SynchronizeRequest()] * 2) as runtime,
            dialled(plugin, socket_path),
        ):
            await plugin.register()
            await plugin.wire.closed.wait()

            assert ["plugin 10-raw not admitted: plugin does not handle split sync requests"] == runtime.log

    async def test_limit_spans_all_parts(self, socket_path: str) -> None:
        """A Synchronize that is not complete in time drops the plugin."""
        plugin = RawPlugin(events=CREATE)
        del plugin.answers["Synchronize"]
        async with FakeRuntime(socket_path) as runtime, dialled(plugin, socket_path):
            await plugin.register()
            await plugin.wire.closed.wait()

            assert [] == runtime.plugins

    async def test_empty_subscription_means_everything(self, socket_path: str) -> None:
        """No events stands for all events."""
        plugin = RawPlugin(events=0)
        async with FakeRuntime(socket_path) as runtime, dialled(plugin, socket_path):
            await plugin.register()
            await runtime.wait_plugins()

            assert 0x3FFF == runtime.plugins[0].events


@pytest.mark.looptime
class TestCreateContainer:
    """What becomes of a container."""

    async def test_plugins_are_called_by_index(self, socket_path: str) -> None:
        """The lower index has its say first, whoever came first; their changes add up."""
        async with (
            FakeRuntime(socket_path) as runtime,
            runtime.connected(Setter("B"), name="late", index="20"),
            runtime.connected(Setter("A"), name="early", index="05"),
        ):
            creation = await runtime.create_container(POD, CONTAINER)

            assert ("05-early", "20-late") == creation.answered
            assert ["A", "B"] == [variable.key for variable in creation.adjust.env]

    async def test_late_plugin_is_skipped_and_dropped(self, socket_path: str) -> None:
        """Without an answer in time the container is created unadjusted: this is what a plugin must never do."""
        plugin = RawPlugin(events=CREATE)
        async with FakeRuntime(socket_path) as runtime, dialled(plugin, socket_path):
            await plugin.register()
            await runtime.wait_plugins()
            creation = await runtime.create_container(POD, CONTAINER)

            assert ((), []) == (creation.answered, runtime.plugins)
            await plugin.wire.closed.wait()

    async def test_late_validator_fails_the_creation(self, socket_path: str) -> None:
        """A validator lost on the way is an error, even if it was lost while adjusting."""
        plugin = RawPlugin(events=CREATE | VALIDATE)
        async with FakeRuntime(socket_path) as runtime, dialled(plugin, socket_path):
            await plugin.register()
            await runtime.wait_plugins()
            with pytest.raises(CreationFailed, match="validator plugin 10-raw failed: ttrpc: closed"):
                await runtime.create_container(POD, CONTAINER)

    async def test_rejection(self, socket_path: str) -> None:
        """A validator's no fails the creation with its reason."""

        class Guard(Plugin):
            def validate_container_adjustment(
                self, request: pb.ValidateContainerAdjustmentRequest, call: Call
            ) -> pb.ValidateContainerAdjustmentResponse:
                return pb.ValidateContainerAdjustmentResponse(reject=True, reason="no limit")

        async with FakeRuntime(socket_path) as runtime, runtime.connected(Guard()):
            with pytest.raises(CreationFailed, match='"10-example" rejected container adjustment, reason: no limit'):
                await runtime.create_container(POD, CONTAINER)

    async def test_two_instances_conflict(self, socket_path: str) -> None:
        """Two plugins that set the same variable fail every creation."""
        async with (
            FakeRuntime(socket_path) as runtime,
            runtime.connected(Setter("A"), name="one"),
            runtime.connected(Setter("A"), name="two"),
        ):
            with pytest.raises(CreationFailed, match='plugins "10-one" and "10-two" both tried to set env A'):
                await runtime.create_container(POD, CONTAINER)

    async def test_failed_creation_is_taken_back(self, socket_path: str) -> None:
        """After a failure every subscriber gets StopContainer and RemoveContainer for the container."""

        class Witness(Plugin):
            def __init__(self) -> None:
                self.seen: list[str] = []

            def create_container(self, request: pb.CreateContainerRequest, call: Call) -> None:
                raise Refused("no")

            def stop_container(self, request: pb.StopContainerRequest, call: Call) -> None:
                self.seen.append(f"stop {request.container.id}")

            def remove_container(self, request: ChangeRequest, call: Call) -> None:
                self.seen.append(f"remove {request.container.id}")

        witness = Witness()
        async with FakeRuntime(socket_path) as runtime, runtime.connected(witness):
            with pytest.raises(CreationFailed):
                await runtime.create_container(POD, CONTAINER)

            assert ["stop c1", "remove c1"] == witness.seen

    async def test_one_request_at_a_time(self, socket_path: str) -> None:
        """Requests of a node are served one after another: the slow plugin slows all."""

        class Slow(Plugin):
            async def create_container(self, request: pb.CreateContainerRequest, call: Call) -> None:
                await asyncio.sleep(0.2)

        loop = asyncio.get_running_loop()
        async with FakeRuntime(socket_path) as runtime, runtime.connected(Slow()):
            started = loop.time()
            async with asyncio.TaskGroup() as group:
                for _ in range(4):
                    group.create_task(runtime.create_container(POD, CONTAINER))

            assert pytest.approx(0.8, abs=0.05) == loop.time() - started

    async def test_failure_of_a_change_is_logged_only(self, socket_path: str) -> None:
        """What already happened cannot be refused."""

        class Grumpy(Plugin):
            def remove_container(self, request: ChangeRequest, call: Call) -> None:
                raise Refused("keep it")

        async with FakeRuntime(socket_path) as runtime, runtime.connected(Grumpy()):
            await runtime.change("RemoveContainer", POD, CONTAINER)

            assert ["RemoveContainer of 10-example: NRI call RemoveContainer failed with status 2: 'keep it'"] == (
                runtime.log
            )
