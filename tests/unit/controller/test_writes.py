from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from controller import identifiers
from controller.actions import (
    AddFinalizer,
    ApplyDaemonSet,
    DeleteDaemonSet,
    RemoveFinalizer,
    SetNodeCondition,
    WriteStatus,
)
from controller.configreading import CONFIGS
from controller.memory import Applied
from controller.nodesource import NODES
from controller.sources import DAEMONSETS
from controller.world import NodeCondition
from controller.writes import FIELD_MANAGER, Writes
from fractioning_core import names
from fractioning_core.errors import FractioningError
from fractioning_core.kube import errors
from fractioning_core.kube.errors import Conflict
from fractioning_core.kube.nodes import Nodes
from fractioning_core.kube.objects import Objects
from fractioning_core.kube.transport import STRATEGIC_PATCH, Request
from fractioning_core.resource import Condition
from fractioning_core.testing.cluster import FakeCluster

NAMESPACE = "gpu-fractioning"
OURS = DAEMONSETS.within(NAMESPACE)
NAME = "gpu-fractioning-mpsd"
NOW = datetime(2026, 11, 1, 12, 0, 0, tzinfo=UTC)
MANIFEST: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"a": "b"}, "ownerReferences": []},
    "spec": {"template": {"spec": {}}},
}
APPLY = ApplyDaemonSet("mpsd", MANIFEST, "hash")
THEIRS = {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:spec": {}}}


@pytest.fixture
async def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def writes(cluster: FakeCluster) -> Writes:
    return Writes(
        Objects(cluster, field_manager=FIELD_MANAGER),
        nodes=Nodes(cluster, field_manager=FIELD_MANAGER),
        namespace=NAMESPACE,
        utcnow=lambda: NOW,
    )


def config(**metadata: Any) -> Mapping[str, Any]:  # noqa: ANN401 - what JSON holds
    return {"metadata": {"name": "default", **metadata}, "spec": {"nodeSelector": {}}}


class TestConfig:
    """
    What is written on the resource.
    """

    async def test_finalizers(self, cluster: FakeCluster, writes: Writes) -> None:
        """
        The finalizers of the version that was read are replaced, and the namespace is noted as long as one is ours.
        """
        before = cluster.put(CONFIGS, config(finalizers=["other"], annotations={"a": "b"}))
        version = before["metadata"]["resourceVersion"]
        added = await writes.set_finalizers(AddFinalizer(("other", "ours"), "ns", version))
        version = added["metadata"]["resourceVersion"]
        removed = await writes.set_finalizers(RemoveFinalizer(("other",), version))

        noted = {"a": "b", "gpu-fractioning.kai.scheduler/controller-namespace": "ns"}
        assert [(["other", "ours"], noted), (["other"], noted)] == [
            (after["metadata"]["finalizers"], after["metadata"]["annotations"]) for after in (added, removed)
        ]

    async def test_finalizers_of_another_version(self, cluster: FakeCluster, writes: Writes) -> None:
        """
        Those of another version are left alone.
        """
        cluster.put(CONFIGS, config(finalizers=["other"]))
        with pytest.raises(Conflict):
            await writes.set_finalizers(RemoveFinalizer((), "0"))

    async def test_status(self, cluster: FakeCluster, writes: Writes) -> None:
        """
        The status is applied to the subresource under our name.
        """
        cluster.put(CONFIGS, config())
        condition = Condition("Ready", "True", "AllComponentsReady", "", 3, "2026-11-01T12:00:00Z")
        after = await writes.write_status(WriteStatus((condition,), 3))
        request = cluster.asked[-1]

        assert (f"PATCH {CONFIGS.path}/default/status", FIELD_MANAGER, 3, "Ready") == (
            str(request),
            request.query["fieldManager"],
            after["status"]["observedGeneration"],
            after["status"]["conditions"][0]["type"],
        )


class TestDaemonSet:
    """
    How a DaemonSet comes to be as planned.
    """

    async def test_new(self, cluster: FakeCluster, writes: Writes) -> None:
        """
        One that is missing is made with one request; what is remembered is its UID and generation.
        """
        applied = await writes.apply_daemonset(APPLY)

        assert (Applied("uid-1", 1, "hash"), [f"PATCH {OURS.item_path(NAME)}"]) == (
            applied,
            [str(request) for request in cluster.asked],
        )

    async def test_drift(self, cluster: FakeCluster, writes: Writes) -> None:
        """
        What others added to its spec goes; labels that they gave the object itself stay.
        """
        metadata = {"name": NAME, "namespace": NAMESPACE, "labels": {"theirs": "1"}, "managedFields": [THEIRS]}
        cluster.put(OURS, {**MANIFEST, "metadata": metadata, "spec": {"template": {}, "minReadySeconds": 5}})
        applied = await writes.apply_daemonset(APPLY)
        found = cluster.get(OURS, NAME) or {}

        assert (MANIFEST["spec"], {"a": "b", "theirs": "1"}, found["metadata"]["generation"]) == (
            found["spec"],
            found["metadata"]["labels"],
            applied.generation,
        )
        assert ["PATCH", "PUT", "PATCH"] == [request.verb for request in cluster.asked]

    async def test_another_writer(self, cluster: FakeCluster, writes: Writes) -> None:
        """
        Another writer at the same moment is no failure.
        """
        cluster.put(OURS, {**MANIFEST, "metadata": {"name": NAME, "namespace": NAMESPACE, "managedFields": [THEIRS]}})
        refused: list[Request] = []

        def refuse(request: Request) -> FractioningError | None:
            if request.verb == "PUT" and not refused:
                refused.append(request)
                return errors.of_code(str(request), 409, "modified")
            return None

        cluster.refuse = refuse

        assert "hash" == (await writes.apply_daemonset(APPLY)).spec_hash

    async def test_another_writer_for_ever(self, cluster: FakeCluster, writes: Writes) -> None:
        """
        One that writes all the time is.
        """
        cluster.refuse = lambda request: errors.of_code(str(request), 409, "modified")
        with pytest.raises(Conflict):
            await writes.apply_daemonset(APPLY)

        assert 3 == len(cluster.asked)

    @pytest.mark.parametrize(
        ("uid", "left"), [pytest.param("uid-1", 0, id="the one meant"), pytest.param("uid-0", 1, id="made anew")]
    )
    async def test_delete(self, cluster: FakeCluster, writes: Writes, uid: str, left: int) -> None:
        """
        The DaemonSet of that UID is deleted, and its pods follow; another under its name is left.
        """
        cluster.put(OURS, MANIFEST)
        await writes.delete_daemonset(DeleteDaemonSet(NAME, uid))
        body: Any = cluster.asked[-1].body

        assert (left, "Background") == (len(cluster.all(OURS)), body["propagationPolicy"])


class TestNodes:
    """
    What is written on nodes.
    """

    async def test_set(self, cluster: FakeCluster, writes: Writes) -> None:
        """
        The condition is patched by its type on the status alone, with a heartbeat of now.
        """
        cluster.put(NODES, {"metadata": {"name": "a"}})
        condition = NodeCondition("False", "PodMissing", "mpsd pod is missing", "2026-10-01T00:00:00Z")
        await writes.set_node_condition(SetNodeCondition("a", condition))
        request = cluster.asked[-1]

        assert ("PATCH /api/v1/nodes/a/status", STRATEGIC_PATCH) == (str(request), request.content_type)
        assert {
            "status": {
                "conditions": [
                    {
                        "type": identifiers.NODE_CONDITION,
                        "status": "False",
                        "reason": "PodMissing",
                        "message": "mpsd pod is missing",
                        "lastTransitionTime": "2026-10-01T00:00:00Z",
                        "lastHeartbeatTime": "2026-11-01T12:00:00Z",
                    }
                ]
            }
        } == request.body

    async def test_remove(self, cluster: FakeCluster, writes: Writes) -> None:
        """
        The condition of our type is removed, and no other.
        """
        cluster.put(NODES, {"metadata": {"name": "a"}})
        await writes.remove_node_condition("a")

        assert {"status": {"conditions": [{"type": identifiers.NODE_CONDITION, "$patch": "delete"}]}} == cluster.asked[
            -1
        ].body

    async def test_marks(self, cluster: FakeCluster, writes: Writes) -> None:
        """
        Mpsd's label and annotation are removed, and no others.
        """
        metadata = {
            "name": "a",
            "labels": {names.DRIVER_LABEL: "615", "other": "1"},
            "annotations": {names.DRIVER_PROBLEM_ANNOTATION: "mismatch", "other": "1"},
        }
        cluster.put(NODES, {"metadata": metadata})
        await writes.remove_driver_marks("a")
        found = (cluster.get(NODES, "a") or {})["metadata"]

        assert ({"other": "1"}, {"other": "1"}) == (found["labels"], found["annotations"])

    async def test_gone(self, cluster: FakeCluster, writes: Writes) -> None:
        """
        A node that is gone needs nothing any more.
        """
        await writes.remove_node_condition("a")
        await writes.remove_driver_marks("a")
        await writes.set_node_condition(SetNodeCondition("a", NodeCondition("True", "r", "m", "")))

        assert 3 == len(cluster.asked)
