"""
What the controller makes of changes, of its resource by users and of its DaemonSets by others.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from apilab.cluster import DAEMONSETS, FRACTIOND, MPSD
from apilab.scene import Scene
from fractioning_core.kube.transport import Request

pytestmark = pytest.mark.asyncio(loop_scope="session")


class TestChange:
    @pytest.mark.parametrize(
        ("name", "section", "words"),
        [
            pytest.param(MPSD, {"mpsDaemon": {"logLevel": "debug"}}, ["--log-level", "debug"], id="mpsd"),
            pytest.param(
                FRACTIOND, {"fractioningAgent": {"logLevel": "warn"}}, ["--log-level", "warn"], id="fractiond"
            ),
            pytest.param(
                FRACTIOND,
                {"fractioningAgent": {"annotationPrefix": "custom.example.com/c."}},
                ["--annotation-prefix", "custom.example.com/c."],
                id="annotation prefix",
            ),
        ],
    )
    async def test_arguments(self, scene: Scene, name: str, section: Mapping[str, Any], words: list[str]) -> None:
        """
        A field of the resource becomes an argument of its daemon, and the pods are replaced.
        """
        async with scene.rolled_out("a", "b"):
            before = (await scene.cluster.daemonset(name) or {})["metadata"]["generation"]
            await scene.cluster.edit_config(**section)

            async def rolled() -> bool:
                daemonset = await scene.cluster.daemonset(name) or {}
                status = daemonset["status"]
                return bool(
                    daemonset["metadata"]["generation"] > before
                    and status["observedGeneration"] == daemonset["metadata"]["generation"]
                    and status.get("updatedNumberScheduled") == status.get("numberReady") == 2
                )

            await scene.cluster.until(rolled, what="the new pods to be ready")
            await scene.cluster.ready("True", "AllComponentsReady")
            daemonset = await scene.cluster.daemonset(name) or {}
            pods = await scene.cluster.pods(name.removeprefix("gpu-fractioning-"))

        assert "RollingUpdate" == daemonset["spec"]["updateStrategy"]["type"]
        for spec in (daemonset["spec"]["template"]["spec"], *(pod["spec"] for pod in pods)):
            arguments = spec["containers"][0]["args"]
            at = arguments.index(words[0])
            assert words == arguments[at : at + 2]

    async def test_foreign_edit(self, scene: Scene) -> None:
        """
        What somebody else writes into a pod template is taken out again, and what is left is not written once more.
        """
        async with scene.rolled_out("a"):
            path = DAEMONSETS.item_path(MPSD)
            before = await scene.cluster.daemonset(MPSD) or {}
            extra = {"spec": {"template": {"metadata": {"annotations": {"drift/marker": "x"}}}}}
            await scene.cluster.objects.merge_patch(path, extra)

            async def is_reverted() -> bool:
                now = await scene.cluster.daemonset(MPSD) or {}
                has_moved = now["metadata"]["generation"] > before["metadata"]["generation"] + 1
                return bool(has_moved and now["spec"] == before["spec"])

            await scene.cluster.until(is_reverted, what="the annotation to go")
            reverted = await scene.cluster.daemonset(MPSD) or {}
            await asyncio.sleep(2.0)
            after = await scene.cluster.daemonset(MPSD) or {}

        assert reverted["metadata"]["generation"] == after["metadata"]["generation"]

    async def test_another_programs(self, scene: Scene) -> None:
        """
        DaemonSets that another program made for the same resource become ours whole: nothing that it wrote is left, nor
        the record that it did, and a second start of the controller changes nothing.
        """
        async with scene.rolled_out("a"):
            pass
        before = [await scene.cluster.daemonset(name) or {} for name in (FRACTIOND, MPSD)]
        for daemonset in before:
            await _make_anew(scene, daemonset, manager="manager")
        generations = []
        for _ in range(2):
            async with scene.controller() as controller:
                await controller.ready()
                await scene.cluster.until(lambda: _are_like(scene, before), what="the DaemonSets to be ours")
                await scene.cluster.ready("True", "AllComponentsReady")
                await scene.at_rest(controller)
                after = [await scene.cluster.daemonset(name) or {} for name in (FRACTIOND, MPSD)]
                generations.append([daemonset["metadata"]["generation"] for daemonset in after])

        assert generations[0] == generations[1]
        assert {"gpu-fractioning-controller"} == {
            entry["manager"]
            for each in after
            for entry in each["metadata"]["managedFields"]
            if "f:spec" in entry["fieldsV1"]
        }

    async def test_foreign_delete(self, scene: Scene) -> None:
        """
        A DaemonSet that somebody deletes is made again.
        """
        async with scene.rolled_out("a"):
            before = await scene.cluster.daemonset(MPSD) or {}
            await scene.cluster.objects.delete(DAEMONSETS.item_path(MPSD))

            async def is_another() -> bool:
                now = await scene.cluster.daemonset(MPSD) or {}
                return bool(now) and now["metadata"]["uid"] != before["metadata"]["uid"]

            await scene.cluster.until(is_another, what="another DaemonSet")
            await scene.cluster.ready("True", "AllComponentsReady")

    async def test_foreign_owner(self, scene: Scene) -> None:
        """
        A DaemonSet of somebody else under our name is left alone and named; when it goes, ours takes its place.
        """
        path = DAEMONSETS.item_path(MPSD)
        await scene.cluster.objects.create(DAEMONSETS.path, _foreign(MPSD))
        before = await scene.cluster.daemonset(MPSD) or {}
        await scene.cluster.add_node("a")
        await scene.cluster.create_config(scene.spec)
        async with scene.controller():
            await scene.cluster.told("MpsdReady", "False", "ReconcileError", MPSD)
            kept = await scene.cluster.daemonset(MPSD) or {}
            await scene.cluster.objects.delete(path)
            await scene.cluster.ready("True", "AllComponentsReady")

        assert before["spec"] == kept["spec"]
        assert before["metadata"]["generation"] == kept["metadata"]["generation"]


async def _make_anew(scene: Scene, daemonset: Mapping[str, Any], *, manager: str) -> None:
    """
    Put another in a DaemonSet's place, as a program that writes objects whole makes one: with an image of its own, and
    a field that we leave out.
    """
    metadata, spec = daemonset["metadata"], copy.deepcopy(daemonset["spec"])
    spec["minReadySeconds"] = 1
    spec["template"]["spec"]["containers"][0]["image"] = "another:1"
    kept = {key: metadata[key] for key in ("name", "namespace", "labels", "ownerReferences")}
    await scene.cluster.objects.delete(DAEMONSETS.item_path(metadata["name"]))

    async def is_gone() -> bool:
        return await scene.cluster.daemonset(metadata["name"]) is None

    await scene.cluster.until(is_gone, what="the old DaemonSet to go")
    body = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": kept, "spec": spec}
    await scene.cluster.admin.ask(Request("POST", DAEMONSETS.path, query={"fieldManager": manager}, body=body))


async def _are_like(scene: Scene, wanted: Sequence[Mapping[str, Any]]) -> bool:
    found = [await scene.cluster.daemonset(each["metadata"]["name"]) or {} for each in wanted]
    return [each["spec"] for each in wanted] == [each.get("spec") for each in found]


def _foreign(name: str) -> Mapping[str, Any]:
    labels = {"app": "foreign"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
