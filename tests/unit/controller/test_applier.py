from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import attrs
import pytest
from controller.actions import (
    Action,
    AddFinalizer,
    ApplyDaemonSet,
    EmitEvent,
    Plan,
    RemoveNodeCondition,
    SetNodeCondition,
    WriteStatus,
)
from controller.applier import NODES_AT_ONCE, Applier
from controller.configreading import CONFIGS, ConfigReading
from controller.guard import GuardedApi
from controller.latest import Latest
from controller.memory import Applied, Memory
from controller.metrics import Metrics
from controller.nodesource import NODES
from controller.report import Report
from controller.sources import DAEMONSETS
from controller.world import NodeCondition
from controller.writes import FIELD_MANAGER, Writes
from fractioning_core import resource
from fractioning_core.errors import FractioningError
from fractioning_core.kube import errors
from fractioning_core.kube.eventbook import ObjectReference
from fractioning_core.kube.nodes import Nodes
from fractioning_core.kube.objects import Objects
from fractioning_core.kube.transport import Request
from fractioning_core.testing.cluster import FakeCluster
from prometheus_client import CollectorRegistry

pytestmark = pytest.mark.looptime

NAMESPACE = "gpu-fractioning"
OURS = DAEMONSETS.within(NAMESPACE)
TRUE = NodeCondition("True", "AllDaemonsReady", "", "2026-11-01T12:00:00Z")
MANIFEST = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "gpu-fractioning-mpsd", "ownerReferences": []},
    "spec": {},
}
APPLY = ApplyDaemonSet("mpsd", MANIFEST, "hash")
STATUS = WriteStatus((), 1)


@attrs.define
class Told:
    """
    Hears events.
    """

    events: list[tuple[str, str, str]] = attrs.field(factory=list)
    regarding: list[ObjectReference] = attrs.field(factory=list)

    def emit(self, regarding: ObjectReference, type: str, reason: str, message: str) -> None:  # noqa: A002 - its name
        """
        Hear one.
        """
        self.regarding.append(regarding)
        self.events.append((type, reason, message))


@attrs.define
class Scene:
    """
    A cluster with a resource and some nodes.
    """

    cluster: FakeCluster = attrs.field(factory=FakeCluster)
    told: Told = attrs.field(factory=Told)
    latest: Latest = attrs.field(factory=Latest)
    registry: CollectorRegistry = attrs.field(factory=CollectorRegistry)
    may_write: bool = True
    applier: Applier | None = None

    def __attrs_post_init__(self) -> None:
        self.cluster.put(CONFIGS, {"metadata": {"name": "default"}, "spec": {"nodeSelector": {}}})
        for number in range(40):
            self.cluster.put(NODES, {"metadata": {"name": f"node-{number}"}})

    def config(self) -> ConfigReading:
        """
        Read the resource.
        """
        return ConfigReading.from_manifest(self.cluster.get(CONFIGS, "default") or {})

    async def apply(self, *actions: Action) -> Report:
        """
        Carry out a plan.
        """
        api = GuardedApi(self.cluster, may_write=lambda: self.may_write)
        writes = Writes(
            Objects(api, field_manager=FIELD_MANAGER),
            nodes=Nodes(api, field_manager=FIELD_MANAGER),
            namespace=NAMESPACE,
            utcnow=lambda: datetime.now(UTC),
        )
        if self.applier is None:
            self.applier = Applier(writes, recorder=self.told, latest=self.latest, metrics=Metrics(self.registry))
        return await self.applier.apply(Plan(actions, Memory()), self.config())

    def refuse(self, word: str, error: FractioningError) -> None:
        """
        Let requests fail whose path has a word in it.
        """
        self.cluster.refuse = lambda request: error if word in request.path else None


@pytest.fixture
async def scene() -> Scene:
    return Scene()


def forbidden(request: str) -> errors.Forbidden:
    return errors.Forbidden(request, 403, "no right")


class TestApply:
    """
    Carrying out what was planned.
    """

    async def test_order(self, scene: Scene) -> None:
        """
        Actions are done in order.
        """
        await scene.apply(APPLY, STATUS, RemoveNodeCondition("node-0"), RemoveNodeCondition("node-1"))

        assert [
            OURS.item_path("gpu-fractioning-mpsd"),
            CONFIGS.subresource("default", "status"),
            NODES.subresource("node-0", "status"),
            NODES.subresource("node-1", "status"),
        ] == [request.path for request in scene.cluster.asked]

    async def test_memory(self, scene: Scene) -> None:
        """
        How a DaemonSet was left is remembered.
        """
        report = await scene.apply(APPLY)

        assert Report(Memory(daemonsets={"mpsd": Applied("uid-42", 1, "hash")})) == report

    async def test_event(self, scene: Scene) -> None:
        """
        An event is about the resource, UID included.
        """
        await scene.apply(EmitEvent("Normal", "Ready", "well"))

        assert (
            [("Normal", "Ready", "well")],
            [ObjectReference(resource.API_VERSION, resource.KIND, "default", uid="uid-1")],
        ) == (scene.told.events, scene.told.regarding)

    async def test_written_resource(self, scene: Scene) -> None:
        """
        Until it is read again, the resource counts as it was written.
        """
        before = scene.config()
        added = AddFinalizer(("ours",), NAMESPACE, before.config.resource_version)
        await scene.apply(added, WriteStatus((), 7))
        latest = scene.latest.of(before)

        assert (("ours",), 7) == ((latest.config.finalizers, latest.config.observed_generation) if latest else None)

    async def test_nodes_in_parallel(self, scene: Scene) -> None:
        """
        Nodes are written some at a time.
        """
        scene.cluster.delay_seconds = 0.1
        await scene.apply(*(SetNodeCondition(f"node-{number}", TRUE) for number in range(40)))

        assert pytest.approx(0.1 * 40 / NODES_AT_ONCE) == asyncio.get_running_loop().time()

    async def test_counted(self, scene: Scene) -> None:
        """
        Each write is counted by what it is about and what became of it.
        """
        scene.refuse("nodes/node-1/", forbidden("r"))
        await scene.apply(STATUS, SetNodeCondition("node-0", TRUE), SetNodeCondition("node-1", TRUE))
        value = scene.registry.get_sample_value
        name = "gpu_fractioning_controller_api_writes_total"

        assert (1.0, 1.0, 1.0) == (
            value(name, {"kind": "status", "result": "ok"}),
            value(name, {"kind": "node_condition", "result": "ok"}),
            value(name, {"kind": "node_condition", "result": "error"}),
        )


