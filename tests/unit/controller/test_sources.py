from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import attrs
import pytest
from controller.configreading import CONFIGS
from controller.nodesource import NODES
from controller.options import Image, Options
from controller.source import OUTAGE_SECONDS
from controller.sources import (
    CLUSTER_POLICIES,
    DAEMONSETS,
    EVENTS,
    PODS,
    SERVICE_VERSIONS,
    Sources,
    SourceState,
)
from controller.world import Reading, World
from fractioning_core import names, resource
from fractioning_core.errors import FractioningError
from fractioning_core.kube.errors import Forbidden
from fractioning_core.kube.transport import Request
from fractioning_core.testing.cluster import FakeCluster

pytestmark = pytest.mark.looptime

NAMESPACE = "gpu-fractioning"
MINE = {"app.kubernetes.io/managed-by": "gpu-fractioning"}
OPTIONS = Options(NAMESPACE, Image("f"), Image("m"), Image("p"))
NOW = "2026-11-01T12:00:00Z"
MOMENT = 1.0
ABSENT = (CLUSTER_POLICIES.path, SERVICE_VERSIONS.path)
TEXT = "cannot list clusterpolicies.nvidia.com: GET p: 403 from the API server: no right"


def config(**selector: str) -> Mapping[str, Any]:
    return {"metadata": {"name": resource.NAME}, "spec": {"nodeSelector": selector}}


def named(name: str, **fields: Any) -> Mapping[str, Any]:  # noqa: ANN401 - what JSON holds
    return {"metadata": {"name": name, "labels": fields.pop("labels", {})}, **fields}


def refuses(word: str, request: Request) -> FractioningError | None:
    return Forbidden("GET p", 403, "no right") if word in request.path else None


@attrs.define
class Scene:
    """
    A cluster without a GPU Operator, and how often something changed.
    """

    cluster: FakeCluster = attrs.field(factory=lambda: FakeCluster(absent=set(ABSENT)))
    changes: int = 0

    def change(self) -> None:
        """
        Count a change.
        """
        self.changes += 1

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Sources]:
        """
        Run the mirrors.
        """
        clock = asyncio.get_running_loop().time
        sources = Sources(self.cluster, options=OPTIONS, changed=self.change, clock=clock)
        task = asyncio.create_task(sources.run())
        try:
            await settle(sources)
            yield sources
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def settle(sources: Sources) -> World | None:
    """
    Ask for the world until what that begins has come.
    """
    for _ in range(3):
        world(sources)
        await asyncio.sleep(MOMENT)
    return world(sources)


def world(sources: Sources) -> World | None:
    return sources.world(sources.config(), now=NOW)


@pytest.fixture
async def scene() -> Scene:
    return Scene()


