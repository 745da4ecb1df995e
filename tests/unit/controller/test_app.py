"""
The parts of the controller put together, on a cluster in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import attrs
import pytest
from controller import app
from controller.configreading import CONFIGS
from controller.nodesource import NODES
from controller.options import Image, Options
from controller.settings import Settings
from controller.sources import CLUSTER_POLICIES, DAEMONSETS, EVENTS, SERVICE_VERSIONS
from fractioning_core import names, resource
from fractioning_core.errors import FileUnavailable
from fractioning_core.kube.collections import Collection
from fractioning_core.kube.election import WRITE_SECONDS
from fractioning_core.kube.errors import ApiUnreachable, LeaseLost
from fractioning_core.kube.objects import Objects
from fractioning_core.service.addresses import NOWHERE, Address
from fractioning_core.testing.cluster import FakeCluster

NAMESPACE = "gpu-fractioning"
OURS = DAEMONSETS.within(NAMESPACE)
NODE = "node-a"
ABSENT = (CLUSTER_POLICIES.path, SERVICE_VERSIONS.path)
LABELS = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.deploy.client": "true"}
GONE = ApiUnreachable("https://10.96.0.1:443", "Connect call failed")

CONFIG: Mapping[str, Any] = {
    "apiVersion": resource.API_VERSION,
    "kind": resource.KIND,
    "metadata": {"name": resource.NAME},
    "spec": {"nodeSelector": {"nvidia.com/gpu.present": "true"}, "metricsAgent": {"enabled": True}},
}


def chosen(**changes: Any) -> Settings:  # noqa: ANN401 - those of Settings
    """
    Make settings of an installation that listens nowhere.
    """
    settings = Settings(
        fractiond_image_repository="registry.test/fractiond",
        metricsd_image_repository="registry.test/metricsd",
        mpsd_image_repository="registry.test/mpsd",
        pod_namespace=NAMESPACE,
        health_probe_bind_address=NOWHERE,
    )
    return attrs.evolve(settings, **changes)


@attrs.define
class Scene:
    """
    A cluster with a GPU node, and no GPU Operator.
    """

    cluster: FakeCluster = attrs.field(factory=lambda: FakeCluster(absent=set(ABSENT)))

    def __attrs_post_init__(self) -> None:
        self.cluster.put(NODES, {"metadata": {"name": NODE, "labels": LABELS}})

    @asynccontextmanager
    async def running(self, settings: Settings) -> AsyncIterator[asyncio.Task[None]]:
        """
        Run the controller beside a test, and end it as the first signal does.
        """
        stop = asyncio.Event()
        task = asyncio.create_task(app.run(settings, self.cluster, stop))
        try:
            yield task
        finally:
            stop.set()
            await asyncio.wait([task])

    def status(self) -> Mapping[str, Any]:
        """
        Look at the resource's status.
        """
        found = self.cluster.get(CONFIGS, resource.NAME) or {}
        return found.get("status") or {}

    def ready(self) -> tuple[str, str]:
        """
        Look at the condition Ready.
        """
        conditions = self.status().get("conditions", ())
        return next(((one["status"], one["reason"]) for one in conditions if one["type"] == "Ready"), ("", ""))

    def names(self, collection: Collection) -> set[str]:
        """
        Name the objects of a collection.
        """
        return {found["metadata"]["name"] for found in self.cluster.all(collection)}

    def writes(self) -> list[str]:
        """
        List what was written.
        """
        return [str(request) for request in self.cluster.asked if request.verb != "GET"]


@pytest.fixture
async def scene() -> Scene:
    return Scene()


@pytest.mark.looptime
class TestReconciling:
    """
    What happens to a cluster with a resource.
    """

    async def test_rollout(self, scene: Scene) -> None:
        """
        A resource leads to a finalizer, two DaemonSets, a status of its generation and one event, in this order.
        """
        async with scene.running(chosen()):
            await asyncio.sleep(5)
            scene.cluster.put(CONFIGS, CONFIG)
            await asyncio.sleep(60)

        assert (1, ("False", "ComponentNotReady")) == (scene.status()["observedGeneration"], scene.ready())
        assert [
            f"PATCH {CONFIGS.item_path('default')}",
            f"PATCH {OURS.item_path('gpu-fractioning-fractiond')}",
            f"PATCH {OURS.item_path('gpu-fractioning-mpsd')}",
            f"PATCH {CONFIGS.subresource('default', 'status')}",
            f"POST {EVENTS.within('default').path}",
        ] == scene.writes()

    async def test_restart(self, scene: Scene) -> None:
        """
        Another process finds nothing to write but each DaemonSet once, which changes nothing.
        """
        scene.cluster.put(CONFIGS, CONFIG)
        async with scene.running(chosen()):
            await asyncio.sleep(5)
        scene.cluster.asked.clear()
        generations = [found["metadata"]["resourceVersion"] for found in scene.cluster.all(OURS)]
        async with scene.running(chosen()):
            await asyncio.sleep(60)

        assert (
            [f"PATCH {OURS.item_path(f'gpu-fractioning-{name}')}" for name in ("fractiond", "mpsd")],
            generations,
        ) == (scene.writes(), [found["metadata"]["resourceVersion"] for found in scene.cluster.all(OURS)])

    async def test_deleted_daemonset(self, scene: Scene) -> None:
        """
        A DaemonSet that somebody deletes is made again within a second.
        """
        scene.cluster.put(CONFIGS, CONFIG)
        async with scene.running(chosen()):
            await asyncio.sleep(5)
            scene.cluster.remove(OURS, "gpu-fractioning-mpsd")
            await asyncio.sleep(1)

            assert {"gpu-fractioning-fractiond", "gpu-fractioning-mpsd"} == scene.names(OURS)

    async def test_deletion(self, scene: Scene) -> None:
        """
        A resource that is deleted is gone when its DaemonSets and the label on the node are.
        """
        scene.cluster.put(CONFIGS, CONFIG)
        scene.cluster.put(NODES, {"metadata": {"name": NODE, "labels": {**LABELS, names.DRIVER_LABEL: "615"}}})
        async with scene.running(chosen()):
            await asyncio.sleep(5)
            await Objects(scene.cluster, field_manager="user").delete(CONFIGS.item_path("default"))
            await asyncio.sleep(60)
        node = scene.cluster.get(NODES, NODE) or {}

        assert (None, set(), LABELS) == (
            scene.cluster.get(CONFIGS, "default"),
            scene.names(OURS),
            node["metadata"]["labels"],
        )

    async def test_many_nodes(self, scene: Scene) -> None:
        """
        Where nodes take longer to write on than a change may wait, no node is told what holds no more, and none is
        left out.
        """
        nodes = [f"node-{number:03}" for number in range(100)]
        for name in nodes:
            labels = {**LABELS, names.DRIVER_LABEL: "615"}
            scene.cluster.put(NODES, {"metadata": {"name": name, "labels": labels}})
        scene.cluster.put(CONFIGS, CONFIG)
        async with scene.running(chosen()):
            await asyncio.sleep(5)
            scene.cluster.delay_seconds = 0.5
            await Objects(scene.cluster, field_manager="user").delete(CONFIGS.item_path("default"))
            await asyncio.sleep(2)
            for name in nodes[80:]:
                scene.cluster.put(NODES, {"metadata": {"name": name, "labels": LABELS}})
            await asyncio.sleep(60)
        written = sorted(write for write in scene.writes() if "/nodes/" in write)

        assert [f"PATCH {NODES.item_path(name)}" for name in nodes[:80]] == written

    async def test_unusable_resource(self, scene: Scene) -> None:
        """
        A resource that cannot be read as a whole is told so, and nothing else is done or ends.
        """
        scene.cluster.put(CONFIGS, {**CONFIG, "spec": {"nodeSelector": {}, "fractioningAgent": {"readinessPort": 0}}})
        async with scene.running(chosen()):
            await asyncio.sleep(60)

        assert ("False", set()) == (scene.ready()[0], scene.names(OURS))


@pytest.mark.looptime
class TestLeading:
    """
    Which of several replicas acts.
    """

    async def test_one_leads(self, scene: Scene) -> None:
        """
        A replica beside the leader watches nothing.
        """
        async with scene.running(chosen(leader_elect=True, identity="a")):
            await asyncio.sleep(5)
            before = sorted(stream.request.path for stream in scene.cluster.streams)
            async with scene.running(chosen(leader_elect=True, identity="b")):
                await asyncio.sleep(60)
                after = sorted(stream.request.path for stream in scene.cluster.streams)

        assert (5, before) == (len(before), after)

    async def test_handover(self, scene: Scene) -> None:
        """
        When the leader ends as it is told to, the other acts within three seconds.
        """
        async with scene.running(chosen(leader_elect=True, identity="a")):
            await asyncio.sleep(5)
            beside = scene.running(chosen(leader_elect=True, identity="b"))
            await beside.__aenter__()
            await asyncio.sleep(5)
        scene.cluster.put(CONFIGS, CONFIG)
        await asyncio.sleep(3)
        found = scene.names(OURS)
        await beside.__aexit__(None, None, None)

        assert {"gpu-fractioning-fractiond", "gpu-fractioning-mpsd"} == found

    async def test_lost_lease(self, scene: Scene) -> None:
        """
        A leader that cannot renew its lease ends, and before that writes nothing that could come too late.
        """
        async with scene.running(chosen(leader_elect=True, identity="a")) as running:
            await asyncio.sleep(5)
            scene.cluster.refuse = lambda request: GONE if "leases" in request.path else None
            await asyncio.sleep(WRITE_SECONDS + 1)
            scene.cluster.put(CONFIGS, CONFIG)
            await asyncio.sleep(10)
            error = running.exception()
        lost = error.subgroup(LeaseLost) if isinstance(error, BaseExceptionGroup) else None

        assert (True, set()) == (lost is not None, scene.names(OURS))

    async def test_late_renewal(self, scene: Scene) -> None:
        """
        What could not be written while a renewal was late is written after it, although nothing else happens.
        """
        async with scene.running(chosen(leader_elect=True, identity="a")):
            await asyncio.sleep(5)
            scene.cluster.refuse = lambda request: GONE if "leases" in request.path else None
            await asyncio.sleep(WRITE_SECONDS)
            scene.cluster.put(CONFIGS, CONFIG)
            await asyncio.sleep(1)
            during = scene.writes()
            scene.cluster.refuse = lambda _: None
            await asyncio.sleep(5)

            assert {"gpu-fractioning-fractiond", "gpu-fractioning-mpsd"} == scene.names(OURS)
        assert f"PATCH {CONFIGS.item_path('default')}" not in during

    async def test_slow_server(self, scene: Scene) -> None:
        """
        Where each answer takes 5 s, a replica leads all the same, and rolls out.
        """
        scene.cluster.put(CONFIGS, CONFIG)
        scene.cluster.delay_seconds = 5.0
        async with scene.running(chosen(leader_elect=True, identity="a")) as running:
            await asyncio.sleep(90)

            assert (False, {"gpu-fractioning-fractiond", "gpu-fractioning-mpsd"}, ("False", "ComponentNotReady")) == (
                running.done(),
                scene.names(OURS),
                scene.ready(),
            )

    async def test_two_installations(self, scene: Scene) -> None:
        """
        A controller in a second namespace leaves a resource alone that is served already, and tells so once.
        """
        scene.cluster.put(CONFIGS, CONFIG)
        async with scene.running(chosen()):
            await asyncio.sleep(5)
            written = scene.writes()
            async with scene.running(chosen(pod_namespace="elsewhere")):
                await asyncio.sleep(60)
                label = {"metadata": {"labels": {"looked-at": "again"}}}
                await Objects(scene.cluster, field_manager="user").merge_patch(CONFIGS.item_path("default"), label)
                await asyncio.sleep(60)
        events = scene.cluster.all(EVENTS.within("default"))

        assert set() == scene.names(DAEMONSETS.within("elsewhere"))
        assert [1] == [event["count"] for event in events if event["reason"] == "ServedFromElsewhere"]
        assert [f"POST {EVENTS.within('default').path}", f"PATCH {CONFIGS.item_path('default')}"] == (
            scene.writes()[len(written) :]
        )


class TestPages:
    """
    What is served.
    """

    async def test_probes_and_metrics(self, scene: Scene, unused_tcp_port_factory: Callable[[], int]) -> None:
        """
        The probes and the metrics have an address each, and the probes' says where the metrics are.
        """
        probes, metrics = unused_tcp_port_factory(), unused_tcp_port_factory()
        settings = chosen(
            health_probe_bind_address=Address("127.0.0.1", probes),
            metrics_bind_address=Address("127.0.0.1", metrics),
            metrics_secure=False,
        )
        async with scene.running(settings):
            await asyncio.sleep(0.5)
            pages = [
                await page(f"http://127.0.0.1:{port}{path}")
                for port, path in ((probes, "/healthz"), (probes, "/readyz"), (probes, "/metrics"))
            ]
            status, text = await page(f"http://127.0.0.1:{metrics}/metrics")

        assert [(200, "ok"), (200, "ok"), (200, "# served at --metrics-bind-address\n")] == pages
        assert (200, True) == (status, "gpu_fractioning_controller_leader 1.0" in text)

    async def test_secure_metrics_without_a_certificate(self, scene: Scene, unused_tcp_port: int) -> None:
        """
        Metrics that cannot be served as safely as asked stop the start.
        """
        settings = chosen(
            metrics_bind_address=Address("127.0.0.1", unused_tcp_port), metrics_cert_path="/no/such/directory"
        )
        with pytest.raises(FileUnavailable):
            await app.run(settings, scene.cluster, asyncio.Event())


class TestOptions:
    """
    What of the settings reaches the plans.
    """

    def test_all(self) -> None:
        """
        Everything that concerns the daemons does.
        """
        settings = chosen(
            mpsd_image_tag="1",
            mpsd_image_pull_policy="Always",
            mpsd_audit_log=False,
            support_sm_sharing=False,
            fips_mode="only",
            daemon_service_account_name="a",
            fractiond_service_account_name="b",
            image_pull_secrets=("c",),
            daemon_required_scc="d",
            daemon_priority_class_name="e",
            skip_gpu_stack_version_checks=True,
        )

        assert Options(
            NAMESPACE,
            fractiond=Image("registry.test/fractiond", "", "IfNotPresent"),
            metricsd=Image("registry.test/metricsd", "", "IfNotPresent"),
            mpsd=Image("registry.test/mpsd", "1", "Always"),
            support_sm_sharing=False,
            audit_log=False,
            skip_version_checks=True,
            fips_mode="only",
            daemon_service_account="a",
            fractiond_service_account="b",
            image_pull_secrets=("c",),
            required_scc="d",
            priority_class_name="e",
        ) == app.options_of(settings)


async def page(url: str) -> tuple[int, str]:
    """
    Fetch a page.
    """
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()