class TestManyNodes:
    """
    What happens where nodes are many and the server is slow.
    """

    async def test_cut(self, scene: Scene) -> None:
        """
        Two seconds after it was begun nothing of a plan is begun any more on nodes; what was is ended.
        """
        scene.cluster.delay_seconds = 0.9
        started = asyncio.get_running_loop().time()
        report = await scene.apply(*(SetNodeCondition(f"node-{number}", TRUE) for number in range(40)))
        took = asyncio.get_running_loop().time() - started

        assert (True, 24, 0) == (report.is_cut, report.on_nodes, report.failures)
        assert pytest.approx(2.7) == took

    async def test_whole(self, scene: Scene) -> None:
        """
        What is done within that time is done whole.
        """
        scene.cluster.delay_seconds = 0.3
        report = await scene.apply(*(SetNodeCondition(f"node-{number}", TRUE) for number in range(40)))

        assert (False, 40) == (report.is_cut, report.on_nodes)

    async def test_refused_last(self, scene: Scene) -> None:
        """
        Nodes that could not be written on come last the next time, so that they do not take up the time of all.
        """
        scene.cluster.delay_seconds = 2.0
        scene.cluster.refuse = lambda request: forbidden("PATCH n") if "/node-" in request.path else None
        actions = [SetNodeCondition(f"node-{number}", TRUE) for number in range(20)]
        asked = []
        for _ in range(3):
            scene.cluster.asked.clear()
            await scene.apply(*actions)
            asked.append([request.path.split("/")[-2] for request in scene.cluster.asked])

        assert [
            [f"node-{number}" for number in range(8)],
            [f"node-{number}" for number in range(8, 16)],
            [f"node-{number}" for number in range(16, 20)] + [f"node-{number}" for number in range(4)],
        ] == asked


class TestFailures:
    """
    What happens when a write fails.
    """

    async def test_others_go_on(self, scene: Scene) -> None:
        """
        What comes after a failure is done all the same; one event tells of all failures of a kind.
        """
        scene.refuse("nodes/node-1", forbidden("PATCH node-1"))
        report = await scene.apply(*(SetNodeCondition(f"node-{number}", TRUE) for number in range(20)), STATUS)
        text = "PATCH node-1: 403 from the API server: no right"

        assert (11, 20, 1) == (report.failures, report.on_nodes, len(scene.cluster.asked) - 20)
        assert [
            ("Warning", "ReconcileError", f"patching node conditions: {text}; {text}; {text}; and 8 more")
        ] == scene.told.events

    async def test_status(self, scene: Scene) -> None:
        """
        A status that cannot be written is told as such.
        """
        scene.refuse("/status", forbidden("PATCH status"))
        await scene.apply(STATUS)

        assert [
            ("Warning", "ReconcileError", "unable to update status: PATCH status: 403 from the API server: no right")
        ] == scene.told.events

    async def test_daemonset(self, scene: Scene) -> None:
        """
        Of a DaemonSet that cannot be applied the memory tells, and through it the next plan.
        """
        scene.refuse("daemonsets", forbidden("PATCH mpsd"))
        report = await scene.apply(APPLY)

        told = "PATCH mpsd: 403 from the API server: no right"
        assert (Memory(errors={"mpsd": told}), 1, [], (f"mpsd: {told}",)) == (
            report.memory,
            report.failures,
            scene.told.events,
            report.problems,
        )

    async def test_other_version(self, scene: Scene) -> None:
        """
        A resource that somebody else has just written is tried again, and nothing is told of it.
        """
        report = await scene.apply(AddFinalizer(("ours",), NAMESPACE, "0"))

        assert (1, [], ()) == (report.failures, scene.told.events, report.problems)

    async def test_patience(self, scene: Scene) -> None:
        """
        The longest wait that the server asks for is reported.
        """

        def refuse(request: Request) -> FractioningError:
            return errors.of_code(str(request), 429, "slow down", retry_after="7" if "node-1" in request.path else "3")

        scene.cluster.refuse = refuse
        report = await scene.apply(SetNodeCondition("node-1", TRUE), STATUS)

        assert 7.0 == report.retry_after_seconds

    async def test_stop(self, scene: Scene) -> None:
        """
        When writing is not allowed any more, nothing that comes later is tried, nor told of.
        """

        def refuse(_: Request) -> FractioningError | None:
            scene.may_write = False
            return None

        scene.cluster.refuse = refuse
        report = await scene.apply(STATUS, APPLY, SetNodeCondition("node-1", TRUE), EmitEvent("Normal", "r", "m"))

        assert (True, 0, 1, []) == (report.is_stopped, report.failures, len(scene.cluster.asked), scene.told.events)