class TestWorld:
    """
    What is put together.
    """

    async def test_empty(self, scene: Scene) -> None:
        """
        A cluster without anything is a world, too.
        """
        async with scene.reading() as sources:
            assert World(None, OPTIONS, NOW) == world(sources)

    async def test_whole(self, scene: Scene) -> None:
        """
        It holds what is ours, the nodes with the labels asked for, the GPU stack, and why pods cannot be created.
        """
        scene.cluster.absent.clear()
        scene.cluster.put(CONFIGS, config(gpu="yes"))
        scene.cluster.put(NODES, named("node-a", labels={"gpu": "yes", "other": "1", names.DRIVER_LABEL: "615"}))
        scene.cluster.put(PODS.within(NAMESPACE), named("mpsd-1", labels=MINE, spec={"nodeName": "node-a"}))
        scene.cluster.put(PODS.within(NAMESPACE), named("foreign"))
        scene.cluster.put(PODS.within("elsewhere"), named("mpsd-2", labels=MINE))
        scene.cluster.put(DAEMONSETS.within(NAMESPACE), named("gpu-fractioning-mpsd"))
        scene.cluster.put(DAEMONSETS.within(NAMESPACE), named("foreign"))
        scene.cluster.put(CLUSTER_POLICIES, named("policy"))
        scene.cluster.put(SERVICE_VERSIONS.within("a"), named("gpu-operator.v26", spec={"version": "26"}))
        copied = named("gpu-operator.v26", spec={"version": "26"}, labels={"olm.copiedFrom": "a"})
        scene.cluster.put(SERVICE_VERSIONS.within("b"), copied)
        about = {"involvedObject": {"kind": "DaemonSet", "uid": "u"}}
        failed = named("event-a", **about, reason="FailedCreate", message="forbidden")
        scene.cluster.put(EVENTS.within(NAMESPACE), failed)
        scene.cluster.put(EVENTS.within(NAMESPACE), named("event-b", **about, reason="SuccessfulCreate"))
        async with scene.reading() as sources:
            found = world(sources)
        assert found is not None
        assert found.config is not None

        assert (
            {"gpu": "yes"},
            [("node-a", {"gpu": "yes", names.DRIVER_LABEL: "615"})],
            ["node-a"],
            ["gpu-fractioning-mpsd"],
            ["policy"],
            [("a", "gpu-operator.v26")],
            ["forbidden"],
        ) == (
            found.config.spec.node_selector,
            [(node.name, node.labels) for node in found.nodes],
            [pod.node for pod in found.pods],
            [one.name for one in found.daemonsets],
            [policy.name for policy in found.cluster_policies.items],
            [(version.namespace, version.name) for version in found.service_versions.items],
            [event.message for event in found.failed_creates],
        )

    async def test_unusable_config(self, scene: Scene) -> None:
        """
        A resource that is not usable is in it with what is wrong.
        """
        scene.cluster.put(CONFIGS, {"metadata": {"name": resource.NAME}, "spec": {}})
        async with scene.reading() as sources:
            found = world(sources)

        assert "nodeSelector" in (found.config_problem if found else "")

    @pytest.mark.parametrize("word", ["gpufractioningconfigs", "daemonsets", "pods", "nodes", "clusterpolicies"])
    async def test_still_reading(self, scene: Scene, word: str) -> None:
        """
        There is no world before each collection that is needed was read.
        """
        scene.cluster.refuse = lambda request: refuses(word, request)
        async with scene.reading() as sources:
            found = world(sources)

        assert (word != "clusterpolicies") == (found is None)

    async def test_other_selector(self, scene: Scene) -> None:
        """
        A resource that asks for other labels leads to nodes with those, and none that is half of each.
        """
        scene.cluster.put(NODES, named("node-a", labels={"a": "1", "b": "2"}))
        scene.cluster.put(CONFIGS, config(a="1"))
        async with scene.reading() as sources:
            first = world(sources)
            scene.cluster.put(CONFIGS, config(b="2"))
            await asyncio.sleep(MOMENT)
            between = world(sources)
            second = await settle(sources)
            streams = [stream for stream in scene.cluster.streams if stream.request.path == NODES.path]

        assert ({"a": "1"}, None, {"b": "2"}, 1) == (
            first.nodes[0].labels if first else None,
            between,
            second.nodes[0].labels if second else None,
            len(streams),
        )


class TestForeign:
    """
    What belongs to somebody else.
    """

    async def test_never_readable(self, scene: Scene) -> None:
        """
        What may not be read from the beginning is told at once.
        """
        scene.cluster.absent.clear()
        scene.cluster.refuse = lambda request: refuses("clusterpolicies", request)
        async with scene.reading() as sources:
            found = world(sources)

        assert Reading((), TEXT.replace("list", "watch")) == (found.cluster_policies if found else None)

    async def test_passing_outage(self, scene: Scene) -> None:
        """
        An outage is told when it has lasted a minute; until then, what was read counts, and it is known how long.
        """
        scene.cluster.absent.clear()
        scene.cluster.put(CLUSTER_POLICIES, named("policy"))
        async with scene.reading() as sources:
            scene.cluster.refuse = lambda request: refuses("clusterpolicies", request)
            scene.cluster.end_streams()
            await asyncio.sleep(MOMENT)
            during, patience = world(sources), sources.patience_seconds()
            await asyncio.sleep(OUTAGE_SECONDS)
            after, none = world(sources), sources.patience_seconds()
        assert during is not None
        assert after is not None
        assert patience is not None

        assert ("", True, True, None) == (
            during.cluster_policies.error,
            OUTAGE_SECONDS - MOMENT <= patience <= OUTAGE_SECONDS,
            "no right" in after.cluster_policies.error,
            none,
        )
        assert during.cluster_policies.items == after.cluster_policies.items

    async def test_outage_of_what_is_absent(self, scene: Scene) -> None:
        """
        A poll that fails tells nothing new of an API that does not exist.
        """
        async with scene.reading() as sources:
            scene.cluster.refuse = lambda request: refuses("clusterpolicies", request)
            await asyncio.sleep(31)
            problems = [state.problem for state in sources.iter_states() if state.resource == "clusterpolicies"]
            found, patience = world(sources), sources.patience_seconds()
        assert found is not None
        assert patience is not None

        assert [TEXT.replace("list", "watch")] == problems
        assert (Reading(), True) == (found.cluster_policies, 0 < patience <= OUTAGE_SECONDS)

    async def test_installed_later(self, scene: Scene) -> None:
        """
        An API that appears later is read within half a minute, and that is a change.
        """
        async with scene.reading() as sources:
            before = scene.changes
            scene.cluster.absent.clear()
            scene.cluster.put(CLUSTER_POLICIES, named("policy"))
            await asyncio.sleep(31)
            found = world(sources)

        assert (True, 1) == (scene.changes > before, len(found.cluster_policies.items) if found else 0)


