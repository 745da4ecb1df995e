"""
What a cluster can do at admission about that which nothing of ours defends against: the Pod Security Standard
`restricted`, and the policy among the examples.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
import yaml
from apilab.helm import CHART
from clusterlab import tenantpods
from clusterlab.client import Object
from clusterlab.metricspage import Page
from clusterlab.pods import Pods
from clusterlab.release import Release
from clusterlab.tenantpods import LIMIT_MIB, RESTRICTED
from fractioning_core import names
from fractioning_core.errors import FractioningError
from fractioning_core.kube.errors import ApiRejection, Forbidden
from fractioning_core.kube.transport import MERGE_PATCH, Request
from lab import waiting

EXAMPLE = CHART.parents[1] / "examples" / "tenant-policy.yaml"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
TENANTS = "tenants"
ENFORCED = "gpu_fractioning_container_gpu_memory_limit_enforced"
DEVICES = "nvidia.com/container.main.gpus.devices"
OF_SCHEDULER = "is for the scheduler to write"
OF_NOBODY = "NVIDIA_VISIBLE_DEVICES is not for pods to set"
SECONDS = 60.0


class TestPodSecurity:
    @pytest.mark.parametrize(
        ("security", "spec"),
        [
            pytest.param({}, {}, id="root"),
            pytest.param(
                RESTRICTED, {"volumes": [{"name": "host", "hostPath": {"path": names.MAP_DIR}}]}, id="directory"
            ),
            pytest.param(RESTRICTED, {"hostIPC": True}, id="IPC"),
            pytest.param(RESTRICTED, {"hostPID": True}, id="processes"),
            pytest.param(RESTRICTED, {"hostNetwork": True}, id="network"),
        ],
    )
    async def test_refused(self, release: Release, security: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
        """
        In a namespace that enforces the standard `restricted`, pods that reach beyond themselves are refused.
        """
        async with _restricted_namespace(release):
            with pytest.raises(Forbidden) as caught:
                await _try(release, tenantpods.manifest("reaching", security, **spec))

        assert 'violates PodSecurity "restricted' in caught.value.message

    async def test_admitted(self, release: Release, pods: Pods) -> None:
        """
        A fractional pod as that standard wants it is admitted there, and runs behind its limit.
        """
        pod = tenantpods.manifest("ordinary", RESTRICTED)
        async with _restricted_namespace(release):
            await _try(release, pod)
        node = (await pods.run(pod))["spec"]["nodeName"]

        await Page(release, node).until(ENFORCED, [1], pod="ordinary")
        assert str(LIMIT_MIB) == (await pods.environment("ordinary"))[names.ENV_MEMORY_LIMIT]


class TestPolicy:
    @pytest_asyncio.fixture
    async def policy(self, release: Release) -> AsyncIterator[None]:
        """
        The example, in force for the tenants' namespace.
        """
        async with _restricted_namespace(release):
            documents = list(yaml.safe_load_all(EXAMPLE.read_text()))
            try:
                for each in documents:
                    await release.api.create(f"{ADMISSION}/{PLURALS[each['kind']]}", each)
                await waiting.until_awaited(
                    lambda: _is_in_force(release), what="the policy to be in force", timeout_seconds=SECONDS
                )
                yield
            finally:
                for each in documents:
                    await release.api.delete(f"{ADMISSION}/{PLURALS[each['kind']]}/{each['metadata']['name']}")

    async def test_refused(self, release: Release, policy: None) -> None:
        """
        A pod that names its GPUs itself is refused, by annotation and by variable, and told why.
        """
        annotated = tenantpods.manifest("annotated", RESTRICTED, annotations={DEVICES: "GPU-1"})
        variable = tenantpods.manifest("variable", RESTRICTED, env={names.ENV_VISIBLE_DEVICES: "all"})
        with pytest.raises(ApiRejection, match=OF_SCHEDULER):
            await _try(release, annotated)
        with pytest.raises(ApiRejection, match=OF_NOBODY):
            await _try(release, variable)

    async def test_scheduler(self, release: Release, policy: None) -> None:
        """
        The scheduler names them all the same, in the binding; nobody changes afterwards what it wrote, but all else.
        """
        pod = tenantpods.manifest("scheduled", RESTRICTED)
        there = {**pod, "metadata": {**pod["metadata"], "namespace": TENANTS}}
        await release.api.create(f"/api/v1/namespaces/{TENANTS}/pods", there)
        path = f"/api/v1/namespaces/{TENANTS}/pods/scheduled"
        await release.api.until(
            path, lambda found: DEVICES in found["metadata"]["annotations"], what="a GPU", timeout_seconds=SECONDS
        )

        await release.api.patch(path, {"metadata": {"annotations": {"example.com/note": "x"}}})
        change = {"metadata": {"annotations": {DEVICES: "GPU-1"}}}
        with pytest.raises(ApiRejection, match=OF_SCHEDULER):
            await release.api.api.ask(Request("PATCH", path, body=change, content_type=MERGE_PATCH))


@asynccontextmanager
async def _restricted_namespace(release: Release) -> AsyncIterator[None]:
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    path = f"/api/v1/namespaces/{TENANTS}"
    await release.api.create("/api/v1/namespaces", {"metadata": {"name": TENANTS, "labels": label}})
    try:
        # Without it no pod is admitted, whatever it is like.
        account = f"{path}/serviceaccounts/default"
        await release.api.until(account, bool, what="the account of pods", timeout_seconds=60.0)
        yield
    finally:
        await release.api.delete(path)
        await release.api.until_gone(path, timeout_seconds=60.0)


async def _try(release: Release, pod: Object) -> None:
    """
    Ask whether the pod would be admitted there.
    """
    there = {**pod, "metadata": {**pod["metadata"], "namespace": TENANTS}}
    await release.api.create(f"/api/v1/namespaces/{TENANTS}/pods", there, dryRun="All")


async def _is_in_force(release: Release) -> bool:
    # The API server takes note of a policy a moment after it has stored it.
    try:
        await _try(release, tenantpods.manifest("probe", RESTRICTED, env={names.ENV_VISIBLE_DEVICES: "all"}))
    except FractioningError:
        return True
    return False
