"""What OpenShift needs besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from apilab.helm import Helm, Manifest, find

KIND = "SecurityContextConstraints"
SERVED = "--api-versions=security.openshift.io/v1"
PIN = "openshift.io/required-scc"


def environ(manifests: Sequence[Manifest], name: str) -> str:
    (container,) = find(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    (value,) = (each["value"] for each in container["env"] if each["name"] == name)
    return str(value)


def on(**constraints: object) -> dict[str, Any]:
    return {"openshift": {"enabled": True, "securityContextConstraints": constraints}}


@pytest.mark.parametrize(
    ("enabled", "flags", "is_openshift"),
    [
        pytest.param("auto", [], False, id="elsewhere"),
        pytest.param("auto", [SERVED], True, id="seen by its API group"),
        pytest.param(True, [], True, id="forced on, without a cluster"),
        pytest.param("true", [], True, id="forced on by a text"),
        pytest.param(False, [SERVED], False, id="forced off"),
        pytest.param("false", [SERVED], False, id="forced off by a text"),
    ],
)
async def test_when(enabled: object, flags: list[str], is_openshift: bool, helm: Helm) -> None:  # noqa: FBT001
    """OpenShift is seen by its API group, unless values say otherwise."""
    manifests = await helm.template({"openshift": {"enabled": enabled}}, *flags)

    assert is_openshift == any(each["kind"] == KIND for each in manifests)
    assert ("restricted-v2" if is_openshift else None) == pin(find(manifests, "Deployment"))


def pin(workload: Manifest) -> str | None:
    annotations: Mapping[str, str] = workload["spec"]["template"]["metadata"].get("annotations", {})
    return annotations.get(PIN)


class TestConstraints:
    async def test_for_nobody_else(self, helm: Helm) -> None:
        """Only the daemons' accounts may use them, and no priority brings them to pods of others."""
        constraints = find(await helm.template(on()), KIND)

        assert "priority" not in constraints
        assert [] == constraints["groups"]
        assert [
            "system:serviceaccount:gpu-fractioning:gpu-fractioning-daemon",
            "system:serviceaccount:gpu-fractioning:gpu-fractioning-fractiond",
        ] == constraints["users"]

    async def test_no_more_than_needed(self, helm: Helm) -> None:
        """They give the host's processes and paths, and not its network or IPC."""
        constraints = find(await helm.template(on()), KIND)

        granted = {name for name, value in constraints.items() if name.startswith("allow") and value}
        assert {
            "allowPrivilegedContainer",
            "allowPrivilegeEscalation",
            "allowHostPID",
            "allowHostDirVolumePlugin",
        } == granted

    @pytest.mark.parametrize(
        ("given", "made", "asked"),
        [
            pytest.param(on(), ["gpu-fractioning-daemons"], "gpu-fractioning-daemons", id="ours"),
            pytest.param(on(name="gpus"), ["gpus"], "gpus", id="ours by another name"),
            pytest.param(on(create=False, name="privileged"), [], "privileged", id="somebody else's"),
            pytest.param(on(create=False), [], "", id="somebody else's, whichever"),
            pytest.param({}, [], "", id="no OpenShift"),
        ],
    )
    async def test_pinned(self, given: Mapping[str, Any], made: list[str], asked: str, helm: Helm) -> None:
        """The daemons' pods ask for the constraints that were made for them."""
        manifests = await helm.template(given)

        assert made == [each["metadata"]["name"] for each in manifests if each["kind"] == KIND]
        assert asked == environ(manifests, "DAEMON_REQUIRED_SCC")


async def test_controller_and_hooks(helm: Helm) -> None:
    """The controller and the hooks stay under the constraints that everybody has."""
    manifests = await helm.template(on())

    assert ["restricted-v2"] * 3 == [pin(each) for each in manifests if each["kind"] in {"Deployment", "Job"}]