class TestOutage:
    """
    What belongs to us and cannot be read any more.
    """

    @pytest.mark.parametrize("word", ["gpufractioningconfigs", "daemonsets", "pods", "nodes"])
    async def test_told(self, scene: Scene, word: str) -> None:
        """
        It is told when it has lasted a minute, is known to be coming, and ends with the reason for it.
        """
        async with scene.reading() as sources:
            scene.cluster.refuse = lambda request: refuses(word, request)
            scene.cluster.end_streams()
            await asyncio.sleep(MOMENT)
            during, patience = world(sources), sources.patience_seconds()
            await asyncio.sleep(OUTAGE_SECONDS)
            after = world(sources)
            scene.cluster.refuse = lambda _: None
            await asyncio.sleep(31)
            healed = world(sources)
            scene.cluster.refuse = lambda request: refuses(word, request)
            scene.cluster.end_streams()
            await asyncio.sleep(MOMENT)
            again = world(sources)
        assert again is not None
        assert during is not None
        assert after is not None
        assert healed is not None

        assert ("", True, "", "") == (during.outage, "no right" in after.outage, healed.outage, again.outage)
        assert word in after.outage
        assert OUTAGE_SECONDS - 2 * MOMENT <= (patience or 0) <= OUTAGE_SECONDS

    async def test_events(self, scene: Scene) -> None:
        """
        What only explains is told apart, and holds up nothing, not even at the beginning.
        """
        scene.cluster.refuse = lambda request: refuses("events", request)
        async with scene.reading() as sources:
            before = world(sources)
            await asyncio.sleep(OUTAGE_SECONDS)
            after = world(sources)
        assert before is not None
        assert after is not None

        assert ("", "") == (before.failed_creates_outage, after.outage)
        assert "cannot watch events" in after.failed_creates_outage


class TestComplaint:
    """
    What is said of what is not read.
    """

    async def test_nothing(self, scene: Scene) -> None:
        """
        Nothing, when all is read; a GPU stack that is absent is nothing, too.
        """
        async with scene.reading() as sources:
            assert ("", "") == (sources.complaint(), sources.problem())

    async def test_waiting(self, scene: Scene) -> None:
        """
        What is not read yet is waited for, which is no problem.
        """
        sources = Sources(scene.cluster, options=OPTIONS, changed=scene.change, clock=lambda: 0.0)

        text = f"waiting for {CONFIGS}, daemonsets.apps in gpu-fractioning, pods in gpu-fractioning, nodes"

        assert (text, "") == (sources.complaint(), sources.problem())

    async def test_forbidden(self, scene: Scene) -> None:
        """
        What we may not read is named in the server's words.
        """
        scene.cluster.refuse = lambda request: refuses("/pods", request)
        async with scene.reading() as sources:
            text = "cannot watch pods in gpu-fractioning: GET p: 403 from the API server: no right"

            assert (text, text) == (sources.complaint(), sources.problem())

    async def test_no_definition(self, scene: Scene) -> None:
        """
        A cluster without the CRD is told to have none.
        """
        scene.cluster.absent.add(CONFIGS.path)
        async with scene.reading() as sources:
            assert f"there is no CustomResourceDefinition of {CONFIGS}" == sources.complaint()

    async def test_states(self, scene: Scene) -> None:
        """
        Each collection has a state for metrics.
        """
        async with scene.reading() as sources:
            assert [
                SourceState("gpufractioningconfigs", is_synced=True, problem=""),
                SourceState("daemonsets", is_synced=True, problem=""),
                SourceState("pods", is_synced=True, problem=""),
                SourceState("nodes", is_synced=True, problem=""),
                SourceState("events", is_synced=True, problem=""),
                SourceState("clusterpolicies", is_synced=False, problem=""),
                SourceState("clusterserviceversions", is_synced=False, problem=""),
            ] == list(sources.iter_states())
