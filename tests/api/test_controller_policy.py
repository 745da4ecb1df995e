"""
What the controller makes of the GPU Operator's ClusterPolicy and of OLM's ClusterServiceVersion.
"""

from __future__ import annotations

import pytest
from apilab import policies, rights
from apilab.audit import Right
from apilab.cluster import MPSD, Cluster
from apilab.helm import NAMESPACE
from apilab.scene import Scene

pytestmark = pytest.mark.asyncio(loop_scope="session")

ALL_ONE = ("True", "AllPodsReady", "1 of 1 pods ready")
READ_POLICIES = [Right("nvidia.com", "clusterpolicies", verb) for verb in ("list", "watch")]


class TestPolicy:
    async def test_versions(self, scene: Scene) -> None:
        """
        A toolkit that is downgraded below its minimum is told with its version, and the daemons stay.
        """
        await scene.define_policies()
        await scene.apply_policy(policies.policy())
        async with scene.rolled_out("a"):
            await scene.apply_policy(policies.policy(toolkit="v1.20.0-ubuntu20.04"))
            await scene.cluster.ready("False", "GPUOperandVersionUnsupported", "v1.20.0-ubuntu20.04")

            assert ALL_ONE == (await scene.cluster.conditions())["MpsdReady"]

    async def test_held_back(self, scene: Scene) -> None:
        """
        An old GPU Operator holds the first rollout back, until it is new or the check is skipped.
        """
        await scene.define_policies()
        await scene.apply_policy(policies.policy(version="v26.3.3", toolkit="", device_plugin=""))
        await scene.cluster.add_node("a")
        await scene.cluster.create_config(scene.spec)
        async with scene.controller():
            await scene.cluster.ready("False", "GPUOperatorVersionUnsupported", "v26.3.3")
            held = (await scene.cluster.conditions())["MpsdReady"][:2], await scene.cluster.daemonset(MPSD)
        async with scene.controller(flags=["--leader-elect=false", "--skip-gpu-stack-version-checks"]):
            await scene.cluster.ready("True", "AllComponentsReady")

        assert (("False", "RolloutHeldBack"), None) == held

    async def test_service_version(self, scene: Scene) -> None:
        """
        Without a ClusterPolicy the version is OLM's.
        """
        await scene.define_policies()
        path = policies.SERVICE_VERSIONS.within("default").path
        name = "gpu-operator-certified.v26.3.3"
        await scene.cluster.objects.create(path, policies.service_version(name, "26.3.3"))
        await scene.cluster.add_node("a")
        await scene.cluster.create_config(scene.spec)
        async with scene.controller():
            await scene.cluster.ready("False", "GPUOperatorVersionUnsupported", "26.3.3")
            await scene.cluster.objects.merge_patch(f"{path}/{name}", {"spec": {"version": "26.7.1"}})
            await scene.cluster.ready("True", "AllComponentsReady")

    async def test_mode(self, scene: Scene) -> None:
        """
        When the GPU Operator's NRI plugin is switched on, the daemons ask for GPUs by annotation instead of by a
        RuntimeClass, and back.
        """
        allowed = {"NRI_MANAGEMENT_CDI_DEVICE_NAMESPACES": NAMESPACE}
        await scene.define_policies()
        await scene.apply_policy(policies.policy())
        async with scene.rolled_out("a"):
            assert ("nvidia", None) == await _mode(scene.cluster)
            await scene.apply_policy(policies.policy(nri=True))
            await scene.cluster.ready("False", "ManagementCDINamespaceNotAllowed", NAMESPACE)
            await scene.apply_policy(policies.policy(nri=True, environ=allowed))
            await scene.cluster.ready("True", "AllComponentsReady")
            assert (None, "management.nvidia.com/gpu=all") == await _mode(scene.cluster)
            await scene.apply_policy(policies.policy())
            await _comes_to_mode(scene.cluster, ("nvidia", None))

    async def test_device_list_strategy(self, scene: Scene) -> None:
        """
        A device plugin that publishes no CDI devices in that mode is told with the variable that keeps it from it.
        """
        allowed = {"NRI_MANAGEMENT_CDI_DEVICE_NAMESPACES": NAMESPACE}
        strategy = {"DEVICE_LIST_STRATEGY": "envvar"}
        await scene.define_policies()
        await scene.apply_policy(policies.policy(nri=True, environ=allowed, plugin_environ=strategy))
        await scene.cluster.add_node("a")
        await scene.cluster.create_config(scene.spec)
        async with scene.controller():
            await scene.cluster.ready("False", "DeviceListStrategyUnsupported", "DEVICE_LIST_STRATEGY=envvar")
            await scene.apply_policy(policies.policy(nri=True, environ=allowed))
            await scene.cluster.ready("True", "AllComponentsReady")

    @pytest.mark.parametrize("is_whole", [pytest.param(False, id="the object"), pytest.param(True, id="its CRD")])
    async def test_made_anew(self, *, scene: Scene, is_whole: bool) -> None:
        """
        A ClusterPolicy that is away for a moment restarts no daemon; that it is away is told.
        """
        manifest = policies.policy(nri=True, environ={"NRI_MANAGEMENT_CDI_DEVICE_NAMESPACES": NAMESPACE})
        await scene.define_policies()
        await scene.apply_policy(manifest)
        async with scene.rolled_out("a"):
            before = {pod["metadata"]["uid"] for pod in await scene.cluster.pods()}
            if is_whole:
                await scene.cluster.undefine(policies.policy_definition())
            else:
                await scene.cluster.objects.delete(policies.POLICIES.item_path(manifest["metadata"]["name"]))
            await scene.cluster.ready("True", "AllComponentsReady", "ClusterPolicy is gone")
            await scene.define_policies()
            await scene.apply_policy(manifest)

            async def is_untold() -> bool:
                return (await scene.cluster.conditions())["Ready"][2] == "all components are healthy"

            # An API that was absent is asked for every half minute.
            await scene.cluster.until(is_untold, what="Ready to tell of it no more", timeout_seconds=45.0)
            assert before == {pod["metadata"]["uid"] for pod in await scene.cluster.pods()}

    async def test_unreadable(self, scene: Scene) -> None:
        """
        A ClusterPolicy that cannot be read is told, and the daemons keep the mode that they have; also by a controller
        that never could read it.
        """
        allowed = {"NRI_MANAGEMENT_CDI_DEVICE_NAMESPACES": NAMESPACE}
        await scene.define_policies()
        await scene.apply_policy(policies.policy(nri=True, environ=allowed))
        async with scene.rolled_out("a"):
            before = (await scene.cluster.daemonset(MPSD) or {})["metadata"]["generation"]
        async with rights.without(scene.cluster, *READ_POLICIES), scene.controller():
            await scene.cluster.ready(
                "False", "GPUOperatorNotReady", "unable to read NVIDIA GPU Operator ClusterPolicy"
            )
            after = await scene.cluster.daemonset(MPSD) or {}

        assert before == after["metadata"]["generation"]

    async def test_several(self, scene: Scene) -> None:
        """
        Of several ClusterPolicies the first by name counts.
        """
        await scene.define_policies()
        await scene.apply_policy(policies.policy("b", toolkit="v1.0.0"))
        await scene.apply_policy(policies.policy("a"))
        async with scene.rolled_out("n"):
            await scene.cluster.objects.delete(policies.POLICIES.item_path("a"))
            await scene.cluster.ready("False", "GPUOperandVersionUnsupported", "v1.0.0")


async def _mode(cluster: Cluster) -> tuple[str | None, str | None]:
    template = (await cluster.daemonset(MPSD) or {})["spec"]["template"]
    annotations = template["metadata"].get("annotations", {})
    return template["spec"].get("runtimeClassName"), annotations.get("nvidia.cdi.k8s.io/container.mpsd")


async def _comes_to_mode(cluster: Cluster, expected: tuple[str | None, str | None]) -> None:
    async def is_so() -> bool:
        return await _mode(cluster) == expected

    await cluster.until(is_so, what=f"the mode {expected}")
