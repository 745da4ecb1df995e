"""
What is left when the resource is deleted.
"""

from __future__ import annotations

import asyncio

import pytest
from apilab.cluster import CONFIGS, DAEMONSETS, FRACTIOND, GPU_LABELS, MPSD, NODES, node_of
from apilab.scene import Scene
from fractioning_core import names

pytestmark = pytest.mark.asyncio(loop_scope="session")


class TestDeletion:
    async def test_cleans_up(self, scene: Scene) -> None:
        """
        The nodes lose our condition and mpsd's label and keep the rest, a node that is not ours keeps all, the daemons
        go, and then the resource.
        """
        await scene.cluster.add_node("other", labels={names.DRIVER_LABEL: "615"})
        async with scene.rolled_out("a", "b"):
            await scene.cluster.objects.delete(CONFIGS.item_path("default"))
            await scene.cluster.config_gone()
            labels = [(await scene.cluster.node(node))["metadata"]["labels"] for node in ("a", "b", "other")]
            kinds = [each["type"] for each in (await scene.cluster.node("a"))["status"]["conditions"]]

        assert ["Ready"] == kinds
        assert [None, None, "615"] == [each.get(names.DRIVER_LABEL) for each in labels]
        assert [None, None] == [await scene.cluster.daemonset(name) for name in (FRACTIOND, MPSD)]

    async def test_nothing_to_clean(self, scene: Scene) -> None:
        """
        Where nothing carries anything of ours, it just goes.
        """
        async with scene.rolled_out():
            await scene.cluster.objects.delete(CONFIGS.item_path("default"))
            await scene.cluster.config_gone()

    async def test_vanishing_node(self, scene: Scene) -> None:
        """
        A node that goes meanwhile does not keep it.
        """
        async with scene.rolled_out("a", "b", "c"):
            async with asyncio.TaskGroup() as group:
                group.create_task(scene.cluster.objects.delete(CONFIGS.item_path("default")))
                group.create_task(scene.cluster.objects.delete(NODES.item_path("b")))
            await scene.cluster.config_gone()

    async def test_dead_node(self, scene: Scene) -> None:
        """
        Pods that never go, on a node that does not answer, keep neither the resource nor, when it is made anew, the
        daemons of the other nodes.
        """
        spec = {**scene.spec, "mpsDaemon": {"gracefulStopDelay": "1s"}}
        async with scene.rolled_out("a", "b", spec=spec):
            former = {pod["metadata"]["uid"] for pod in await scene.cluster.pods() if node_of(pod) == "b"}
            scene.cluster.kubelets.stop("b")
            await scene.cluster.objects.delete(CONFIGS.item_path("default"))
            await scene.cluster.config_gone(timeout_seconds=75.0)
            await scene.cluster.create_config(spec)
            await scene.cluster.node_told("a", "True")

            assert former <= {pod["metadata"]["uid"] for pod in await scene.cluster.pods()}
            scene.cluster.kubelets.start("b")
            await scene.cluster.ready("True", "AllComponentsReady")

    async def test_foreground(self, scene: Scene) -> None:
        """
        Where somebody deletes a DaemonSet after its pods, it is said which node it waits for.
        """
        async with scene.rolled_out("a", "b"):
            scene.cluster.kubelets.stop("b")
            await scene.cluster.objects.delete(DAEMONSETS.item_path(MPSD), propagation="Foreground")
            text = "the former DaemonSet waits for its pods on b"
            await scene.cluster.told("MpsdReady", "False", "RolloutInProgress", text)
            await scene.cluster.ready("False", "ComponentNotReady", text)
            scene.cluster.kubelets.start("b")
            await scene.cluster.ready("True", "AllComponentsReady")

    async def test_another_selector(self, scene: Scene) -> None:
        """
        Made again with another selector, it is the other nodes that are served.
        """
        await scene.cluster.add_node("b", labels={**GPU_LABELS, "pool": "b"})
        async with scene.rolled_out("a"):
            await scene.cluster.objects.delete(CONFIGS.item_path("default"))
            await scene.cluster.config_gone()
            await scene.cluster.create_config({**scene.spec, "nodeSelector": {"pool": "b"}})
            await scene.cluster.node_told("b", "True")
            await scene.cluster.ready("True", "AllComponentsReady")

            assert await scene.cluster.node_condition("a") is None
            assert {"b"} == {node_of(pod) for pod in await scene.cluster.pods()}
