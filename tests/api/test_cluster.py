"""What the tests of the controller rely on: the hollow cluster, and trouble on the way to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
import pytest_asyncio
from apilab import audit, objects
from apilab.cluster import GPU_LABELS, Cluster
from apilab.gate import Gate
from apilab.kubelets import Pod
from apilab.objects import ServiceAccount
from fractioning_core.kube.collections import Collection, Key
from fractioning_core.kube.errors import ApiOverloaded, Conflict, Forbidden
from fractioning_core.kube.mirror import Mirror
from fractioning_core.kube.transport import Request

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAMESPACE = "lab"
DAEMONSETS = Collection("apps", "v1", "daemonsets", NAMESPACE)
LABELS = {"app.kubernetes.io/component": "probe"}


def daemonset() -> Mapping[str, Any]:
    """
    Privileged, on GPU nodes.
    """
    container = {"name": "probe", "image": "probe:1", "securityContext": {"privileged": True}}
    template = {"metadata": {"labels": LABELS}, "spec": {"nodeSelector": GPU_LABELS, "containers": [container]}}
    return {"metadata": {"name": "probe"}, "spec": {"selector": {"matchLabels": LABELS}, "template": template}}


async def counted(cluster: Cluster) -> tuple[int, int]:
    """
    How many pods of the DaemonSet are wanted, and ready.
    """
    status = ((await cluster.objects.get(DAEMONSETS.item_path("probe"))) or {})["status"]
    return status["desiredNumberScheduled"], status["numberReady"]


async def come_to(cluster: Cluster, expected: tuple[int, int]) -> None:
    """
    Wait for these counts.
    """

    async def is_so() -> bool:
        return await counted(cluster) == expected

    await cluster.until(is_so, what=f"{expected} pods wanted and ready")


def own_pods(cluster: Cluster) -> Sequence[Pod]:
    """
    List the DaemonSet's pods; those of tests before may still be there.
    """
    return [pod for pod in cluster.kubelets.pods if pod.component == "probe"]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def account(cluster: Cluster) -> ServiceAccount:
    """
    Somebody without any right.
    """
    return await objects.create_account(cluster.admin, NAMESPACE, "probe")


@pytest_asyncio.fixture(loop_scope="session")
async def lab(cluster: Cluster, account: ServiceAccount) -> AsyncIterator[Cluster]:
    """
    Two GPU nodes, one other, and a DaemonSet.
    """
    for name in ("lab-a", "lab-b"):
        await cluster.add_node(name)
    await cluster.add_node("lab-c", labels={})
    await cluster.objects.create(DAEMONSETS.path, daemonset())
    yield cluster
    await cluster.objects.delete(DAEMONSETS.item_path("probe"))
    for name in ("lab-a", "lab-b", "lab-c"):
        await cluster.objects.delete(f"/api/v1/nodes/{name}")


class TestKubelets:
    async def test_life_of_pods(self, lab: Cluster) -> None:
        """
        A DaemonSet has a ready pod on each matching node, an unready one where its kubelet says so, and none when it
        is gone; a kubelet that is stopped leaves them behind.
        """
        await come_to(lab, (2, 2))
        lab.kubelets.sicken("lab-b", "CrashLoopBackOff")
        await come_to(lab, (2, 1))

        async def is_told() -> bool:
            return any(pod.reason for pod in own_pods(lab))

        await lab.until(is_told, what="the reason of the unready one")
        reasons = {pod.target: pod.reason for pod in own_pods(lab)}
        lab.kubelets.heal("lab-b")
        await come_to(lab, (2, 2))
        lab.kubelets.stop("lab-a")
        await lab.objects.delete(DAEMONSETS.item_path("probe"))

        async def left() -> bool:
            return [pod.target for pod in own_pods(lab)] == ["lab-a"]

        await lab.until(left, what="one pod left")
        lab.kubelets.start("lab-a")

        async def none_left() -> bool:
            return not own_pods(lab)

        await lab.until(none_left, what="no pod left")
        assert {"lab-a": "", "lab-b": "CrashLoopBackOff"} == reasons


class TestAudit:
    async def test_account(self, lab: Cluster, account: ServiceAccount) -> None:
        """
        What a ServiceAccount asks for is in the log with its token, granted or not; what the administrator asks for is
        not.
        """
        token = await objects.issue_token(lab.admin, account)
        since = audit.size(lab.plane.audit_log)
        async with lab.plane.with_token(token) as api:
            with pytest.raises(Forbidden):
                await api.ask(Request("GET", "/api/v1/nodes/lab-a"))
        await lab.node("lab-b")
        (call,) = audit.read(lab.plane.audit_log, since=since)

        assert (403, "lab-a", audit.token_id(token)) == (call.code, call.name, call.token_id)
        assert audit.Right("", "nodes", "get") == call.right
        assert not call.is_write


class TestGate:
    async def test_refusals(self, lab: Cluster) -> None:
        """
        It answers what it was told, as often as it was told, and passes on the rest.
        """
        async with Gate(lab.plane) as gate, lab.plane.admin(url=gate.url) as api:
            gate.refuse(429, verb="GET", path="/nodes/lab-a", headers={"Retry-After": "3"}, times=1)
            with pytest.raises(ApiOverloaded) as refused:
                await api.ask(Request("GET", "/api/v1/nodes/lab-a"))
            passed = await api.ask(Request("GET", "/api/v1/nodes/lab-a"))
            gate.refuse(409)
            with pytest.raises(Conflict):
                await api.ask(Request("GET", "/api/v1/nodes/lab-a"))

        assert 3.0 == refused.value.retry_after_seconds
        assert "lab-a" == passed["metadata"]["name"]
        assert [429, 200, 409] == [each.status for each in gate.seen]

    async def test_watches(self, lab: Cluster) -> None:
        """
        A watch goes through it until it is cut; one that is swallowed tells nothing more.
        """
        news = asyncio.Event()
        async with Gate(lab.plane) as gate, lab.plane.admin(url=gate.url) as api:
            mirror = Mirror(api, Collection("", "v1", "nodes"), select=labels_of, changed=news.set)
            task = asyncio.get_running_loop().create_task(mirror.run())

            async def sees(value: str) -> None:
                await lab.label("lab-a", probe=value)

                async def is_seen() -> bool:
                    return mirror.is_synced and mirror.items[Key("", "lab-a")].get("probe") == value

                await lab.until(is_seen, what=f"the label {value}")

            await sees("1")
            gate.cut_watches()
            await sees("2")
            watches, lists = gate.watches, sum(each.is_list for each in gate.seen)
            gate.swallow_watches()
            await lab.label("lab-a", probe="3")
            await asyncio.sleep(0.5)
            last = mirror.items[Key("", "lab-a")]["probe"]
            task.cancel()

        assert (1, 1, "2") == (watches, lists, last)


class TestJobs:
    async def test_status(self, lab: Cluster) -> None:
        """
        A Job is run once with the image's program; what it ends with is the Job's end.
        """
        spec = {"restartPolicy": "Never", "containers": [{"name": "x", "image": "x", "args": ["no-such-command"]}]}
        job = {"metadata": {"name": "probe"}, "spec": {"template": {"spec": spec}}}
        path = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
        await lab.objects.create(path, job)

        async def failed() -> bool:
            found = await lab.objects.get(f"{path}/probe") or {}
            return "Failed" in [each["type"] for each in found["status"].get("conditions", ())]

        await lab.until(failed, what="the Job to fail")
        assert lab.jobs.outputs["probe"]


def labels_of(manifest: Mapping[str, Any]) -> Mapping[str, str]:
    """
    The labels of an object.
    """
    labels: Mapping[str, str] = manifest["metadata"].get("labels", {})
    return labels
