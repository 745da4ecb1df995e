"""The controller's Deployment, what it may do, and what surrounds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import pytest
import yaml
from apilab.helm import CHART, Helm, Manifest, find
from controller.settings import Settings
from fractioning_core.service import declarations, settings
from fractioning_core.service.addresses import ALL_ADDRESSES, Address

NAME = "gpu-fractioning"


def pod(manifests: Sequence[Manifest]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = find(manifests, "Deployment")["spec"]["template"]
    return found


def started(manifests: Sequence[Manifest]) -> Settings:
    """Start the controller with the arguments and the environment that its container has."""
    (container,) = pod(manifests)["spec"]["containers"]
    fields = {"metadata.namespace": "gpu-fractioning", "metadata.name": "gpu-fractioning-x", "metadata.uid": "4f2c"}
    environ = {
        each["name"]: each["value"] if "value" in each else fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
        for each in container["env"]
    }
    return settings.load(Settings, program="controller", version="0", argv=container["args"], environ=environ)


def unknown(manifests: Sequence[Manifest]) -> list[str]:
    (container,) = pod(manifests)["spec"]["containers"]
    known = {one.env for one in declarations.declared(Settings).values()}
    return [each["name"] for each in container["env"] if each["name"] not in known]


REPOSITORY = "ghcr.io/kai-scheduler/gpu-fractioning"
DEFAULT = Settings(
    fractiond_image_repository=f"{REPOSITORY}/fractiond",
    fractiond_image_tag="0.1.0",
    metricsd_image_repository=f"{REPOSITORY}/metricsd",
    metricsd_image_tag="0.1.0",
    mpsd_image_repository=f"{REPOSITORY}/mpsd",
    mpsd_image_tag="0.1.0",
    daemon_service_account_name="gpu-fractioning-daemon",
    fractiond_service_account_name="gpu-fractioning-fractiond",
    daemon_priority_class_name="system-node-critical",
    metrics_bind_address=Address(ALL_ADDRESSES, 8080),
    metrics_secure=False,
    leader_elect=True,
    pod_namespace="gpu-fractioning",
    identity="gpu-fractioning-x",
    pod_uid="4f2c",
)


@pytest.mark.parametrize(
    ("given", "changes"),
    [
        pytest.param({}, {}, id="default"),
        pytest.param({"global": {"fipsMode": "off"}, "leaderElect": False}, {"leader_elect": False}, id="alone"),
        pytest.param(
            {"metrics": {"enabled": False}},
            {"metrics_bind_address": Settings().metrics_bind_address, "metrics_secure": True},
            id="no metrics",
        ),
        pytest.param(
            {"metrics": {"port": 9090}}, {"metrics_bind_address": Address(ALL_ADDRESSES, 9090)}, id="metrics elsewhere"
        ),
        pytest.param({"mpsd": {"auditLog": False}}, {"mpsd_audit_log": False}, id="no audit log"),
        pytest.param({"supportSmSharing": False}, {"support_sm_sharing": False}, id="no sm-sharing"),
        pytest.param(
            {"skipGpuStackVersionChecks": True}, {"skip_gpu_stack_version_checks": True}, id="no version checks"
        ),
        pytest.param(
            {"images": {"mpsd": {"repository": "r.example/mpsd", "tag": "v1", "pullPolicy": "Always"}}},
            {
                "mpsd_image_repository": "r.example/mpsd",
                "mpsd_image_tag": "v1",
                "mpsd_image_pull_policy": "Always",
            },
            id="another image",
        ),
        pytest.param(
            {"imagePullSecrets": [{"name": "a"}, {"name": "b"}]}, {"image_pull_secrets": ("a", "b")}, id="pull secrets"
        ),
        pytest.param(
            {"openshift": {"enabled": True}}, {"daemon_required_scc": "gpu-fractioning-daemons"}, id="OpenShift"
        ),
        pytest.param({"daemonPriorityClassName": ""}, {"daemon_priority_class_name": ""}, id="no priority"),
        pytest.param({"daemonPriorityClassName": None}, {"daemon_priority_class_name": ""}, id="nor one by default"),
        pytest.param(
            {"daemonServiceAccount": {"name": "m"}, "fractiondServiceAccount": {"create": False, "name": "f"}},
            {"daemon_service_account_name": "m", "fractiond_service_account_name": "f"},
            id="accounts by name",
        ),
        pytest.param(
            {"daemonServiceAccount": {"create": False}},
            {"daemon_service_account_name": "default"},
            id="no account and no name",
        ),
    ],
)
async def test_settings(given: Mapping[str, Any], changes: Mapping[str, Any], helm: Helm) -> None:
    """The controller starts with what the values say, and with its own defaults for the rest."""
    assert attrs.evolve(DEFAULT, **changes) == started(await helm.template(given))


async def test_no_word_is_lost(helm: Helm) -> None:
    """Every variable of the container is one that the controller reads."""
    everything = yaml.safe_load((CHART / "ci/everything-values.yaml").read_text())

    assert [] == unknown(await helm.template(everything))


@pytest.mark.parametrize("kind", ["Deployment", "Job"])
async def test_is_harmless(kind: str, helm: Helm) -> None:
    """The controller and the hooks run without root, capabilities or anything to write to."""
    pods = [each["spec"]["template"]["spec"] for each in await helm.template() if each["kind"] == kind]

    assert pods
    for spec in pods:
        assert {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}} == spec["securityContext"]
        assert {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        } == spec["containers"][0]["securityContext"]


async def test_placement(helm: Helm) -> None:
    """Where the controller may run, its hooks may, and nothing of it reaches the daemons."""
    place = {
        "nodeSelector": {"role": "infra"},
        "tolerations": [{"key": "infra", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
    }

    manifests = await helm.template(place)

    pods = [each["spec"]["template"]["spec"] for each in manifests if each["kind"] in {"Deployment", "Job"}]
    assert [place] * 3 == [{name: spec[name] for name in place} for spec in pods]
    config = find(manifests, "GpuFractioningConfig")["spec"]
    assert {"nvidia.com/gpu.present": "true"} == config["nodeSelector"]


class TestSelectors:
    async def test_service(self, helm: Helm) -> None:
        """The metrics' Service leads to the controller's pods and to no hook's."""
        manifests = await helm.template()

        selector = find(manifests, "Service")["spec"]["selector"]
        chosen = [each["kind"] for each in manifests if "template" in each.get("spec", {}) and selects(selector, each)]
        assert ["Deployment"] == chosen

    async def test_deployment(self, helm: Helm) -> None:
        """The Deployment's selector is the one of every release: it could never be changed."""
        deployment = find(await helm.template(), "Deployment")

        expected = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/instance": NAME}
        assert expected == deployment["spec"]["selector"]["matchLabels"]

    async def test_daemons_are_not_ours(self, helm: Helm) -> None:
        """No pod of the chart carries the label by which the controller knows the daemons' pods."""
        pods = [each["spec"]["template"] for each in await helm.template() if "template" in each.get("spec", {})]

        assert [] == [each for each in pods if "app.kubernetes.io/managed-by" in each["metadata"]["labels"]]


