"""
The controller on a real API server with the real DaemonSet controller: what a user of the chart sees.
"""

from __future__ import annotations

import asyncio

import pytest
from apilab.cluster import CONFIGS, FRACTIOND, MPSD, NODES, Cluster, node_of
from apilab.scene import Scene
from fractioning_core import resource
from fractioning_core.kube.errors import ApiRejection
from fractioning_core.kube.transport import Request

pytestmark = pytest.mark.asyncio(loop_scope="session")

# Long enough for any echo of our own writes to come back, and for what is asked again at once.
STEADY_SECONDS = 5.0
MISSING = ("clusterpolicies", "clusterserviceversions")
ALL_READY = ("True", "AllPodsReady", "2 of 2 pods ready")
HEALTHY = ("True", "AllDaemonsReady", "all gpu-fractioning daemons are running")


class TestResource:
    async def test_other_name(self, scene: Scene) -> None:
        """
        There can be no second one.
        """
        other = {"apiVersion": resource.API_VERSION, "kind": resource.KIND, "metadata": {"name": "other"}}
        with pytest.raises(ApiRejection, match="must be named 'default'"):
            await scene.cluster.objects.create(CONFIGS.path, {**other, "spec": scene.spec})

    async def test_no_selector(self, scene: Scene) -> None:
        """
        It has to say which nodes.
        """
        with pytest.raises(ApiRejection, match="nodeSelector"):
            await scene.cluster.create_config({})

    async def test_other_selector(self, scene: Scene) -> None:
        """
        Which nodes cannot be changed.
        """
        await scene.cluster.create_config(scene.spec)
        with pytest.raises(ApiRejection, match="nodeSelector is immutable"):
            await scene.cluster.edit_config(nodeSelector={"other": "true"})


