"""
What the controller says of nodes, and of pods that cannot be there.
"""

from __future__ import annotations

import pytest
from apilab.cluster import GPU_LABELS, NODE_CONDITION, NODES, node_of
from apilab.helm import NAMESPACE
from apilab.scene import Scene
from fractioning_core import names

pytestmark = pytest.mark.asyncio(loop_scope="session")

ALL_READY = ("True", "AllPodsReady", "2 of 2 pods ready")
HEALTHY = ("True", "AllDaemonsReady", "all gpu-fractioning daemons are running")


class TestNodes:
    async def test_fault(self, scene: Scene) -> None:
        """
        A daemon that fails on one node is told there and in its own condition; the other node and the other daemon
        stay well, and all is well again when it is.
        """
        async with scene.rolled_out("a", "b"):
            scene.cluster.kubelets.sicken("b", "CrashLoopBackOff", component="mpsd")
            await scene.cluster.node_told("b", "False", "CrashLoopBackOff", "mpsd pod is not ready: CrashLoopBackOff")
            await scene.cluster.told("MpsdReady", "False", "PartiallyAvailable", "1 of 2 pods ready")
            await scene.cluster.ready("False", "ComponentNotReady", "not ready: MpsdReady")
            others = (await scene.cluster.conditions())["FractiondReady"], await scene.cluster.node_condition("a")
            scene.cluster.kubelets.heal("b")
            await scene.cluster.node_told("b", "True")
            await scene.cluster.ready("True", "AllComponentsReady")

        assert (ALL_READY, HEALTHY) == others

    async def test_condition_removed_by_hand(self, scene: Scene) -> None:
        """
        A node condition that somebody removes is set again.
        """
        async with scene.rolled_out("a"):
            gone = {"status": {"conditions": [{"type": NODE_CONDITION, "$patch": "delete"}]}}
            await scene.cluster.objects.strategic_patch(NODES.subresource("a", "status"), gone)
            await scene.cluster.node_told("a", "True")

    async def test_new_node(self, scene: Scene) -> None:
        """
        A node that joins is served.
        """
        async with scene.rolled_out("a"):
            await scene.cluster.add_node("b")
            await scene.cluster.node_told("b", "True")

    async def test_label_lost(self, scene: Scene) -> None:
        """
        A node whose label goes is told within 10 s, on the node and in the resource, and heals with the label.
        """
        async with scene.rolled_out("a", "b"):
            await scene.cluster.label("b", **{"nvidia.com/gpu.present": None})
            await scene.cluster.node_told("b", "False", "", "nvidia.com/gpu.present", timeout_seconds=10.0)
            await scene.cluster.ready("False", "NodeLabelMissing", "b (nvidia.com/gpu.present", timeout_seconds=10.0)
            await scene.cluster.label("b", **{"nvidia.com/gpu.present": "true"})
            await scene.cluster.node_told("b", "True")
            await scene.cluster.ready("True", "AllComponentsReady")

    async def test_old_driver(self, scene: Scene) -> None:
        """
        A node with an old driver has mpsd and no fractiond, which the resource says with the node's name; it is served
        as any other once its driver is new.
        """
        await scene.cluster.add_node("old", labels={**GPU_LABELS, names.DRIVER_LABEL: "580"})
        scene.cluster.kubelets.sicken("old", "NotReady")
        await scene.cluster.add_node("new")
        await scene.cluster.create_config(scene.spec)
        async with scene.controller():
            await scene.cluster.ready("False", "GPUDriverVersionUnsupported", "old")
            await scene.cluster.node_told("old", "False", "GPUDriverVersionUnsupported", "580")
            await scene.cluster.node_told("new", "True")
            pods = sorted(node_of(pod) for pod in await scene.cluster.pods("fractiond"))
            scene.cluster.kubelets.heal("old")
            await scene.cluster.label("old", **{names.DRIVER_LABEL: "615"})
            await scene.cluster.node_told("old", "True")
            await scene.cluster.ready("True", "AllComponentsReady")

        assert ["new"] == pods

    async def test_driver_upgrade(self, scene: Scene) -> None:
        """
        While a node's driver is upgraded it carries no condition and no daemon, and the resource says so.
        """
        label = "nvidia.com/gpu-driver-upgrade-state"
        async with scene.rolled_out("a", "b"):
            await scene.cluster.label("b", **{label: "pod-deletion-required"})
            await scene.cluster.told("DriverUpgradeInProgress", "True", "DriverUpgrading")
            await scene.cluster.node_untold("b")

            async def is_drained() -> bool:
                return {node_of(pod) for pod in await scene.cluster.pods()} == {"a"}

            await scene.cluster.until(is_drained, what="the daemons to leave")
            await scene.cluster.label("b", **{label: "upgrade-done"})
            await scene.cluster.told("DriverUpgradeInProgress", "False", "NoDriverUpgrade")
            await scene.cluster.node_told("b", "True")


class TestForbiddenPods:
    async def test_pod_security(self, scene: Scene) -> None:
        """
        Where a namespace's policy forbids the daemons' pods, the resource quotes what Kubernetes says of it, and all
        is well once they are allowed.
        """
        path = f"/api/v1/namespaces/{NAMESPACE}"
        key = "pod-security.kubernetes.io/enforce"
        await scene.cluster.objects.merge_patch(path, {"metadata": {"labels": {key: "baseline"}}})
        try:
            await scene.cluster.add_node("a")
            await scene.cluster.create_config(scene.spec)
            async with scene.controller():
                await scene.cluster.told("MpsdReady", "False", "RolloutInProgress", "violates PodSecurity")
                await scene.cluster.ready("False", "ComponentNotReady", "violates PodSecurity")
                await scene.cluster.objects.merge_patch(path, {"metadata": {"labels": {key: None}}})
                # The DaemonSet controller waits longer after each refusal.
                await scene.cluster.ready("True", "AllComponentsReady", timeout_seconds=60.0)
        finally:
            await scene.cluster.objects.merge_patch(path, {"metadata": {"labels": {key: None}}})