def selects(selector: Mapping[str, str], workload: Manifest) -> bool:
    labels: Mapping[str, str] = workload["spec"]["template"]["metadata"]["labels"]
    return selector.items() <= labels.items()


class TestRights:
    async def test_cluster(self, helm: Helm) -> None:
        """It can change nothing in the cluster but its resource, nodes' labels and conditions."""
        role = find(await helm.template(), "ClusterRole", NAME)

        reading = {"get", "list", "watch"}
        writes = {
            (resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]
        }
        assert {
            ("gpufractioningconfigs", "patch"),
            ("gpufractioningconfigs/status", "patch"),
            ("gpufractioningconfigs/finalizers", "update"),
            ("nodes", "patch"),
            ("nodes/status", "patch"),
        } == {each for each in writes if each[1] not in reading}

    async def test_namespace(self, helm: Helm) -> None:
        """In its namespace it changes only the DaemonSets and the Lease that bear its names."""
        role = find(await helm.template(), "Role", NAME)

        named = {
            (resource, *rule["resourceNames"])
            for rule in role["rules"]
            for resource in rule["resources"]
            if not {"update", "patch", "delete"}.isdisjoint(rule["verbs"])
        }
        assert {
            ("daemonsets", "gpu-fractioning-fractiond", "gpu-fractioning-mpsd"),
            ("leases", "gpu-fractioning.kai.scheduler"),
        } == named

    async def test_events(self, helm: Helm) -> None:
        """Events it may write only where those of a cluster-scoped resource lie, whatever its own namespace."""
        manifests = await helm.template()
        role, binding = (find(manifests, kind, f"{NAME}-events") for kind in ("Role", "RoleBinding"))

        assert [{"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]}] == role["rules"]
        assert ["default"] * 2 == [each["metadata"]["namespace"] for each in (role, binding)]
        assert [{"kind": "ServiceAccount", "name": NAME, "namespace": "gpu-fractioning"}] == binding["subjects"]

    async def test_no_lease_alone(self, helm: Helm) -> None:
        """Without leader election it has no business with leases."""
        role = find(await helm.template({"leaderElect": False}), "Role", NAME)

        assert "leases" not in {resource for rule in role["rules"] for resource in rule["resources"]}


class TestUpdate:
    async def test_alone(self, helm: Helm) -> None:
        """Without leader election the old pod goes before the new one comes."""
        deployment = find(await helm.template({"leaderElect": False}), "Deployment")

        assert {"type": "Recreate"} == deployment["spec"]["strategy"]

    @pytest.mark.parametrize(
        ("given", "budgets"),
        [
            pytest.param({}, 0, id="one pod, whose node could never be drained"),
            pytest.param({"replicaCount": 2}, 1, id="two pods"),
            pytest.param({"replicaCount": 2, "podDisruptionBudget": {"enabled": False}}, 0, id="not wanted"),
        ],
    )
    async def test_budget(self, given: Mapping[str, Any], budgets: int, helm: Helm) -> None:
        """Drains keep one of several controllers."""
        found = [each for each in await helm.template(given) if each["kind"] == "PodDisruptionBudget"]

        assert [1] * budgets == [each["spec"]["maxUnavailable"] for each in found]
