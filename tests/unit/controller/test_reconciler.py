from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import attrs
import pytest
import structlog
from controller.applier import Applier
from controller.configreading import CONFIGS
from controller.guard import GuardedApi
from controller.latest import Latest
from controller.metrics import Metrics, Outcome
from controller.nodesource import NODES
from controller.options import Image, Options
from controller.reconciler import Reconciler, Wakeup, rest_seconds
from controller.sources import CLUSTER_POLICIES, DAEMONSETS, SERVICE_VERSIONS, Sources
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
OPTIONS = Options(NAMESPACE, Image("f"), Image("m"), Image("p"))
ABSENT = (CLUSTER_POLICIES.path, SERVICE_VERSIONS.path)
CONFIG: Mapping[str, Any] = {"metadata": {"name": resource.NAME}, "spec": {"nodeSelector": {"gpu": "yes"}}}


def now() -> float:
    return asyncio.get_running_loop().time()


@attrs.define
class Told:
    """
    Hears events.
    """

    messages: list[str] = attrs.field(factory=list)

    def emit(self, regarding: ObjectReference, type: str, reason: str, message: str) -> None:  # noqa: A002
        """
        Hear one.
        """
        self.messages.append(message)


@attrs.define
class Scene:
    """
    A cluster with a resource, and a controller to run on it.
    """

    cluster: FakeCluster = attrs.field(factory=lambda: FakeCluster(absent=set(ABSENT)))
    told: Told = attrs.field(factory=Told)
    registry: CollectorRegistry = attrs.field(factory=CollectorRegistry)
    """
    Of the last controller.
    """

    attempts: list[float] = attrs.field(factory=list)
    """
    When a DaemonSet was written.
    """

    task: asyncio.Task[None] | None = None
    is_absurd: bool = False
    """
    Whether the clock tells what no plan can work with.
    """

    def __attrs_post_init__(self) -> None:
        self.cluster.put(CONFIGS, CONFIG)
        self.cluster.refuse = self.note

    def note(self, request: Request) -> FractioningError | None:
        """
        Remember attempts.
        """
        if request.verb == "PATCH" and "daemonsets" in request.path:
            self.attempts.append(now())
        return None

    def fail(self, error: FractioningError) -> None:
        """
        Let every DaemonSet fail from now on.
        """

        def refuse(request: Request) -> FractioningError | None:
            self.note(request)
            return error if "daemonsets" in request.path and request.verb == "PATCH" else None

        self.cluster.refuse = refuse

    def utcnow(self) -> datetime:
        """
        Tell the time.
        """
        if self.is_absurd:
            raise ZeroDivisionError
        return datetime.now(UTC)

    def reasons(self) -> set[str]:
        """
        Give what the daemons' conditions have for reasons.
        """
        status = (self.cluster.get(CONFIGS, resource.NAME) or {})["status"]
        return {one["reason"] for one in status["conditions"] if one["type"] in {"FractiondReady", "MpsdReady"}}

    def ready(self) -> tuple[str, str, str] | None:
        """
        Give what the condition Ready says, if there is one.
        """
        status = (self.cluster.get(CONFIGS, resource.NAME) or {}).get("status", {})
        found = [one for one in status.get("conditions", ()) if one["type"] == "Ready"]
        return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else None

    def writes(self) -> int:
        """
        Count the requests that write.
        """
        return sum(request.verb != "GET" for request in self.cluster.asked)

    def passes(self) -> dict[str, int]:
        """
        Count the passes by how they ended, leaving out what never was.
        """
        name = "gpu_fractioning_controller_reconciles_total"
        counts = {one.value: self.registry.get_sample_value(name, {"result": one.value}) or 0 for one in Outcome}
        return {result: int(count) for result, count in counts.items() if count}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Reconciler]:
        """
        Run it.
        """
        self.registry = CollectorRegistry()
        wakeup, latest, metrics = Wakeup(), Latest(), Metrics(self.registry)
        sources = Sources(self.cluster, options=OPTIONS, changed=wakeup.wake, clock=now)
        api = GuardedApi(self.cluster, may_write=lambda: True)
        writes = Writes(
            Objects(api, field_manager=FIELD_MANAGER),
            nodes=Nodes(api, field_manager=FIELD_MANAGER),
            namespace=NAMESPACE,
            utcnow=lambda: datetime.now(UTC),
        )
        reconciler = Reconciler(
            sources,
            applier=Applier(writes, recorder=self.told, latest=latest, metrics=metrics),
            latest=latest,
            wakeup=wakeup,
            metrics=metrics,
            clock=now,
            utcnow=self.utcnow,
        )
        self.task = asyncio.create_task(reconciler.run())
        tasks = [asyncio.create_task(sources.run()), self.task]
        try:
            yield reconciler
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


