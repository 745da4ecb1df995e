"""The Jobs around install, upgrade and uninstall, and what they may do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from apilab.helm import Helm, Manifest, find
from fractioning_core.resource import crd

HOOK, WEIGHT, POLICY = "helm.sh/hook", "helm.sh/hook-weight", "helm.sh/hook-delete-policy"
UPGRADER, REMOVER = "gpu-fractioning-crd-upgrader", "gpu-fractioning-config-remover"
IMAGE = "ghcr.io/kai-scheduler/gpu-fractioning/operator:0.1.0"


def notes(manifest: Manifest) -> Mapping[str, str]:
    found: Mapping[str, str] = manifest["metadata"].get("annotations", {})
    return found


def container(job: Manifest) -> Mapping[str, Any]:
    found: Mapping[str, Any] = job["spec"]["template"]["spec"]["containers"][0]
    return found


def hooks(manifests: Sequence[Manifest], kind: str) -> list[Manifest]:
    return [each for each in manifests if each["kind"] == kind and HOOK in notes(each)]


@pytest.mark.parametrize(
    ("name", "events", "args"),
    [
        pytest.param(UPGRADER, "pre-install,pre-upgrade", ["apply-crds"], id="crd-upgrader"),
        pytest.param(REMOVER, "pre-delete", ["delete-config", "--timeout=120s"], id="config-remover"),
    ],
)
class TestJob:
    async def test_default(self, name: str, events: str, args: list[str], helm: Helm) -> None:
        """It runs the controller's image, after what it needs, and goes when it has succeeded."""
        job = find(await helm.template(), "Job", name)

        expected = {HOOK: events, WEIGHT: "2", POLICY: "hook-succeeded,before-hook-creation"}
        assert (expected, IMAGE, args) == (notes(job), container(job)["image"], container(job)["args"])

    async def test_fips(self, name: str, events: str, args: list[str], helm: Helm) -> None:
        """It has the FIPS image where the controller has."""
        job = find(await helm.template({"global": {"fipsMode": "on"}}), "Job", name)

        assert f"{IMAGE}-fips" == container(job)["image"]

    async def test_its_account_comes_first(self, name: str, events: str, args: list[str], helm: Helm) -> None:
        """ServiceAccount, role and binding are hooks of the same events, made before it, and bound to each other."""
        manifests = await helm.template()

        job = find(manifests, "Job", name)
        account, role, binding = (
            find(hooks(manifests, kind), kind, name) for kind in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")
        )
        assert name == job["spec"]["template"]["spec"]["serviceAccountName"]
        assert {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name} == binding["roleRef"]
        assert [{"kind": "ServiceAccount", "name": name, "namespace": account["metadata"]["namespace"]}] == binding[
            "subjects"
        ]
        for each in (account, role, binding):
            assert {**notes(job), WEIGHT: "-1"} == notes(each)

    async def test_pull_secrets(self, name: str, events: str, args: list[str], helm: Helm) -> None:
        """It can pull from a registry that wants a login."""
        job = find(await helm.template({"imagePullSecrets": [{"name": "login"}]}), "Job", name)

        assert [{"name": "login"}] == job["spec"]["template"]["spec"]["imagePullSecrets"]

    async def test_nothing_shortens_its_life(self, name: str, events: str, args: list[str], helm: Helm) -> None:
        """No time-to-live takes it from those who wait for it, and no other tool's hook annotation hides Helm's."""
        job = find(await helm.template(), "Job", name)

        assert "ttlSecondsAfterFinished" not in job["spec"]
        assert [HOOK, POLICY, WEIGHT] == sorted(notes(job))


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        pytest.param(
            "other", {"other-gpu-fractioning-crd-upgrader", "other-gpu-fractioning-config-remover"}, id="other"
        ),
        pytest.param(
            "a" * 50, {f"{'a' * 50}-crd-upgrader", f"{'a' * 48}-config-remover"}, id="as long as a part of it"
        ),
        pytest.param("gpu-fractioning", {UPGRADER, REMOVER}, id="the chart's own"),
    ],
)
async def test_names(release: str, expected: set[str], tmp_path: Path) -> None:
    """A hook's name follows the release; a long one is cut, and never the suffix that tells objects apart."""
    manifests = await Helm(tmp_path / "no-cluster", directory=tmp_path, release=release).template()

    assert expected == {each["metadata"]["name"] for each in manifests if each["kind"] == "Job"}
    assert find(manifests, "Deployment")["metadata"]["name"] not in expected


class TestRights:
    async def test_crd_upgrader(self, helm: Helm) -> None:
        """It may make and change the one definition, and no other."""
        role = find(await helm.template(), "ClusterRole", UPGRADER)

        assert [
            {
                "apiGroups": ["apiextensions.k8s.io"],
                "resources": ["customresourcedefinitions"],
                "resourceNames": [crd.NAME],
                "verbs": ["create", "get", "patch", "update"],
            }
        ] == role["rules"]

    async def test_config_remover(self, helm: Helm) -> None:
        """It may delete the one resource and see it go."""
        role = find(await helm.template(), "ClusterRole", REMOVER)

        assert [
            {
                "apiGroups": ["gpu-fractioning.kai.scheduler"],
                "resources": ["gpufractioningconfigs"],
                "resourceNames": ["default"],
                "verbs": ["get", "delete"],
            }
        ] == role["rules"]


@pytest.mark.parametrize(
    ("given", "left"),
    [
        pytest.param({"crdUpgrader": {"enabled": False}}, {REMOVER}, id="definitions are applied by hand"),
        pytest.param({"configRemover": {"enabled": False}}, {UPGRADER}, id="the resource is deleted by hand"),
    ],
)
async def test_off(given: Mapping[str, Any], left: set[str], helm: Helm) -> None:
    """A hook that is off leaves nothing of itself."""
    manifests = await helm.template(given)

    assert left == {each["metadata"]["name"] for each in manifests if HOOK in notes(each)}


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        pytest.param({"mpsDaemon": {"gracefulStopDelay": "5m"}}, 360, id="daemons that take their time"),
        pytest.param({"mpsDaemon": {"gracefulStopDelay": "1h30m0.5s"}}, 5460, id="for hours"),
        pytest.param({"mpsDaemon": {"gracefulStopDelay": "0s"}}, 60, id="daemons that end at once"),
        pytest.param(
            {"mpsDaemon": {"gracefulStopDelay": "5m"}, "configRemover": {"timeoutSeconds": 5}}, 5, id="no patience"
        ),
    ],
)
async def test_remover_is_patient(given: Mapping[str, Any], seconds: int, helm: Helm) -> None:
    """The resource gets a minute more than its daemons may take to end, or as long as is said."""
    job = find(await helm.template(given), "Job", REMOVER)

    assert ([f"--timeout={seconds}s"], seconds + 60) == (
        container(job)["args"][1:],
        job["spec"]["activeDeadlineSeconds"],
    )


async def test_remover_is_bounded(helm: Helm) -> None:
    """What keeps the Job from running ends it a minute after it would have given up."""
    job = find(await helm.template({"configRemover": {"timeoutSeconds": 300}}), "Job", REMOVER)

    assert (["delete-config", "--timeout=300s"], 360) == (container(job)["args"], job["spec"]["activeDeadlineSeconds"])
