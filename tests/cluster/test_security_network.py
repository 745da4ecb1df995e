"""
The daemons' ports: who reaches them here, where nothing enforces NetworkPolicies, and what the chart's policies close
where something does.
"""

from __future__ import annotations

import pytest
from apilab.helm import NAMESPACE
from clusterlab import connections, processes, tenantpods
from clusterlab.client import Object
from clusterlab.pods import Pods
from clusterlab.release import FRACTIOND, MPSD, PODS, Release
from clusterlab.tenantpods import RESTRICTED, Shell

POLICIES = f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies"
COMPONENTS = {"gpu-fractioning": "controller", FRACTIOND: "fractiond", MPSD: "mpsd"}
PROGRAMS = {"controller": ("controller",), "fractiond": ("fractiond", "metricsd"), "mpsd": ("mpsd",)}
PAGES = [
    pytest.param(FRACTIOND, 8093, "gpu_fractioning_fractiond_runtime_connected 1", id="fractiond"),
    pytest.param(FRACTIOND, 2112, 'pod="asking"', id="metricsd"),
    pytest.param(MPSD, 8094, "gpu_fractioning_mpsd_ready 1", id="mpsd"),
]


async def policies(release: Release) -> dict[str, Object]:
    """
    Render the chart's policies, by the component that each is about.
    """
    rendered = await release.helm().template({"networkPolicy": {"enabled": True}})
    found = [each for each in rendered if each["kind"] == "NetworkPolicy"]
    return {COMPONENTS[each["metadata"]["name"]]: each for each in found}


class TestPolicies:
    async def test_accepted(self, release: Release) -> None:
        """
        There is one for each kind of pod, and the API server takes them.
        """
        found = await policies(release)
        for policy in found.values():
            await release.api.create(POLICIES, policy, dryRun="All")

        assert set(PROGRAMS) == set(found)

    async def test_pods(self, release: Release) -> None:
        """
        Each pod of the product is chosen by the policy of its component, and by no other.
        """
        there: dict[str, set[str]] = {component: set() for component in PROGRAMS}
        for pod in await release.api.list(PODS):
            there[_component(pod)].add(pod["metadata"]["name"])
        chosen = {
            component: await _names(release, policy["spec"]["podSelector"]["matchLabels"])
            for component, policy in (await policies(release)).items()
        }

        assert there == chosen

    @pytest.mark.parametrize("component", PROGRAMS)
    async def test_ports(self, release: Release, component: str) -> None:
        """
        The ports that a policy opens are those that its pods listen on, all of them and no more.
        """
        policy = (await policies(release))[component]
        opened = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
        (pod, *_) = [each for each in await release.api.list(PODS) if _component(each) == component]
        declared = {
            port["name"]: port["containerPort"] for each in pod["spec"]["containers"] for port in each.get("ports", [])
        }
        pids = _pids(release, component)

        assert pids
        assert {frozenset(declared[name] for name in opened)} == {connections.listening(pid) for pid in pids}

    async def test_no_way_out(self, release: Release) -> None:
        """
        The policy that closes the way out closes none that is used: fractiond and metricsd connect to nobody.
        """
        spec = (await policies(release))["fractiond"]["spec"]
        pids = _pids(release, "fractiond")

        assert ([], ["Ingress", "Egress"]) == (spec["egress"], spec["policyTypes"])
        assert {frozenset()} == {connections.outgoing(pid) for pid in pids}


class TestReached:
    @pytest.mark.parametrize(("daemonset", "port", "text"), PAGES)
    async def test_pages(self, release: Release, pods: Pods, daemonset: str, port: int, text: str) -> None:
        """
        Where no policy is enforced any pod can read the daemons' pages, on which pods are named, and change nothing.
        """
        pod = await pods.run(tenantpods.manifest("asking", RESTRICTED))
        (daemon,) = await release.pods(daemonset, node=pod["spec"]["nodeName"])
        url = f"http://{daemon['status']['podIP']}:{port}/metrics"
        shell = Shell(release.cluster, "asking")

        await shell.says(f"until wget -q -O - {url} | grep -q '{text}'; do sleep 0.5; done")
        assert "405 Method Not Allowed" in await shell.says(f"wget -O - --post-data=x {url} 2>&1 || true")


async def _names(release: Release, labels: dict[str, str]) -> set[str]:
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    return {each["metadata"]["name"] for each in await release.api.list(PODS, labelSelector=selector)}


def _component(pod: Object) -> str:
    component: str = pod["metadata"]["labels"]["app.kubernetes.io/component"]
    return component


def _pids(release: Release, component: str) -> list[int]:
    workers = release.cluster.running_workers()
    return [pid for worker in workers for program in PROGRAMS[component] for pid in processes.running(worker, program)]
