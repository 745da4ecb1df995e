"""What the daemons need that only an administrator can give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from apilab.helm import Helm, Manifest, find


def accounts(manifests: Sequence[Manifest]) -> dict[str, Mapping[str, Any]]:
    return {
        each["metadata"]["name"]: each
        for each in manifests
        if each["kind"] == "ServiceAccount" and "annotations" not in each["metadata"]
    }


async def test_each_has_its_own_account(helm: Helm) -> None:
    """Controller, mpsd and fractiond are three accounts; only mpsd's pods get its token without asking."""
    found = accounts(await helm.template())

    assert {
        "gpu-fractioning": False,
        "gpu-fractioning-daemon": True,
        "gpu-fractioning-fractiond": False,
    } == {name: each.get("automountServiceAccountToken", True) for name, each in found.items()}


async def test_pull_secrets(helm: Helm) -> None:
    """Pull secrets are on every account."""
    secrets = [{"name": "login"}]

    found = accounts(await helm.template({"imagePullSecrets": secrets}))

    assert [secrets] * 3 == [each["imagePullSecrets"] for each in found.values()]


async def test_mpsd_may_patch_nodes(helm: Helm) -> None:
    """The account of mpsd may patch nodes and nothing else; nobody grants fractiond anything."""
    manifests = await helm.template()

    role = find(manifests, "ClusterRole", "gpu-fractioning-daemon")
    assert [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]}] == role["rules"]
    bound = [
        (each["metadata"]["name"], subject["name"])
        for each in manifests
        if each["kind"] in {"ClusterRoleBinding", "RoleBinding"}
        for subject in each["subjects"]
    ]
    assert [("gpu-fractioning-daemon", "gpu-fractioning-daemon")] == [each for each in bound if each[1] in DAEMONS]


DAEMONS = {"gpu-fractioning-daemon", "gpu-fractioning-fractiond"}


@pytest.mark.parametrize(
    ("given", "classes"),
    [
        pytest.param({}, [["system-node-critical"]], id="default"),
        pytest.param(
            {"priorityClassName": "system-cluster-critical"},
            [["system-cluster-critical", "system-node-critical"]],
            id="the controller's too",
        ),
        pytest.param({"daemonPriorityClassName": "ours"}, [], id="a class of the cluster's own"),
        pytest.param({"daemonPriorityClassName": ""}, [], id="none"),
    ],
)
async def test_quota(given: Mapping[str, Any], classes: list[list[str]], helm: Helm) -> None:
    """System priorities are allowed for in the namespace, as some clusters demand."""
    quotas = [each for each in await helm.template(given) if each["kind"] == "ResourceQuota"]

    found = [each["spec"]["scopeSelector"]["matchExpressions"][0]["values"] for each in quotas]
    assert classes == found


class TestNetwork:
    async def test_default(self, helm: Helm) -> None:
        """Nothing is closed unless asked for."""
        assert [] == [each for each in await helm.template() if each["kind"] == "NetworkPolicy"]

    async def test_no_way_out(self, helm: Helm) -> None:
        """Neither fractiond nor metricsd reaches anything; who talks to the API server keeps the way out."""
        manifests = await helm.template({"networkPolicy": {"enabled": True}})

        policies = {each["metadata"]["name"]: each["spec"] for each in manifests if each["kind"] == "NetworkPolicy"}
        assert {
            "gpu-fractioning": ["Ingress"],
            "gpu-fractioning-fractiond": ["Ingress", "Egress"],
            "gpu-fractioning-mpsd": ["Ingress"],
        } == {name: spec["policyTypes"] for name, spec in policies.items()}
        assert [] == policies["gpu-fractioning-fractiond"]["egress"]

    async def test_who_may_scrape(self, helm: Helm) -> None:
        """Only the peers reach the metrics; probes come from anywhere."""
        peers = [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]

        manifests = await helm.template({"networkPolicy": {"enabled": True, "metricsFrom": peers}})

        ingress = find(manifests, "NetworkPolicy", "gpu-fractioning-fractiond")["spec"]["ingress"]
        assert [{"ports": [{"port": "readiness"}]}, {"ports": [{"port": "metrics"}], "from": peers}] == ingress