@pytest.fixture
async def scene() -> Scene:
    return Scene()


class TestPasses:
    """
    When a pass begins.
    """

    async def test_changes_gather(self, scene: Scene) -> None:
        """
        A thousand changes within two seconds are a dozen passes.
        """
        async with scene.running():
            await asyncio.sleep(10)
            before = scene.passes()["done"]
            for number in range(1000):
                scene.cluster.put(NODES, {"metadata": {"name": f"node-{number}"}})
                await asyncio.sleep(0.002)
            await asyncio.sleep(10)

        assert 8 <= scene.passes()["done"] - before <= 12

    async def test_steady(self, scene: Scene) -> None:
        """
        In a steady state that is not well there is a pass every half minute, and it writes nothing.
        """
        labels = {"gpu": "yes", "nvidia.com/gpu.deploy.client": "true"}
        scene.cluster.put(NODES, {"metadata": {"name": "a", "labels": labels}})
        async with scene.running():
            await asyncio.sleep(10)
            before, asked = scene.passes()["done"], len(scene.cluster.asked)
            await asyncio.sleep(300)
            writes = [str(request) for request in scene.cluster.asked[asked:] if request.verb != "GET"]

        assert (10, []) == (scene.passes()["done"] - before, writes)

    async def test_reverted(self, scene: Scene) -> None:
        """
        What somebody changes in a DaemonSet is put right within a second.
        """
        async with scene.running():
            await asyncio.sleep(10)
            found = scene.cluster.get(OURS, "gpu-fractioning-mpsd") or {}
            scene.cluster.put(OURS, {**found, "spec": {**found["spec"], "selector": {}}})
            await asyncio.sleep(1)
            after = scene.cluster.get(OURS, "gpu-fractioning-mpsd") or {}

        assert found["spec"] == after["spec"]

    async def test_stop(self, scene: Scene) -> None:
        """
        It ends at once when it is told to, whatever it waits for.
        """
        async with scene.running() as reconciler:
            await asyncio.sleep(10)
            reconciler.stop()
            await asyncio.sleep(0.5)

            assert scene.task is not None
            assert scene.task.done()


class TestRest:
    """
    What there is between two passes.
    """

    @pytest.mark.parametrize(
        ("planning", "on_nodes", "expected"),
        [
            pytest.param(0.001, False, 0.2, id="changes gather"),
            pytest.param(0.1, False, 0.5, id="a fifth of the time is for planning"),
            pytest.param(1.1, False, 1.0, id="a slow machine waits no longer for that"),
            pytest.param(0.001, True, 1.0, id="news of what was written on nodes comes first"),
        ],
    )
    async def test_seconds(self, planning: float, on_nodes: bool, expected: float) -> None:  # noqa: FBT001
        """
        The longest of its reasons counts.
        """
        assert expected == rest_seconds(planning, on_nodes=on_nodes)


