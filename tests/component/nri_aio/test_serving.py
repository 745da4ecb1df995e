# ruff: noqa: D102 - what a handler means stands at the base class
from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import nri_aio
import pytest
from nri_aio import Call, ChangeRequest, Configuration, Plugin, Refused, State, methods
from nri_aio.errors import (
    CallFailed,
)
from nri_aio.pb import nri_pb2 as pb
from nri_aio.testing import CreationFailed, FakeRuntime

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


class TestRequests:
    """Answering the runtime."""

    async def test_adjustment_reaches_the_runtime(self, socket_path: str) -> None:
        """What the handler returns is applied."""
        async with FakeRuntime(socket_path) as runtime, runtime.connected(Creator()):
            assert ENV.adjust == (await runtime.create_container(POD, CONTAINER)).adjust

    async def test_none_is_no_change(self, socket_path: str) -> None:
        """None answers with an empty message."""
        async with FakeRuntime(socket_path) as runtime, runtime.connected(Creator(lambda *_: None)):
            creation = await runtime.create_container(POD, CONTAINER)

            assert (pb.ContainerAdjustment(), ("10-example",)) == (creation.adjust, creation.answered)

    @pytest.mark.parametrize("nri", [pytest.param((0, 12), id="own names"), pytest.param((0, 8), id="StateChange")])
    @pytest.mark.parametrize("row", [pytest.param(row, id=row.handler) for row in methods.CHANGES if row.bit & 0x07FF])
    async def test_both_forms_of_a_change_reach_its_handler(
        self, socket_path: str, row: methods.Method, nri: tuple[int, int]
    ) -> None:
        """A change comes by its own name or as StateChange, to the same handler."""
        plugin = Everything()
        version = "2.3.7" if nri == (0, 12) else "2.1.9"
        async with FakeRuntime(socket_path, version=version, nri=nri) as runtime, runtime.connected(plugin):
            await runtime.change(row.name, POD, CONTAINER)

            assert [f"{row.handler} p1 c1"] == plugin.seen[2:]

    async def test_post_update_pod_sandbox(self, socket_path: str) -> None:
        """The event that only new runtimes have comes by its name."""
        plugin = Everything()
        async with FakeRuntime(socket_path) as runtime, runtime.connected(plugin):
            await runtime.change("PostUpdatePodSandbox", POD)

            assert ["post_update_pod_sandbox p1 "] == plugin.seen[2:]

    async def test_stop_container(self, socket_path: str) -> None:
        """StopContainer has one form in all versions."""
        plugin = Everything()
        async with FakeRuntime(socket_path) as runtime, runtime.connected(plugin):
            await runtime.stop_container(POD, CONTAINER)

            assert ["stop_container p1 c1"] == plugin.seen[2:]

    async def test_unknown_change_is_accepted(self, socket_path: str) -> None:
        """A StateChange of a later version must not fail a pod."""
        async with FakeRuntime(socket_path) as runtime, runtime.connected(Creator()):
            event = pb.StateChangeEvent(event=99, pod=POD)  # type: ignore[arg-type] # a number of a later version
            wire = runtime.plugins[0].wire

            answer = await wire.call(methods.PLUGIN_SERVICE, "StateChange", event.SerializeToString(), timeout=1)

            assert b"" == answer

    @pytest.mark.parametrize(
        ("service", "method"),
        [
            pytest.param(methods.PLUGIN_SERVICE, "Frobnicate", id="method"),
            pytest.param("nri.pkg.api.v1alpha1.HostFunctions", "CreateContainer", id="service"),
        ],
    )
    async def test_unknown_method_is_unimplemented(self, socket_path: str, service: str, method: str) -> None:
        """What we do not know is answered with the status that says so."""
        async with FakeRuntime(socket_path) as runtime, runtime.connected(Creator()):
            with pytest.raises(CallFailed) as caught:
                await runtime.plugins[0].wire.call(service, method, b"", timeout=1)

            assert (12, f"unknown method '{method}' of service '{service}'") == (
                caught.value.code,
                caught.value.message,
            )

    async def test_undecodable_request_is_answered(self, socket_path: str) -> None:
        """A request that is no message of its kind is refused, and the next one is served."""
        plugin = Creator()
        async with FakeRuntime(socket_path) as runtime, runtime.connected(plugin):
            with pytest.raises(CallFailed) as caught:
                await runtime.plugins[0].wire.call(methods.PLUGIN_SERVICE, "CreateContainer", b"\xff\xff", timeout=1)

            assert (3, "undecodable CreateContainer request") == (caught.value.code, caught.value.message)
            assert ("10-example",) == (await runtime.create_container(POD, CONTAINER)).answered

    async def test_shutdown(self, socket_path: str) -> None:
        """Shutdown, should a runtime ever say it, reaches its handler."""

        class Farewell(Recorder):
            def shutdown(self) -> None:
                self.seen.append("shutdown")

        plugin = Farewell()
        async with FakeRuntime(socket_path) as runtime, runtime.connected(plugin):
            await runtime.plugins[0].wire.call(methods.PLUGIN_SERVICE, "Shutdown", b"", timeout=1)

            assert ["shutdown"] == plugin.seen[2:]

    async def test_validation_sees_the_adjustment(self, socket_path: str) -> None:
        """A validator is asked after the adjustments, where the runtime has validation."""
        validator = Everything()
        async with (
            FakeRuntime(socket_path) as runtime,
            runtime.connected(Creator()),
            runtime.connected(validator, index="20"),
        ):
            await runtime.create_container(POD, CONTAINER)

            assert ["create_container", "validate ['A']"] == validator.seen[2:]

    async def test_statistics(self, socket_path: str) -> None:
        """Requests are counted by method, refusals and bytes besides."""
        async with FakeRuntime(socket_path) as runtime, runtime.connected(Creator()) as connection:
            await runtime.create_container(POD, CONTAINER)
            counted = connection.statistics()

            assert ({"Configure": 1, "Synchronize": 1, "CreateContainer": 1}, 0) == (
                counted.requests,
                counted.refusals,
            )
            assert (runtime.plugins[0].wire.bytes_sent, runtime.plugins[0].wire.bytes_received) == (
                counted.bytes_received,
                counted.bytes_sent,
            )


