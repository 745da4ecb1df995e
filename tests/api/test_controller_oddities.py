"""
The controller and what should not be there: invalid resources, times from the future, kinds that come late.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from apilab.cluster import CONFIGS, DEFINITIONS, FRACTIOND, MPSD, Cluster
from apilab.policies import policy, policy_definition
from apilab.scene import Scene
from fractioning_core.kube.transport import Request
from fractioning_core.resource import crd

pytestmark = pytest.mark.asyncio(loop_scope="session")

INVALID = [
    pytest.param({"nodeSelector": None}, "nodeSelector", id="no selector"),
    pytest.param({"nodeSelector": {"a": 1}}, "nodeSelector", id="selector of a number"),
    pytest.param({"nodeSelector": []}, "nodeSelector", id="selector of a list"),
    pytest.param({"tolerations": {}}, "tolerations", id="tolerations of a map"),
    pytest.param({"tolerations": ["x"]}, "tolerations", id="toleration of a text"),
    pytest.param({"runtimeClassName": 1}, "runtimeClassName", id="runtime class of a number"),
    pytest.param({"fractioningAgent": []}, "fractioningAgent", id="agent of a list"),
    pytest.param({"fractioningAgent": {"failOpen": "yes"}}, "failOpen", id="flag of a text"),
    pytest.param({"fractioningAgent": {"retryInterval": "soon"}}, "retryInterval", id="no duration"),
    pytest.param({"fractioningAgent": {"readinessPort": 0}}, "readinessPort", id="port too small"),
    pytest.param({"fractioningAgent": {"readinessPort": 70000}}, "readinessPort", id="port too large"),
    pytest.param({"fractioningAgent": {"logLevel": "loud"}}, "logLevel", id="no level"),
    pytest.param({"metricsAgent": {"enabled": "x"}}, "enabled", id="switch of a text"),
    pytest.param({"metricsAgent": {"volumes": {}}}, "volumes", id="volumes of a map"),
    pytest.param({"metricsAgent": {"address": "nowhere"}}, "address", id="no address"),
    pytest.param({"mpsDaemon": {"maxRetries": -1}}, "maxRetries", id="negative retries"),
    pytest.param({"mpsDaemon": {"gracefulStopDelay": 5}}, "gracefulStopDelay", id="duration of a number"),
]


class TestInvalid:
    async def test_resource(self, scene: Scene) -> None:
        """
        Whatever invalid thing is in the resource, which a newer or older definition may have let in: it is told with
        the field's name, the daemons stay as they are, and the next valid one is followed.
        """
        async with scene.rolled_out("a") as controller, _anything_goes(scene.cluster):
            before = await _generations(scene.cluster)
            for param in INVALID:
                spec, field = param.values
                assert isinstance(spec, Mapping)
                await _replace_spec(scene.cluster, {**scene.spec, **spec})
                await scene.cluster.observed()
                await scene.cluster.ready("False", "InvalidSpec", str(field))
            after = await _generations(scene.cluster)
            await _replace_spec(scene.cluster, scene.spec)
            await scene.cluster.ready("True", "AllComponentsReady")
            left = await _generations(scene.cluster)

            assert (before, before, None) == (after, left, controller.service.exit_code)


class TestTimes:
    async def test_from_the_future(self, scene: Scene) -> None:
        """
        A time that a controller with a fast clock has left is kept while nothing changes, and replaced when it does.
        """
        future = "2099-01-01T00:00:00Z"
        async with scene.rolled_out("a"):
            pass
        config = await scene.cluster.config() or {}
        for condition in config["status"]["conditions"]:
            condition["lastTransitionTime"] = future
        await scene.cluster.objects.replace(CONFIGS.subresource("default", "status"), config)
        async with scene.controller():
            scene.cluster.kubelets.sicken("a", "CrashLoopBackOff")
            await scene.cluster.ready("False", "ComponentNotReady")
            found = await scene.cluster.config() or {}
            scene.cluster.kubelets.heal("a")
            await scene.cluster.ready("True", "AllComponentsReady")
        times = {each["type"]: each["lastTransitionTime"] for each in found["status"]["conditions"]}

        assert future == times["DriverUpgradeInProgress"]
        assert times["Ready"] < future


class TestLateApi:
    async def test_policy(self, scene: Scene) -> None:
        """
        ClusterPolicies that the cluster learns of later are read within half a minute, and followed from then on.
        """
        async with scene.rolled_out("a"):
            await scene.cluster.define(policy_definition())
            await scene.apply_policy(policy(toolkit="v1.0.0"))
            await scene.cluster.ready("False", "GPUOperandVersionUnsupported", "v1.0.0", timeout_seconds=45.0)
            await scene.apply_policy(policy())
            await scene.cluster.ready("True", "AllComponentsReady", timeout_seconds=2.0)


@asynccontextmanager
async def _anything_goes(cluster: Cluster) -> AsyncIterator[None]:
    """
    Let the API server take any spec while entered.
    """
    definition = crd.manifest()
    path = DEFINITIONS.item_path(definition["metadata"]["name"])
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = dict(definition["spec"]["versions"][0])
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": loose, "status": loose}}}
    live = await cluster.objects.get(path) or {}
    strict = live["spec"]["versions"]
    await cluster.objects.merge_patch(path, {"spec": {"versions": [version]}})
    try:
        yield
    finally:
        await cluster.objects.merge_patch(path, {"spec": {"versions": strict}})


async def _replace_spec(cluster: Cluster, spec: Mapping[str, Any]) -> None:
    """
    Write a spec, once the API server takes it.
    """

    async def is_taken() -> bool:
        config = dict(await cluster.config() or {})
        await cluster.admin.ask(Request("PUT", CONFIGS.item_path("default"), body={**config, "spec": dict(spec)}))
        return True

    await cluster.until(is_taken, what=f"the API server to take {spec}")


async def _generations(cluster: Cluster) -> list[int]:
    found = [await cluster.daemonset(name) or {} for name in (FRACTIOND, MPSD)]
    return [each["metadata"]["generation"] for each in found]
