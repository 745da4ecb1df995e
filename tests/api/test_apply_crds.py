"""
`controller apply-crds` as the hook Job of the chart runs it, on a real API server.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from apilab import containers, objects
from apilab.cluster import CONFIGS, DEFINITIONS
from apilab.controlplane import ControlPlane
from apilab.helm import NAMESPACE, Helm, find
from apilab.objects import ServiceAccount
from apilab.policies import policy_definition
from fractioning_core.kube.errors import ApiRefusal, Forbidden
from fractioning_core.kube.objects import Objects
from fractioning_core.kube.transport import Request, Transport
from fractioning_core.resource import crd
from lab import waiting

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAME = "gpufractioningconfigs.gpu-fractioning.kai.scheduler"
PATH = DEFINITIONS.item_path(NAME)
UPGRADER = "gpu-fractioning-crd-upgrader"


class Hook:
    """
    The hook's Job and its account.
    """

    def __init__(self, job: Mapping[str, Any], plane: ControlPlane, admin: Transport, directory: Path) -> None:
        self.admin = admin
        self.objects = Objects(admin, field_manager="helm")
        self._job = job
        self._plane = plane
        self._directory = directory

    async def run(self) -> int:
        """
        Run the container to its end; gives its exit status.
        """
        started = await containers.prepare(
            self._job["spec"]["template"],
            namespace=NAMESPACE,
            plane=self._plane,
            admin=self.admin,
            directory=self._directory,
        )
        async with started.service as service:
            return await service.wait(timeout_seconds=60.0)

    async def definition(self) -> Mapping[str, Any]:
        """
        Read the CRD.
        """
        return await self.objects.get(PATH) or {}

    async def is_established(self) -> bool:
        """
        Whether its objects are served.
        """
        conditions = (await self.definition())["status"]["conditions"]
        return ("Established", "True") in [(each["type"], each["status"]) for each in conditions]

    async def is_served(self) -> bool:
        """
        Whether the objects can be listed, which takes the server a moment longer.
        """
        try:
            await self.admin.ask(Request("GET", CONFIGS.path))
        except ApiRefusal:
            return False
        return True


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ControlPlane]:
    """
    An API server without our CRD, with the hook's account and rights as the chart renders them.
    """
    async with ControlPlane() as plane, plane.admin() as admin:
        helm = Helm(plane.kubeconfig, directory=tmp_path_factory.mktemp("helm"))
        rendered = [each for each in await helm.template() if each["metadata"]["name"] == UPGRADER]
        writer = Objects(admin, field_manager="helm")
        await writer.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        await writer.create(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", find(rendered, "ServiceAccount"))
        for kind in ("ClusterRole", "ClusterRoleBinding"):
            await writer.create(f"/apis/rbac.authorization.k8s.io/v1/{kind.lower()}s", find(rendered, kind))
        yield plane


@pytest_asyncio.fixture(loop_scope="session")
async def hook(server: ControlPlane, tmp_path: Path) -> AsyncIterator[Hook]:
    """
    The hook before its first run.
    """
    async with server.admin() as admin:
        helm = Helm(server.kubeconfig, directory=tmp_path)
        made = Hook(find(await helm.template(), "Job", UPGRADER), server, admin, tmp_path)
        await made.objects.delete(PATH)

        async def is_gone() -> bool:
            return await made.objects.get(PATH) is None

        await waiting.until_awaited(is_gone, what="the CRD to go", timeout_seconds=20.0)
        yield made


class TestHook:
    async def test_first(self, hook: Hook) -> None:
        """
        It makes the CRD, with the rights that the chart gives it, and ends when its objects are served.
        """
        assert (0, True) == (await hook.run(), await hook.is_established())
        await waiting.until_awaited(hook.is_served, what="the resource to be served", timeout_seconds=10.0)

    async def test_again(self, hook: Hook) -> None:
        """
        The second time there is nothing to write.
        """
        await hook.run()
        before = (await hook.definition())["metadata"]["resourceVersion"]
        code = await hook.run()

        assert (0, before) == (code, (await hook.definition())["metadata"]["resourceVersion"])

    async def test_stale(self, hook: Hook) -> None:
        """
        Of a CRD that helm made, what the schema no longer has goes: a property, a required field, a rule. Helm's label
        stays, and the hook has its way.
        """
        await hook.objects.create(DEFINITIONS.path, _stale())
        code = await hook.run()
        found = await hook.definition()
        schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]

        assert (0, True) == (code, await hook.is_established())
        assert "Helm" == found["metadata"]["labels"]["app.kubernetes.io/managed-by"]
        assert "gone" not in schema["properties"]["spec"]["properties"]
        assert ["nodeSelector"] == schema["properties"]["spec"]["required"]
        assert ["self.metadata.name == 'default'"] == [rule["rule"] for rule in schema["x-kubernetes-validations"]]

    async def test_new_property(self, hook: Hook) -> None:
        """
        A property that the cluster's CRD lacks is there afterwards.
        """
        before = copy.deepcopy(dict(crd.manifest()))
        del _spec_schema(before)["properties"]["tolerations"]
        await hook.objects.create(DEFINITIONS.path, before)
        code = await hook.run()
        found = await hook.definition()

        assert (0, True) == (code, await hook.is_established())
        assert "tolerations" in _spec_schema(found)["properties"]

    async def test_other_definition(self, hook: Hook, server: ControlPlane) -> None:
        """
        Its account may make no other CRD.
        """
        token = await objects.issue_token(hook.admin, ServiceAccount(NAMESPACE, UPGRADER))
        async with server.with_token(token) as api:
            other = Objects(api, field_manager="hook")
            with pytest.raises(Forbidden):
                await other.apply(DEFINITIONS.item_path("clusterpolicies.nvidia.com"), policy_definition())


def _stale() -> dict[str, Any]:
    stale = copy.deepcopy(dict(crd.manifest()))
    stale["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "Helm"}
    spec = _spec_schema(stale)
    spec["properties"]["gone"] = {"type": "string"}
    spec["required"] = [*spec["required"], "gone"]
    root = stale["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    root["x-kubernetes-validations"].append({"rule": "self.spec.gone != ''", "message": "gone"})
    return stale


def _spec_schema(definition: Mapping[str, Any]) -> dict[str, Any]:
    root = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema: dict[str, Any] = root["properties"]["spec"]
    return schema