class TestRollout:
    async def test_ready(self, scene: Scene) -> None:
        """
        Each GPU node has one pod of each daemon and the condition, no other node has either, and the resource says
        that all is well with what was asked last.
        """
        await scene.cluster.add_node("other", labels={})
        async with scene.rolled_out("a", "b"):
            config = await scene.cluster.config() or {}
            pods = await scene.cluster.pods()

        conditions = await scene.cluster.conditions()
        places = sorted((pod["metadata"]["labels"]["app.kubernetes.io/component"], node_of(pod)) for pod in pods)
        assert config["metadata"]["generation"] == config["status"]["observedGeneration"]
        assert {
            "FractiondReady": ALL_READY,
            "MpsdReady": ALL_READY,
            "Ready": ("True", "AllComponentsReady", "all components are healthy"),
            "DriverUpgradeInProgress": ("False", "NoDriverUpgrade", ""),
        } == conditions
        assert [("fractiond", "a"), ("fractiond", "b"), ("mpsd", "a"), ("mpsd", "b")] == places
        assert [HEALTHY, HEALTHY, None] == [await scene.cluster.node_condition(node) for node in ("a", "b", "other")]

    @pytest.mark.parametrize(
        ("name", "component"),
        [pytest.param(FRACTIOND, "fractiond", id="fractiond"), pytest.param(MPSD, "mpsd", id="mpsd")],
    )
    async def test_daemonset(self, scene: Scene, name: str, component: str) -> None:
        """
        A DaemonSet belongs to the resource, and it and its pods carry our labels.
        """
        async with scene.rolled_out("a"):
            config = await scene.cluster.config() or {}
            daemonset = await scene.cluster.daemonset(name) or {}

        labels = {"app.kubernetes.io/managed-by": "gpu-fractioning", "app.kubernetes.io/component": component}
        (owner,) = daemonset["metadata"]["ownerReferences"]
        assert (resource.KIND, "default", config["metadata"]["uid"], True) == (
            owner["kind"],
            owner["name"],
            owner["uid"],
            owner["controller"],
        )
        assert labels.items() <= daemonset["metadata"]["labels"].items()
        assert labels.items() <= daemonset["spec"]["template"]["metadata"]["labels"].items()

    @pytest.mark.parametrize(
        ("name", "paths", "privileged"),
        [
            pytest.param(FRACTIOND, {"/run/nvidia-mps", "/var/run/nri"}, ["metricsd"], id="fractiond"),
            pytest.param(MPSD, {"/run/nvidia-mps", "/var/log/nvidia-mps"}, ["mpsd"], id="mpsd"),
        ],
    )
    async def test_pod(self, scene: Scene, name: str, paths: set[str], privileged: list[str]) -> None:
        """
        A pod sees the host's processes and directories, and who touches GPUs is privileged; with an empty RuntimeClass
        it has the node's.
        """
        async with scene.rolled_out("a", spec={**scene.spec, "runtimeClassName": ""}):
            (pod,) = await scene.cluster.pods(name.removeprefix("gpu-fractioning-"))

        spec = pod["spec"]
        mounted = {volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
        assert (True, None) == (spec["hostPID"], spec.get("runtimeClassName"))
        assert paths <= mounted
        assert privileged == [each["name"] for each in spec["containers"] if each["securityContext"].get("privileged")]
        assert spec["serviceAccountName"] in {"gpu-fractioning-daemon", "gpu-fractioning-fractiond"}

    async def test_no_node(self, scene: Scene) -> None:
        """
        Without a node to serve, all is well.
        """
        async with scene.rolled_out():
            conditions = await scene.cluster.conditions()

        nothing = ("True", "NoTargetNodes")
        assert [nothing, nothing] == [conditions[kind][:2] for kind in ("FractiondReady", "MpsdReady")]

    async def test_steady(self, scene: Scene) -> None:
        """
        When all is as it should be, nothing is written, and times and generations stay.
        """
        async with scene.rolled_out("a", "b") as controller:
            await scene.at_rest(controller)
            since, before = scene.audited(), await _state(scene.cluster)
            await asyncio.sleep(STEADY_SECONDS)
            calls = scene.calls(controller, since=since)

            # What does not exist yet is asked for again.
            assert [] == [str(call.right) for call in calls if call.right.resource not in MISSING]
            assert before == await _state(scene.cluster)

    async def test_restart(self, scene: Scene) -> None:
        """
        A controller that is started anew reads, and writes nothing.
        """
        async with scene.rolled_out("a", "b") as controller:
            await scene.at_rest(controller)
        before = await _state(scene.cluster)
        async with scene.controller() as controller:
            await controller.ready()
            await asyncio.sleep(STEADY_SECONDS)
            calls = scene.calls(controller)

        assert before == await _state(scene.cluster)
        assert [] == [str(call.right) for call in calls if call.is_write and call.right.resource != "daemonsets"]


class TestStart:
    async def test_no_images(self, scene: Scene) -> None:
        """
        Without the daemons' images it does not start, and names the variables.
        """
        flags = [f"--{name}-image-repository=" for name in ("fractiond", "mpsd")]
        async with scene.controller(flags=flags) as controller:
            code = await controller.service.wait()
            output = controller.service.output()

        assert 2 == code
        assert "FRACTIOND_IMAGE_REPOSITORY" in output
        assert "MPSD_IMAGE_REPOSITORY" in output

    async def test_no_resource(self, scene: Scene) -> None:
        """
        Without the resource it is ready and waits.
        """
        async with scene.controller() as controller:
            await controller.ready()

            assert 0 == await controller.metric("gpu_fractioning_daemon_desired_nodes", daemon="mpsd")


async def _state(cluster: Cluster) -> object:
    """
    All that the controller writes, with its times.
    """
    config = await cluster.config() or {}
    daemonsets = [await cluster.daemonset(name) or {} for name in (FRACTIOND, MPSD)]
    nodes = (await cluster.admin.ask(Request("GET", NODES.path)))["items"]
    return (
        config["metadata"]["resourceVersion"],
        [(each["metadata"]["generation"], each["metadata"]["uid"]) for each in daemonsets],
        [each["metadata"]["resourceVersion"] for each in nodes],
    )
