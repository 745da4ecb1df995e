"""
The chart on a real API server with the real helm: what it renders is accepted, and a release lives and goes as it
should.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from apilab.cluster import CONFIGS, FRACTIOND, MPSD, Cluster
from apilab.controller import Controller
from apilab.controlplane import ControlPlane
from apilab.helm import CHART, NAMESPACE, Helm, Manifest, find, parse
from apilab.scene import Scene
from fractioning_core.kube.collections import Collection
from fractioning_core.kube.errors import NotFound
from fractioning_core.kube.transport import APPLY_PATCH, Request
from lab.errors import CommandFailed, Overdue

pytestmark = pytest.mark.asyncio(loop_scope="session")

SCENARIOS = sorted((CHART / "ci").glob("*-values.yaml"))
# Their CRDs belong to the Prometheus Operator and to OpenShift, which are not here.
FOREIGN = {"ServiceMonitor", "PodMonitor", "SecurityContextConstraints"}
PLURALS = {
    "NetworkPolicy": "networkpolicies",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "GpuFractioningConfig": CONFIGS.plural,
}
CLUSTER_SCOPED = {"ClusterRole", "ClusterRoleBinding", "GpuFractioningConfig"}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def fresh(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """
    A cluster that has never seen the chart.
    """
    async with ControlPlane() as plane, Cluster(plane, directory=tmp_path_factory.mktemp("fresh")) as cluster:
        yield cluster


class TestRelease:
    async def test_life(self, fresh: Cluster, tmp_path: Path) -> None:
        """
        Installed, the daemons roll out. An upgrade and a rollback change what they are about and nothing else. After
        the uninstallation nothing is left but the CRD.
        """
        helm = Helm(fresh.plane.kubeconfig, directory=tmp_path)
        before = await _inventory(fresh)
        await fresh.add_node("a")
        await helm.install({"mpsDaemon": {"logLevel": "warn"}})
        async with await _controller(fresh, helm, tmp_path):
            await fresh.node_told("a", "True")
            installed = await _identity(fresh)
            await helm.upgrade({"metrics": {"port": 9090}, "mpsDaemon": {"logLevel": "warn"}})
            await fresh.ready("True", "AllComponentsReady")
            upgraded = await _identity(fresh)
            await helm.upgrade()
            values = await helm.values()
            await helm.upgrade({"mpsDaemon": {"logLevel": "debug"}})
            await _comes_to_level(fresh, "debug")
            await helm.rollback(1)
            await _comes_to_level(fresh, "warn")
            rolled_back = (await fresh.config() or {})["metadata"]["uid"]
            await helm.uninstall()
            config, condition = await fresh.config(), await fresh.node_condition("a")

        await fresh.objects.delete("/api/v1/nodes/a")
        assert installed == upgraded
        assert {"metrics": {"port": 9090}, "mpsDaemon": {"logLevel": "warn"}} == values
        assert installed[0] == rolled_back
        assert (None, None) == (config, condition)
        assert {"customresourcedefinitions gpufractioningconfigs.gpu-fractioning.kai.scheduler"} == (
            await _settled_inventory(fresh, before)
        )

    async def test_uninstall_without_controller(self, fresh: Cluster, tmp_path: Path) -> None:
        """
        Where no controller lives, an uninstallation does not hang: it ends in time, and the hook says what to do by
        hand.
        """
        helm = Helm(fresh.plane.kubeconfig, directory=tmp_path)
        await helm.install({"configRemover": {"timeoutSeconds": 5}})
        held = {"metadata": {"finalizers": ["gpu-fractioning.nvidia.com/cleanup-node-conditions"]}}
        await fresh.objects.merge_patch(CONFIGS.item_path("default"), held)
        begun = asyncio.get_running_loop().time()
        await helm.uninstall()
        took = asyncio.get_running_loop().time() - begun
        output = "\n".join(text for name, text in fresh.jobs.outputs.items() if "remover" in name)
        await fresh.objects.merge_patch(CONFIGS.item_path("default"), {"metadata": {"finalizers": None}})

        assert took < 30.0
        assert "kubectl patch gpufractioningconfigs default" in output


class TestRendered:
    @pytest.mark.parametrize("scenario", [pytest.param(path, id=path.name) for path in SCENARIOS])
    async def test_accepted(self, scene: Scene, tmp_path: Path, scenario: Path) -> None:
        """
        The API server takes every object of every scenario, and warns of no field that it does not know.
        """
        cluster = scene.cluster
        helm = Helm(cluster.plane.kubeconfig, directory=tmp_path, release="scenario", namespace="default")
        apis = ["--api-versions=monitoring.coreos.com/v1"]
        text = await helm.run("template", "scenario", CHART, f"--values={scenario}", *apis)
        manifests = [each for each in parse(text) if each["kind"] not in FOREIGN]
        for manifest in manifests:
            await _dry_run(cluster, manifest)

        assert "Deployment" in {each["kind"] for each in manifests}

    async def test_unknown_value(self, cluster: Cluster, tmp_path: Path) -> None:
        """
        A value that is misspelled is refused with its name.
        """
        helm = Helm(cluster.plane.kubeconfig, directory=tmp_path)
        with pytest.raises(CommandFailed, match="runtimeClas"):
            await helm.template({"runtimeClas": "nvidia"})


async def _controller(cluster: Cluster, helm: Helm, directory: Path) -> Controller:
    deployment = find(await helm.manifest(), "Deployment")
    return await Controller.of(deployment, plane=cluster.plane, admin=cluster.admin, directory=directory)


async def _identity(cluster: Cluster) -> tuple[object, ...]:
    """
    What an upgrade must not change: which resource it is, and which pods the daemons have.
    """
    config = await cluster.config() or {}
    daemonsets = [await cluster.daemonset(name) or {} for name in (FRACTIOND, MPSD)]
    return config["metadata"]["uid"], *(
        (each["metadata"]["uid"], each["metadata"]["generation"]) for each in daemonsets
    )


async def _comes_to_level(cluster: Cluster, level: str) -> None:
    async def has_level() -> bool:
        container = (await cluster.daemonset(MPSD) or {})["spec"]["template"]["spec"]["containers"][0]
        return level in container.get("args", ())

    await cluster.until(has_level, what=f"mpsd to log at {level}")


async def _dry_run(cluster: Cluster, manifest: Manifest) -> None:
    path = _collection(manifest).item_path(manifest["metadata"]["name"])
    query = {"fieldManager": "dry-run", "dryRun": "All", "fieldValidation": "Strict", "force": "true"}
    await cluster.admin.ask(Request("PATCH", path, query=query, body=manifest, content_type=APPLY_PATCH))


def _collection(manifest: Manifest) -> Collection:
    group, _, version = manifest["apiVersion"].rpartition("/")
    kind = manifest["kind"]
    namespace = "" if kind in CLUSTER_SCOPED else manifest["metadata"].get("namespace", "default")
    return Collection(group, version, PLURALS.get(kind, f"{kind.lower()}s"), namespace)


async def _settled_inventory(cluster: Cluster, before: set[str]) -> set[str]:
    """
    What is there that was not, once the garbage collection has done its part.
    """
    left: set[str] = set()

    async def is_settled() -> bool:
        nonlocal left
        left = await _inventory(cluster) - before
        return len(left) <= 1

    # What is left in the end is for the caller to judge.
    with suppress(Overdue):
        await cluster.until(is_settled, what="the garbage collection", timeout_seconds=20.0)
    return left


async def _inventory(cluster: Cluster) -> set[str]:
    """
    Name all objects that the chart or the controller could have made, in the cluster and in the release's namespace.
    """
    found: set[str] = set()
    for group in ("", "apps", "batch", "coordination.k8s.io", "rbac.authorization.k8s.io", "apiextensions.k8s.io"):
        found |= await _of_group(cluster, group)
    # The lease outlives its holders, an event its cause; Kubernetes itself makes the others in every namespace.
    kept = ("events", "leases gpu-fractioning", "serviceaccounts default", "configmaps kube-root-ca.crt", "namespaces")
    return {name for name in found if not name.startswith(kept)}


async def _of_group(cluster: Cluster, group: str) -> set[str]:
    root = f"/apis/{group}/v1" if group else "/api/v1"
    resources = (await cluster.admin.ask(Request("GET", root)))["resources"]
    found: set[str] = set()
    for kind in resources:
        if "list" not in kind["verbs"]:
            continue
        collection = Collection(group, "v1", kind["name"], NAMESPACE if kind["namespaced"] else "")
        try:
            answer: Mapping[str, Any] = await cluster.admin.ask(Request("GET", collection.path))
        except NotFound:
            continue
        names = [each["metadata"]["name"] for each in answer["items"] if not _is_built_in(each)]
        found |= {f"{kind['name']} {name}" for name in names}
    return found


def _is_built_in(manifest: Manifest) -> bool:
    """
    Tell a role that the API server makes while it starts.
    """
    return "kubernetes.io/bootstrapping" in manifest["metadata"].get("labels", {})
