"""
The rights that the chart grants the controller: enough, none too many, and what it says when one is missing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import pytest
from apilab import policies, rights
from apilab.audit import Right
from apilab.cluster import CONFIGS, DAEMONSETS, MPSD, NODES
from apilab.controller import LOCAL_FLAGS, Controller
from apilab.gate import Gate
from apilab.scene import Scene

pytestmark = pytest.mark.asyncio(loop_scope="session")

OURS = "gpu-fractioning.kai.scheduler"
LEASES = "coordination.k8s.io"
LEASE = f"/apis/{LEASES}/v1/namespaces/gpu-fractioning/leases/{OURS}"
CANDIDATE = ("--leader-elect=true",)
# A server that does not know how to stream what is there answers so, and everything is listed in pages.
UNKNOWN_PARAMETER = 422

# Which rights are taken together, and which of them the refusal names: what is read is watched, or listed in pages.
TAKEN = [
    pytest.param([Right(OURS, "gpufractioningconfigs", verb) for verb in ("list", "watch")], id="configs read"),
    pytest.param([Right(OURS, "gpufractioningconfigs", "patch")], id="finalizer"),
    pytest.param([Right(OURS, "gpufractioningconfigs/status", "patch")], id="status"),
    pytest.param([Right("", "nodes", verb) for verb in ("list", "watch")], id="nodes read"),
    pytest.param([Right("", "nodes", "patch")], id="driver label"),
    pytest.param([Right("", "nodes/status", "patch")], id="node condition"),
    pytest.param([Right("", "events", "create")], id="events"),
    pytest.param([Right("nvidia.com", "clusterpolicies", verb) for verb in ("list", "watch")], id="policies"),
    pytest.param(
        [Right("operators.coreos.com", "clusterserviceversions", verb) for verb in ("list", "watch")],
        id="service versions",
    ),
    pytest.param([Right("apps", "daemonsets", verb) for verb in ("list", "watch")], id="daemonsets read"),
    pytest.param([Right("apps", "daemonsets", "create")], id="daemonsets made"),
    pytest.param([Right("apps", "daemonsets", "patch")], id="daemonsets changed"),
    pytest.param([Right("apps", "daemonsets", "update")], id="daemonsets restored"),
    pytest.param([Right("apps", "daemonsets", "delete")], id="daemonsets deleted"),
    pytest.param([Right("", "pods", verb) for verb in ("list", "watch")], id="pods"),
    pytest.param([Right(LEASES, "leases", "create")], id="lease made"),
    pytest.param([Right(LEASES, "leases", "get")], id="lease read"),
    pytest.param([Right(LEASES, "leases", "update")], id="lease renewed"),
]


class TestMissing:
    @pytest.mark.parametrize("taken", TAKEN)
    async def test_told(self, scene: Scene, taken: Sequence[Right]) -> None:
        """
        Whichever right is missing, the controller lives on and says what it cannot do: in a condition, an event, its
        readiness or its log.
        """
        flags = CANDIDATE if taken[0].group == LEASES else LOCAL_FLAGS
        await scene.cluster.objects.delete(LEASE)
        await scene.define_policies()
        await scene.cluster.add_node("a")
        await scene.cluster.create_config(scene.spec)
        async with rights.without(scene.cluster, *taken), scene.controller(flags=flags) as controller:
            task = asyncio.get_running_loop().create_task(_live_through_everything(scene))
            try:
                await scene.cluster.until(
                    lambda: _says_one_of(scene, controller, [_refusal(right) for right in taken]),
                    what=" or ".join(map(_refusal, taken)),
                    timeout_seconds=30.0,
                )
            finally:
                task.cancel()

            assert controller.service.exit_code is None

    async def test_events_read(self, scene: Scene) -> None:
        """
        Where events cannot be read, a metric says so, and all the rest goes on.
        """
        taken = [Right("", "events", verb) for verb in ("list", "watch")]
        await scene.cluster.add_node("a")
        await scene.cluster.create_config(scene.spec)
        async with rights.without(scene.cluster, *taken), scene.controller() as controller:
            await scene.cluster.until(lambda: _stale(controller, "events"), what="the metric")
            await scene.cluster.ready("True", "AllComponentsReady")

    async def test_taken_later(self, scene: Scene) -> None:
        """
        What may be read no more, when it was read before, takes Ready after a minute, and gives it back.
        """
        resources = [(OURS, "gpufractioningconfigs"), ("apps", "daemonsets"), ("", "pods"), ("", "nodes")]
        resources += [("", "events"), ("nvidia.com", "clusterpolicies")]
        taken = [Right(group, name, verb) for group, name in resources for verb in ("list", "watch")]
        await scene.define_policies()
        async with Gate(scene.cluster.plane) as gate, scene.rolled_out("a", url=gate.url):
            async with rights.without(scene.cluster, *taken):
                gate.cut_watches()
                # Policies have a reason of their own; the others are told beside.
                await scene.cluster.ready("False", "GPUOperatorNotReady", "clusterpolicies", timeout_seconds=90.0)
                for _, name in resources:
                    await scene.cluster.ready("False", "GPUOperatorNotReady", f"cannot watch {name}")
            await scene.cluster.ready("True", "AllComponentsReady", timeout_seconds=45.0)

    async def test_taken_from_daemons(self, scene: Scene) -> None:
        """
        Without the pods, say, nobody knows whether all is still well.
        """
        taken = [Right("", "pods", verb) for verb in ("list", "watch")]
        async with Gate(scene.cluster.plane) as gate, scene.rolled_out("a", url=gate.url):
            async with rights.without(scene.cluster, *taken):
                gate.cut_watches()
                text = "cannot watch pods in gpu-fractioning"
                await scene.cluster.ready("Unknown", "ClusterNotReadable", text, timeout_seconds=90.0)
            await scene.cluster.ready("True", "AllComponentsReady", timeout_seconds=45.0)

    async def test_owner(self, scene: Scene) -> None:
        """
        Where a cluster asks for the right to keep an owner from going, it is told when that is missing.
        """
        right = Right(OURS, "gpufractioningconfigs/finalizers", "update")
        await scene.cluster.add_node("a")
        await scene.cluster.create_config(scene.spec)
        async with rights.without(scene.cluster, right), scene.controller():
            await scene.cluster.told("MpsdReady", "False", "ReconcileError", "set finalizers")

    async def test_given_back(self, scene: Scene) -> None:
        """
        A right that is given back while the controller runs heals it.
        """
        await scene.cluster.add_node("a")
        await scene.cluster.create_config(scene.spec)
        async with scene.controller():
            async with rights.without(scene.cluster, Right("apps", "daemonsets", "create")):
                await scene.cluster.told("MpsdReady", "False", "ReconcileError", "cannot create resource")
            await scene.cluster.ready("True", "AllComponentsReady", timeout_seconds=45.0)


class TestUsed:
    async def test_each(self, scene: Scene) -> None:
        """
        Every right that the chart grants is used, and nothing else is asked for.
        """
        await scene.cluster.objects.delete(LEASE)
        await scene.define_policies()
        await scene.apply_policy(policies.policy())
        await scene.cluster.add_node("a")
        await scene.cluster.create_config(scene.spec)
        since = scene.audited()
        async with Gate(scene.cluster.plane) as gate:
            gate.refuse(UNKNOWN_PARAMETER, path="sendInitialEvents")
            async with scene.controller(url=gate.url, flags=CANDIDATE) as first:
                await _live_through_everything(scene)
        async with scene.controller(flags=CANDIDATE) as second:
            await second.ready()
        calls = [*scene.calls(first, since=since), *scene.calls(second, since=since)]

        # The API server itself asks for these on our behalf: the one when an owner is named, the other when what is
        # applied is not there yet. The log calls both a patch; see above for what happens without them.
        asked_by_server = {
            Right(OURS, "gpufractioningconfigs/finalizers", "update"),
            Right("apps", "daemonsets", "create"),
        }
        refused = {str(call.right) for call in calls if call.code == 403}
        used = {call.right for call in calls}
        assert set() == refused
        granted = await rights.granted(scene.cluster)
        assert "" == _named(granted - used - asked_by_server)
        assert "" == _named(used - granted)

    async def test_table(self, scene: Scene) -> None:
        """
        The table above is about every right that is granted, but for those that have a test of their own, and for the
        one by which events are counted up, which the same code asks for that makes them.
        """
        named = {right for param in TAKEN for right in param.values[0]}  # type: ignore[union-attr]
        others = {
            Right(OURS, "gpufractioningconfigs/finalizers", "update"),
            *(Right("", "events", verb) for verb in ("list", "watch", "patch")),
        }

        granted = await rights.granted(scene.cluster)
        assert "" == _named(granted - named - others)
        assert "" == _named((named | others) - granted)


def _named(found: AbstractSet[Right]) -> str:
    return ", ".join(sorted(map(str, found)))


def _refusal(right: Right) -> str:
    return f'cannot {right.verb} resource "{right.resource}"'


async def _says_one_of(scene: Scene, controller: Controller, texts: Sequence[str]) -> bool:
    conditions = [message for _, _, message in (await scene.cluster.conditions()).values()]
    events = [event.get("message", "") for event in await scene.cluster.events()]
    records = [json.dumps(record) for record in controller.service.records()]
    # Texts of others are told with their quotation marks escaped.
    said = "\n".join([*conditions, *events, await _readiness(controller), *records]).replace("\\", "")
    return any(text in said for text in texts)


async def _stale(controller: Controller, kind: str) -> bool:
    try:
        return await controller.metric("gpu_fractioning_controller_mirror_stale", resource=kind) == 1
    except OSError:
        return False


async def _readiness(controller: Controller) -> str:
    try:
        return (await controller.get("/readyz")).body
    except OSError:
        # It has just been started.
        return ""


async def _live_through_everything(scene: Scene) -> None:
    """
    Roll out, fail, heal, be tampered with, and be deleted.
    """
    cluster = scene.cluster
    await cluster.ready("True", "AllComponentsReady")
    for reason in ("CrashLoopBackOff", "CrashLoopBackOff"):
        cluster.kubelets.sicken("a", reason)
        await cluster.node_told("a", "False")
        await cluster.told("MpsdReady", "False", "RolloutInProgress")
        cluster.kubelets.heal("a")
        await cluster.node_told("a", "True")
        await cluster.ready("True", "AllComponentsReady")
    extra = {"spec": {"template": {"metadata": {"annotations": {"drift/marker": "x"}}}}}
    await cluster.objects.merge_patch(DAEMONSETS.item_path(MPSD), extra)

    async def is_reverted() -> bool:
        template = (await cluster.daemonset(MPSD) or {})["spec"]["template"]
        return "drift/marker" not in template["metadata"].get("annotations", {})

    await cluster.until(is_reverted, what="the annotation to go")
    await cluster.ready("True", "AllComponentsReady")
    await cluster.objects.delete(CONFIGS.item_path("default"))

    async def is_gone() -> bool:
        return await cluster.config() is None

    await cluster.until(is_gone, what="the resource to go")
    await cluster.objects.delete(NODES.item_path("a"))