class TestFailures:
    """
    What happens when something does not work.
    """

    async def test_retries(self, scene: Scene) -> None:
        """
        What fails is tried again with growing waits, half a minute at most; the conditions and one event tell of it.
        """
        scene.fail(errors.Forbidden("PATCH d", 403, "no right"))
        async with scene.running():
            await asyncio.sleep(300)

        assert {"ReconcileError"} == scene.reasons()
        assert [f"{name}: PATCH d: 403 from the API server: no right" for name in ("fractiond", "mpsd")] == [
            message for message in scene.told.messages if "403" in message and not message.startswith("Ready")
        ]
        assert 4 <= len({at for at in scene.attempts if at < 20})
        assert 10 <= len(set(scene.attempts)) <= 20

    async def test_recovery(self, scene: Scene) -> None:
        """
        When it works again the conditions say so within the longest wait, even where that changes nothing else.
        """
        async with scene.running():
            await asyncio.sleep(10)
        scene.fail(errors.Forbidden("PATCH d", 403, "no right"))
        async with scene.running():
            await asyncio.sleep(300)
            during = scene.reasons()
            scene.cluster.refuse = scene.note
            await asyncio.sleep(31)

        assert ({"ReconcileError"}, {"NoTargetNodes"}) == (during, scene.reasons())

    async def test_patience(self, scene: Scene) -> None:
        """
        A server that asks to be left alone is, even when something changes.
        """
        scene.fail(errors.of_code("r", 429, "slow down", retry_after="20"))
        async with scene.running():
            await asyncio.sleep(5)
            scene.cluster.put(NODES, {"metadata": {"name": "node-a"}})
            await asyncio.sleep(14)

        assert 1 == len(set(scene.attempts))

    async def test_fault_of_ours(self, scene: Scene) -> None:
        """
        A pass that ends with a fault of ours is logged and told, and tried again; the controller goes on.
        """
        async with scene.running() as reconciler:
            await asyncio.sleep(10)
            scene.is_absurd = True
            with structlog.testing.capture_logs() as lines:
                scene.cluster.put(NODES, {"metadata": {"name": "node-a"}})
                await asyncio.sleep(5)
            during = reconciler.complaint
            scene.is_absurd = False
            await asyncio.sleep(31)

            assert ("a pass ended with ZeroDivisionError", "") == (during, reconciler.complaint)
        assert {"reconcile_crashed"} == {line["event"] for line in lines}

    async def test_unreadable(self, scene: Scene) -> None:
        """
        What we may not read is told in one event at once, after a minute on the resource, and nothing is planned.
        """
        forbidden = errors.Forbidden("GET n", 403, "no right")
        scene.cluster.refuse = lambda request: forbidden if "nodes" in request.path else None
        async with scene.running():
            await asyncio.sleep(30)
            before = scene.ready()
            await asyncio.sleep(70)
            after, writes = scene.ready(), scene.writes()
            await asyncio.sleep(300)

            assert writes == scene.writes()
        text = "cannot watch nodes: GET n: 403 from the API server: no right"
        assert (None, ("Unknown", "ClusterNotReadable", text)) == (before, after)
        assert ([text], []) == (scene.told.messages, scene.cluster.all(OURS))

    async def test_unreadable_later(self, scene: Scene) -> None:
        """
        What we may not read any more takes Ready within a minute and a half, and gives it back when we may.
        """
        forbidden = errors.Forbidden("GET n", 403, "no right")
        async with scene.running():
            await asyncio.sleep(10)
            before = scene.ready()
            scene.cluster.refuse = lambda request: forbidden if "pods" in request.path else None
            scene.cluster.end_streams()
            await asyncio.sleep(90)
            during = scene.ready()
            scene.cluster.refuse = lambda _: None
            await asyncio.sleep(31)
            after = scene.ready()
        assert before is not None
        assert during is not None

        assert ("True", ("Unknown", "ClusterNotReadable"), True) == (before[0], during[:2], "pods in" in during[2])
        assert before == after

    async def test_unreadable_and_not_written(self, scene: Scene) -> None:
        """
        Telling it is tried again as anything is.
        """
        forbidden = errors.Forbidden("GET n", 403, "no right")
        scene.cluster.refuse = lambda request: (
            forbidden if "nodes" in request.path or request.path.endswith("status") else None
        )
        async with scene.running():
            await asyncio.sleep(100)
            scene.cluster.refuse = lambda request: forbidden if "nodes" in request.path else None
            await asyncio.sleep(31)

        assert scene.ready() is not None
