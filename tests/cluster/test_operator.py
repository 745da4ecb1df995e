"""
The whole release through its life: what is refused, what is made, that it stays as it is, and how it recovers.

Every test finds the release steady (the fixture waits for it) and leaves it so. Driver, GPUs and NVIDIA's runtime are
simulated; the GPU Operator is only its objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from clusterlab import client, fractioningconfig, processes
from clusterlab.client import NODES, Object
from clusterlab.fractioningconfig import Snapshot
from clusterlab.placement import NODE_CONDITION
from clusterlab.release import (
    CONFIG,
    DAEMONSETS,
    DEPLOYMENT,
    FRACTIOND,
    MPSD,
    PODS,
    READY_SECONDS,
    Release,
)
from clusterlab.worker import RunningWorker
from fractioning_core.kube.errors import ApiRejection
from lab import waiting

BOTH = (FRACTIOND, MPSD)
# What is not to happen is given so long.
QUIET_SECONDS = 15.0


def verdict(found: Object, kind: str) -> tuple[str, str]:
    """
    Give status and reason of a condition.
    """
    one = client.condition(found, kind) or {}
    return one["status"], one["reason"]


async def generations(release: Release) -> dict[str, int]:
    """
    Read the generations of all that the controller writes, and of the resource.
    """
    found = {name: await release.daemonset(name) for name in BOTH} | {"config": await release.config()}
    return {name: one["metadata"]["generation"] for name, one in found.items()}


async def pod_spec(release: Release, name: str) -> dict[str, Any]:
    """
    Read the pod that a DaemonSet makes.
    """
    spec: dict[str, Any] = (await release.daemonset(name))["spec"]["template"]["spec"]
    return spec


def host_mounts(spec: Mapping[str, Any]) -> set[str]:
    """
    Give the paths of the node that a pod has.
    """
    return {volume["hostPath"]["path"] for volume in spec["volumes"]}


async def one_node_says(release: Release, part: str) -> str:
    """
    Wait until a GPU node, whichever it is, is not ready with this in its message; gives the message.
    """

    async def look() -> str | None:
        for node in release.gpu_nodes():
            found = client.condition(await release.api.get(f"{NODES}/{node}") or {}, NODE_CONDITION) or {}
            if found.get("status") == "False" and part in found["message"]:
                return str(found["message"])
        return None

    return await waiting.until_awaited(look, what=f"a node that says {part!r}", timeout_seconds=READY_SECONDS)


@asynccontextmanager
async def without_socket(worker: RunningWorker) -> AsyncIterator[None]:
    """
    Keep deleting the control socket of a worker while entered.
    """

    async def delete() -> None:
        while True:
            processes.socket(worker).unlink(missing_ok=True)
            await asyncio.sleep(0.5)

    task = asyncio.get_running_loop().create_task(delete())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class TestValidation:
    async def test_rejects_non_default_cr_name(self, release: Release) -> None:
        """
        The resource has one name.
        """
        manifest = Snapshot.of(await release.config()).manifest()
        manifest["metadata"]["name"] = "not-default"

        with pytest.raises(ApiRejection, match="must be named 'default'"):
            await fractioningconfig.create(release, manifest, dryRun="All")

    async def test_rejects_missing_node_selector(self, release: Release) -> None:
        """
        Which nodes to serve has to be said.
        """
        manifest = Snapshot.of(await release.config()).manifest()
        del manifest["spec"]["nodeSelector"]

        with pytest.raises(ApiRejection, match="nodeSelector"):
            await fractioningconfig.create(release, manifest, dryRun="All")

    async def test_node_selector_immutable(self, release: Release) -> None:
        """
        Which nodes to serve does not change.
        """
        with pytest.raises(ApiRejection, match="immutable"):
            await release.api.patch(CONFIG, {"spec": {"nodeSelector": {"other": "label"}}}, dryRun="All")


class TestDeployment:
    async def test_both_daemon_sets_ready(self, release: Release) -> None:
        """
        Each daemon has a ready pod on each GPU node, with its containers.
        """
        count = len(release.gpu_nodes())
        found = {name: (await release.rolled_out(name, count=count))["spec"]["template"]["spec"] for name in BOTH}

        assert {FRACTIOND: ["fractiond", "metricsd"], MPSD: ["mpsd"]} == {
            name: [each["name"] for each in spec["containers"]] for name, spec in found.items()
        }

    @pytest.mark.parametrize("name", BOTH)
    async def test_naming_and_labels(self, release: Release, name: str) -> None:
        """
        DaemonSet and pods say whose they are, and which component.
        """
        found = await release.daemonset(name)

        labels = {
            "app.kubernetes.io/managed-by": "gpu-fractioning",
            "app.kubernetes.io/component": name.removeprefix("gpu-fractioning-"),
        }
        assert labels.items() <= found["metadata"]["labels"].items()
        assert labels.items() <= found["spec"]["template"]["metadata"]["labels"].items()

    @pytest.mark.parametrize("name", BOTH)
    async def test_owner_references(self, release: Release, name: str) -> None:
        """
        The resource owns the DaemonSets.
        """
        (owner,) = (await release.daemonset(name))["metadata"]["ownerReferences"]

        assert ("GpuFractioningConfig", "default", True) == (owner["kind"], owner["name"], owner["controller"])

    async def test_scheduling_scope(self, release: Release) -> None:
        """
        One pod of each daemon runs on each GPU node and none elsewhere, and only those nodes have the condition.
        """
        gpu_nodes = sorted(release.gpu_nodes())
        places = {name: sorted([pod["spec"]["nodeName"] for pod in await release.pods(name)]) for name in BOTH}
        nodes = await release.api.list(NODES)

        assert dict.fromkeys(BOTH, gpu_nodes) == places
        assert gpu_nodes == sorted(
            node["metadata"]["name"] for node in nodes if client.condition(node, NODE_CONDITION) is not None
        )

    async def test_fractiond_pod_spec(self, release: Release) -> None:
        """
        The node's processes and sockets are seen, and metricsd, which touches GPUs, is privileged beside fractiond.
        """
        spec = await pod_spec(release, FRACTIOND)

        assert spec["hostPID"]
        assert {"fractiond": False, "metricsd": True} == {
            each["name"]: each["securityContext"].get("privileged", False) for each in spec["containers"]
        }
        assert {"/run/nvidia-mps", "/var/run/nri"} <= host_mounts(spec)

    async def test_mpsd_pod_spec(self, release: Release) -> None:
        """
        Mpsd sees the node's processes, has an account and the driver, and the probe asks mpsd itself.
        """
        spec = await pod_spec(release, MPSD)

        (container,) = spec["containers"]
        environment = {each["name"]: each.get("value") for each in container["env"]}
        assert spec["hostPID"]
        assert spec["serviceAccountName"]
        assert container["securityContext"]["privileged"]
        assert "/run/nvidia-mps" in host_mounts(spec)
        assert ("all", "compute,utility") == (
            environment["NVIDIA_VISIBLE_DEVICES"],
            environment["NVIDIA_DRIVER_CAPABILITIES"],
        )
        # Not a look at the socket: a daemon that hangs has one, too.
        assert "/readyz" == container["readinessProbe"]["httpGet"]["path"]

    async def test_mpsd_readiness_socket(self, release: Release) -> None:
        """
        Where mpsd is ready, the control socket is there.
        """
        sockets = {node: processes.socket(release.cluster.worker(node)) for node in release.gpu_nodes()}

        assert dict.fromkeys(sockets, True) == {node: path.is_socket() for node, path in sockets.items()}

    async def test_node_condition_ready(self, release: Release) -> None:
        """
        Each GPU node says that all daemons are ready.
        """
        found = {node: await release.node_is(node, "True") for node in release.gpu_nodes()}

        assert dict.fromkeys(found, "AllDaemonsReady") == {node: one["reason"] for node, one in found.items()}

    async def test_nothing_moves(self, release: Release) -> None:
        """
        ReconcileIdempotent, ReadyTransitionTimeStable, NodeConditionStable: left alone, nothing is written anew.
        """

        async def look() -> object:
            config = await release.config()
            nodes = [await release.api.get(f"{NODES}/{node}") or {} for node in release.gpu_nodes()]
            times = [client.condition(config, kind) for kind in ("Ready", "FractiondReady", "MpsdReady")]
            return await generations(release), times, [client.condition(node, NODE_CONDITION) for node in nodes]

        before = await look()
        await asyncio.sleep(QUIET_SECONDS)

        assert before == await look()


class TestRecovery:
    async def test_mpsd_fault_and_recovery(self, release: Release) -> None:
        """
        A node whose control socket is gone is not ready, mpsd and Ready are False, the rest is not concerned; it heals.
        """
        faulty, healthy = release.gpu_nodes()
        async with without_socket(release.cluster.worker(faulty)):
            await release.node_is(faulty, "False")
            await release.condition_is("MpsdReady", "False")
            await release.condition_is("Ready", "False")

            config = await release.config()
            assert "True" == verdict(config, "FractiondReady")[0]
            await release.node_is(healthy, "True", timeout_seconds=0)
        await release.steady()

    async def test_fractiond_socket_fault_isolation(self, release: Release) -> None:
        """
        An NRI socket that is not there makes fractiond's nodes not ready, and leaves mpsd alone; it heals.
        """
        bogus = "/var/run/nri-e2e-bogus/nri.sock"
        async with fractioningconfig.changed(release, fractioningAgent={"nriSocketPath": bogus}):
            await release.condition_is("FractiondReady", "False")
            await release.condition_is("Ready", "False")
            await release.has_argument(FRACTIOND, bogus)

            said = await one_node_says(release, "fractiond pod is not ready")

            assert "mpsd" not in said
            assert "True" == verdict(await release.config(), "MpsdReady")[0]
            await release.rolled_out(MPSD, count=2, timeout_seconds=0)

    async def test_supervisor_backoff_no_restart(self, release: Release) -> None:
        """
        A control daemon that is killed is started again by mpsd, whose container goes on.
        """
        node = release.gpu_nodes()[0]
        worker = release.cluster.worker(node)
        before = await release.restarts(MPSD, node=node)
        former = await processes.kill_control_daemon(worker)

        await processes.another_control_daemon(worker, former)
        assert before == await release.restarts(MPSD, node=node)

    async def test_retry_budget_exhausted_restart(self, release: Release) -> None:
        """
        An mpsd whose daemon dies again and again gives up, and the kubelet starts its container anew.
        """
        async with fractioningconfig.changed(release, mpsDaemon={"maxRetries": 2, "backoff": "1s"}):
            await release.has_argument(MPSD, "--max-retries")
            await release.steady()
            node = release.gpu_nodes()[0]
            before = await release.restarts(MPSD, node=node)
            for _ in range(4):
                await processes.kill_control_daemon(release.cluster.worker(node))
                await asyncio.sleep(2)

            await release.restarted(MPSD, node=node, more_than=before)

    async def test_spec_drift_reverted(self, release: Release) -> None:
        """
        What somebody else writes into a DaemonSet's template is taken out again.
        """
        marker = "e2e.drift/marker"
        template = {"metadata": {"annotations": {marker: "drift"}}}
        await release.api.patch(f"{DAEMONSETS}/{MPSD}", {"spec": {"template": template}})

        await release.api.until(
            f"{DAEMONSETS}/{MPSD}",
            lambda one: marker not in one["spec"]["template"]["metadata"].get("annotations", {}),
            what="the marker to be gone",
            timeout_seconds=30,
        )

    async def test_deleted_daemon_set_recreated(self, release: Release) -> None:
        """
        A DaemonSet that is deleted comes back and rolls out.
        """
        before = (await release.daemonset(MPSD))["metadata"]["uid"]
        await release.api.delete(f"{DAEMONSETS}/{MPSD}")

        found = await release.api.until(
            f"{DAEMONSETS}/{MPSD}",
            lambda one: one["metadata"]["uid"] != before,
            what=f"another {MPSD}",
            timeout_seconds=60,
        )
        assert before != found["metadata"]["uid"]
        await release.rolled_out(MPSD, count=2)

    async def test_controller_restart_transparent(self, release: Release) -> None:
        """
        A controller that starts anew finds everything as it wants it, and writes nothing.
        """
        before = await generations(release)
        annotations = {"kubectl.kubernetes.io/restartedAt": "now"}
        await release.api.patch(DEPLOYMENT, {"spec": {"template": {"metadata": {"annotations": annotations}}}})
        await release.api.until(
            DEPLOYMENT,
            lambda one: (
                one["status"].get("updatedReplicas") == one["status"].get("replicas") == 1
                and one["status"].get("availableReplicas") == 1
                and one["status"].get("observedGeneration") == one["metadata"]["generation"]
            ),
            what="the new controller",
            timeout_seconds=120,
        )
        await release.steady()

        assert before == await generations(release)


class TestPropagation:
    async def test_mpsd_config_to_args(self, release: Release) -> None:
        """
        RollingUpdateConverges: a setting of mpsd's becomes its argument, by a rolling update that ends.
        """
        before = (await release.daemonset(MPSD))["metadata"]["generation"]
        async with fractioningconfig.changed(release, mpsDaemon={"logLevel": "debug"}):
            found = await release.has_argument(MPSD, "debug")

            assert "RollingUpdate" == found["spec"]["updateStrategy"]["type"]
            assert before < found["metadata"]["generation"]
            await release.steady()

    async def test_fractiond_config_to_args(self, release: Release) -> None:
        """
        A setting of fractiond's becomes its argument.
        """
        async with fractioningconfig.changed(release, fractioningAgent={"logLevel": "warn"}):
            found = await release.has_argument(FRACTIOND, "warn")

            arguments = found["spec"]["template"]["spec"]["containers"][0]["args"]
            assert "warn" == arguments[arguments.index("--log-level") + 1]


class TestTeardown:
    async def test_teardown_and_cleanup(self, release: Release) -> None:
        """
        RollsOutToReady: with the resource go daemons and conditions; made anew, everything is Ready again.
        """
        before = await fractioningconfig.removed(release)

        assert [] == [*await release.pods(FRACTIOND), *await release.pods(MPSD)]
        await fractioningconfig.create(release, before.manifest())
        await release.steady()
        config = await release.config()
        assert [("True", "AllPodsReady"), ("True", "AllPodsReady"), ("True", "AllComponentsReady")] == [
            verdict(config, kind) for kind in ("FractiondReady", "MpsdReady", "Ready")
        ]

    async def test_zero_match_selector_is_ready(self, release: Release) -> None:
        """
        A selector that no node has is fulfilled by no daemon.
        """
        before = await fractioningconfig.removed(release)
        try:
            await fractioningconfig.create(release, before.manifest(nodeSelector={"no.node/has": "this"}))
            await release.condition_is("Ready", "True")

            config = await release.config()
            assert [("True", "NoTargetNodes"), ("True", "NoTargetNodes"), ("True", "AllComponentsReady")] == [
                verdict(config, kind) for kind in ("FractiondReady", "MpsdReady", "Ready")
            ]
            assert [0, 0] == [(await release.daemonset(name))["status"]["desiredNumberScheduled"] for name in BOTH]
        finally:
            await fractioningconfig.removed(release)
            await fractioningconfig.create(release, before.manifest())
            await release.steady()

    async def test_uninstall_and_install(self, release: Release) -> None:
        """
        Helm takes away all but the definition of the resource, and installs it again to Ready in less than a minute.
        """
        await release.helm().uninstall()
        await fractioningconfig.cleaned(release)
        for pod in await release.pods():
            await release.api.until_gone(f"{PODS}/{pod['metadata']['name']}", timeout_seconds=60)
        started = asyncio.get_running_loop().time()
        await release.install()
        await release.steady()

        assert asyncio.get_running_loop().time() - started < 60
