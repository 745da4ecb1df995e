"""What is read from the GPU Operator's objects."""

from __future__ import annotations

from typing import Any

import pytest
from controller.policy import ClusterPolicy, PolicyCondition, ServiceVersion
from controller.testing.builders import SUPPORTED

VARIABLE = "NRI_MANAGEMENT_CDI_DEVICE_NAMESPACES"


class TestNriMode:
    @pytest.mark.parametrize(
        ("spec", "expected"),
        [
            pytest.param({"cdi": {"nriPluginEnabled": True}}, True, id="true"),
            pytest.param({"cdi": {"nriPluginEnabled": False}}, False, id="false"),
            pytest.param({"cdi": {}}, False, id="field missing"),
            pytest.param({}, False, id="cdi missing"),
            pytest.param(None, False, id="spec missing"),
            pytest.param({"cdi": {"nriPluginEnabled": "true"}}, False, id="a text"),
        ],
    )
    def test_table(self, *, spec: dict[str, Any] | None, expected: bool) -> None:
        """Only the boolean true is the mode."""
        assert expected is ClusterPolicy.from_manifest({"spec": spec}).is_nri


class TestManagementNamespaces:
    @pytest.mark.parametrize(
        ("toolkit", "expected"),
        [
            pytest.param({"env": [{"name": VARIABLE, "value": "a"}]}, {"a"}, id="one name"),
            pytest.param({"env": [{"name": VARIABLE, "value": "a,b"}]}, {"a", "b"}, id="two"),
            pytest.param({"env": [{"name": VARIABLE, "value": " a ,, b,"}]}, {"a", "b"}, id="spaces and empty parts"),
            pytest.param(
                {"env": [{"name": "OTHER", "value": "x"}, {"name": VARIABLE, "value": "a"}]}, {"a"}, id="among others"
            ),
            pytest.param({"env": [{"name": "OTHER", "value": "x"}]}, set(), id="variable absent"),
            pytest.param({}, set(), id="no env"),
            pytest.param(None, set(), id="no toolkit"),
            pytest.param({"env": [{"name": VARIABLE, "value": ""}]}, set(), id="empty value"),
            pytest.param({"env": ["nonsense", {"name": VARIABLE, "value": 3}]}, set(), id="other types"),
        ],
    )
    def test_table(self, toolkit: dict[str, Any] | None, expected: set[str]) -> None:
        """The variable's value is a list with commas."""
        found = ClusterPolicy.from_manifest({"spec": {"toolkit": toolkit}})

        assert expected == found.management_namespaces


class TestClusterPolicy:
    def test_whole(self) -> None:
        """A ClusterPolicy tells its versions, the device plugin's strategy and how it is."""
        manifest = {
            "metadata": {"name": "cluster-policy", "labels": {"app.kubernetes.io/version": "v26.7.1"}},
            "spec": {
                "toolkit": {"version": "v1.20.1"},
                "devicePlugin": {"version": "v0.20.1", "env": [{"name": "DEVICE_LIST_STRATEGY", "value": "envvar"}]},
            },
            "status": {
                "state": "notReady",
                "conditions": [
                    {"type": "Ready", "status": "False", "message": "wait"},
                    {"type": "Error", "status": " true", "message": ""},
                ],
            },
        }

        expected = ClusterPolicy(
            name="cluster-policy",
            versions=SUPPORTED,
            device_list_strategy="envvar",
            state="notReady",
            error=PolicyCondition(" true"),
            ready=PolicyCondition("False", "wait"),
        )
        assert expected == ClusterPolicy.from_manifest(manifest)
        assert expected.error is not None
        assert expected.error.is_true

    def test_the_last_value_counts(self) -> None:
        """Of a variable that is set twice, a container has the last."""
        env = [{"name": "DEVICE_LIST_STRATEGY", "value": value} for value in ("envvar", "cdi-cri")]

        assert ClusterPolicy.from_manifest({"spec": {"devicePlugin": {"env": env}}}).device_list_strategy == "cdi-cri"


class TestServiceVersion:
    @pytest.mark.parametrize(
        ("name", "provider", "is_ours"),
        [
            pytest.param("gpu-operator-certified.v26.7.1", None, True, id="no provider"),
            pytest.param("gpu-operator-certified.v26.7.1", "NVIDIA Corporation", True, id="NVIDIA's"),
            pytest.param("gpu-operator-certified.v26.7.1", "", True, id="a nameless provider"),
            pytest.param("gpu-operator-fake.v0.2.0", "Somebody", False, id="a stand-in"),
            pytest.param("some-other-operator.v26.7.1", "NVIDIA", False, id="another product"),
        ],
    )
    def test_which(self, *, name: str, provider: str | None, is_ours: bool) -> None:
        """The GPU Operator's is known by its name, and by its provider where one is named."""
        named = {} if provider is None else {"provider": {"name": provider}}
        manifest = {"metadata": {"namespace": "ns", "name": name}, "spec": {"version": "26.7.1", **named}}

        expected = ServiceVersion("ns", name, "26.7.1") if is_ours else None
        assert expected == ServiceVersion.from_manifest(manifest)
