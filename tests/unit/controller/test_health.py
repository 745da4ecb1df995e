from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Self

import attrs
import pytest
from controller.applier import Applier
from controller.configreading import CONFIGS
from controller.health import Alone, Health
from controller.latest import Latest
from controller.metrics import Metrics
from controller.nodesource import NODES
from controller.options import Image, Options
from controller.reconciler import Reconciler, Wakeup
from controller.sources import CLUSTER_POLICIES, SERVICE_VERSIONS, Sources
from controller.writes import FIELD_MANAGER, Writes
from fractioning_core import resource
from fractioning_core.kube.errors import Forbidden
from fractioning_core.kube.events import Recorder
from fractioning_core.kube.nodes import Nodes
from fractioning_core.kube.objects import Objects
from fractioning_core.service.http import Readiness
from fractioning_core.testing.cluster import FakeCluster
from prometheus_client import CollectorRegistry

pytestmark = pytest.mark.looptime

OPTIONS = Options("gpu-fractioning", Image("f"), Image("m"), Image("p"))


def utcnow() -> datetime:
    return datetime.now(UTC)


@attrs.frozen
class Late(Alone):
    """
    A leader that has not renewed its lease for some time.
    """

    def may_write(self) -> bool:
        """
        Not now.
        """
        return False


@attrs.define
class Scene:
    """
    A controller on a cluster without a resource.
    """

    cluster: FakeCluster
    sources: Sources
    reconciler: Reconciler

    @classmethod
    def of(cls, cluster: FakeCluster) -> Self:
        """
        Put one together.
        """
        wakeup, latest, metrics = Wakeup(), Latest(), Metrics(CollectorRegistry())
        clock = asyncio.get_running_loop().time
        sources = Sources(cluster, options=OPTIONS, changed=wakeup.wake, clock=clock)
        writes = Writes(
            Objects(cluster, field_manager=FIELD_MANAGER),
            nodes=Nodes(cluster, field_manager=FIELD_MANAGER),
            namespace=OPTIONS.namespace,
            utcnow=utcnow,
        )
        recorder = Recorder(cluster, component="tests", changed=lambda: None, utcnow=utcnow)
        reconciler = Reconciler(
            sources,
            applier=Applier(writes, recorder=recorder, latest=latest, metrics=metrics),
            latest=latest,
            wakeup=wakeup,
            metrics=metrics,
            clock=clock,
            utcnow=utcnow,
        )
        return cls(cluster, sources, reconciler)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """
        Run it until it has read everything, and on.
        """
        tasks = [asyncio.create_task(part.run()) for part in (self.sources, self.reconciler)]
        try:
            await asyncio.sleep(5)
            yield
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    def readiness(self, candidate: Alone) -> Readiness:
        """
        Ask.
        """
        return Health(candidate, self.sources, self.reconciler).readiness()


@pytest.fixture
async def scene() -> Scene:
    return Scene.of(FakeCluster(absent={CLUSTER_POLICIES.path, SERVICE_VERSIONS.path}))


class TestReadiness:
    """
    What the controller says of itself.
    """

    async def test_reading(self, scene: Scene) -> None:
        """
        A leader that has not read everything is not ready, and says what it waits for.
        """
        found = scene.readiness(Alone())

        assert (False, "waiting for ") == (found.ready, found.reason[:12])

    async def test_following(self, scene: Scene) -> None:
        """
        A leader that follows the cluster is ready.
        """
        async with scene.running():
            assert Readiness(ready=True) == scene.readiness(Alone())

    async def test_stale(self, scene: Scene) -> None:
        """
        A leader that cannot follow any more is not ready, and says why.
        """
        async with scene.running():
            scene.cluster.refuse = lambda _: Forbidden("GET n", 403, "no right")
            scene.cluster.end_streams()
            await asyncio.sleep(5)
            found = scene.readiness(Alone())

        assert (False, True) == (found.ready, f"cannot watch {NODES}: GET n: 403" in found.reason)

    async def test_standby(self, scene: Scene) -> None:
        """
        A replica that stands by is ready although it has read nothing.
        """
        assert Readiness(ready=True) == scene.readiness(Alone(is_leader=False))

    @pytest.mark.parametrize(
        "is_leader", [pytest.param(True, id="the leader"), pytest.param(False, id="one beside it")]
    )
    async def test_no_lease(self, scene: Scene, is_leader: bool) -> None:  # noqa: FBT001 - a table
        """
        A replica that cannot tell who leads is not ready.
        """
        async with scene.running():
            found = scene.readiness(Alone(is_leader=is_leader, problem="GET lease: 403"))

        assert Readiness(ready=False, reason="GET lease: 403") == found

    @pytest.mark.parametrize(
        ("problem", "reason"),
        [
            pytest.param("", "leads but may not write: the lease is renewed too slowly", id="slow"),
            pytest.param("GET lease: 503", "leads but may not write: GET lease: 503", id="not at all"),
        ],
    )
    async def test_may_not_write(self, scene: Scene, problem: str, reason: str) -> None:
        """
        A leader whose lease is too old for a write to begin is not ready, and says so.
        """
        async with scene.running():
            found = scene.readiness(Late(problem=problem))

        assert Readiness(ready=False, reason=reason) == found

    async def test_anothers(self, scene: Scene) -> None:
        """
        A leader of an installation that has to stand by is not ready, and says for whom.
        """
        noted = {resource.NAMESPACE_ANNOTATION: "elsewhere"}
        scene.cluster.put(CONFIGS, {"metadata": {"name": resource.NAME, "annotations": noted}, "spec": {}})
        async with scene.running():
            found = scene.readiness(Alone())

        assert (False, True) == (found.ready, "by the controller in namespace 'elsewhere'" in found.reason)

    async def test_fault_of_ours(self, scene: Scene) -> None:
        """
        A fault of ours in the last pass is told.
        """
        async with scene.running():
            scene.reconciler.complaint = "a pass ended with KeyError"

            assert Readiness(ready=False, reason="a pass ended with KeyError") == scene.readiness(Alone())