class TestFailures:
    """Handlers that do not answer as they should."""

    async def test_refused(self, socket_path: str) -> None:
        """The text of a refusal is what the kubelet reads; it is no fault, so it is not reported."""

        def refuse(*_: object) -> None:
            raise Refused("pod wants too much")

        plugin = Creator(refuse)
        async with FakeRuntime(socket_path) as runtime, runtime.connected(plugin):
            with pytest.raises(CreationFailed, match="failed to get NRI adjustment for container: pod wants too much"):
                await runtime.create_container(POD, CONTAINER)

            assert [] == plugin.failures

    async def test_other_exception(self, socket_path: str) -> None:
        """Any other exception refuses too, tells the runtime only its type, and goes to the hook."""

        def stumble(*_: object) -> None:
            raise ValueError("password=hunter2")

        plugin = Creator(stumble)
        async with FakeRuntime(socket_path) as runtime, runtime.connected(plugin):
            with pytest.raises(CreationFailed) as caught:
                await runtime.create_container(POD, CONTAINER)

            assert "failed to get NRI adjustment for container: CreateContainer handler failed: ValueError" == str(
                caught.value
            )
            assert [("CreateContainer", "password=hunter2")] == [(m, str(e)) for m, e in plugin.failures]

    async def test_failing_hook_does_not_end_the_connection(self, socket_path: str) -> None:
        """A hook for failures that fails itself goes to the event loop's handler; the request was answered before."""

        class Hopeless(Creator):
            def handler_failed(self, method: str, error: Exception) -> None:
                raise KeyError(method)

        reported: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        async with FakeRuntime(socket_path) as runtime, runtime.connected(Hopeless(lambda *_: 1)) as connection:  # type: ignore[arg-type] # the fault under test
            with pytest.raises(CreationFailed, match="handler failed: TypeError"):
                await runtime.create_container(POD, CONTAINER)

            assert (State.ACTIVE, ["handler_failed raised for CreateContainer"]) == (
                connection.state,
                [context["message"] for context in reported],
            )

    async def test_answer_of_4_2_mb(self, socket_path: str) -> None:
        """An answer over the wire's limit becomes an error; the connection stays."""
        huge = pb.CreateContainerResponse(adjust=pb.ContainerAdjustment(annotations={"k": "x" * 4_200_000}))
        answers = [huge, ENV]
        async with FakeRuntime(socket_path) as runtime, runtime.connected(Creator(lambda *_: answers.pop(0))):
            with pytest.raises(CreationFailed, match="exceeds the limit of 4194304 bytes"):
                await runtime.create_container(POD, CONTAINER)

            assert ENV.adjust == (await runtime.create_container(POD, CONTAINER)).adjust

    @pytest.mark.looptime
    async def test_coroutine_is_cancelled_at_its_deadline(self, socket_path: str) -> None:
        """At three quarters of the limit a request is refused and its handler cancelled; the connection stays."""
        ended: list[float] = []
        loop = asyncio.get_running_loop()

        async def dawdle(_request: object, call: Call) -> None:
            try:
                await asyncio.sleep(60)
            finally:
                ended.append(loop.time() - call.arrived)

        plugin = Creator(dawdle)
        async with FakeRuntime(socket_path) as runtime, runtime.connected(plugin) as connection:
            with pytest.raises(CreationFailed, match=r"CreateContainer was not handled within 1\.5 s"):
                await runtime.create_container(POD, CONTAINER)
            plugin.answer = lambda *_: ENV

            assert ("10-example",) == (await runtime.create_container(POD, CONTAINER)).answered
            assert State.ACTIVE is connection.state
            assert pytest.approx([1.5], abs=0.01) == ended

    @pytest.mark.looptime
    async def test_coroutine_in_time(self, socket_path: str) -> None:
        """A handler may wait as long as its deadline allows."""

        async def think(*_: object) -> pb.CreateContainerResponse:
            await asyncio.sleep(1.4)
            return ENV

        async with FakeRuntime(socket_path) as runtime, runtime.connected(Creator(think)):
            assert ENV.adjust == (await runtime.create_container(POD, CONTAINER)).adjust

    async def test_coroutine_that_fails(self, socket_path: str) -> None:
        """An exception from a coroutine is an answer like one from a function."""

        async def refuse(*_: object) -> None:
            await asyncio.sleep(0)
            raise Refused("not today")

        async with FakeRuntime(socket_path) as runtime, runtime.connected(Creator(refuse)):
            with pytest.raises(CreationFailed, match="not today"):
                await runtime.create_container(POD, CONTAINER)

    async def test_coroutine_that_cancels_itself(self, socket_path: str) -> None:
        """A handler that ends as cancelled leaves no request without an answer."""

        async def vanish(*_: object) -> None:
            raise asyncio.CancelledError

        async with FakeRuntime(socket_path) as runtime, runtime.connected(Creator(vanish)):
            with pytest.raises(CreationFailed, match="CreateContainer was cancelled"):
                await runtime.create_container(POD, CONTAINER)
