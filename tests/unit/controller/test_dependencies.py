"""What the GPU stack demands before the daemons are any use."""

from __future__ import annotations

import attrs
import pytest
from controller import dependencies
from controller.conditions import FALSE, TRUE, Verdict
from controller.dependencies import Finding
from controller.memory import Memory
from controller.policy import ClusterPolicy, PolicyCondition, ServiceVersion
from controller.testing.builders import LATER, NAMESPACE, NOW, OPTIONS, a_config, a_daemonset, a_policy
from controller.world import Reading, World
from fractioning_core.versions import ClusterPolicyVersions

T = Verdict(TRUE, "AllComponentsReady", "all components are healthy")
F = Verdict(FALSE, "ComponentNotReady", "not ready: FractiondReady")

OPERAND = "GPUOperandVersionUnsupported"
OPERATOR = "GPUOperatorVersionUnsupported"
NOT_READY = "GPUOperatorNotReady"

TOOLKIT, PLUGIN = "v1.20.1", "v0.20.1"
SUFFIXED = "v1.20.1-ubuntu20.04"
DIGEST = "sha256:0123456789abcdef"


def a_world(
    *policies: ClusterPolicy,
    policy_error: str = "",
    csvs: tuple[ServiceVersion, ...] = (),
    csv_error: str = "",
    skip: bool = False,
) -> World:
    return World(
        config=a_config(),
        options=attrs.evolve(OPTIONS, skip_version_checks=skip),
        now=NOW,
        cluster_policies=Reading(policies, policy_error),
        service_versions=Reading(csvs, csv_error),
    )


def a_stack(operator: str, toolkit: str, plugin: str, *, state: str = "ready") -> ClusterPolicy:
    return a_policy(ClusterPolicyVersions(operator, toolkit, plugin), state=state)


def a_csv(version: str, name: str = "gpu-operator-certified.v26.7.1") -> ServiceVersion | None:
    return ServiceVersion.from_manifest({"metadata": {"name": name}, "spec": {"version": version}})


def csvs(*found: ServiceVersion | None) -> tuple[ServiceVersion, ...]:
    return tuple(one for one in found if one is not None)


class TestCheck:
    @pytest.mark.parametrize(
        ("ready", "world", "reason", "told"),
        [
            pytest.param(T, a_world(a_stack("v26.3.3", SUFFIXED, PLUGIN)), "", "", id="pinned operands, old operator"),
            pytest.param(T, a_world(a_stack("26.7", TOOLKIT, PLUGIN)), "", "", id="pinned operands, short version"),
            pytest.param(F, a_world(a_stack("", TOOLKIT, PLUGIN)), "", "", id="pinned operands, no version"),
            pytest.param(T, a_world(a_stack("v26.7.1", TOOLKIT, PLUGIN, state="notReady")), "", "", id="T, notReady"),
            pytest.param(F, a_world(a_stack("v26.7.1", TOOLKIT, PLUGIN)), "", "", id="F, ready"),
            pytest.param(T, a_world(a_stack("v26.7.1", SUFFIXED, PLUGIN)), "", "", id="distribution suffix"),
            pytest.param(
                T,
                a_world(a_stack("v26.7.1", "v1.20.0-ubuntu20.04", PLUGIN)),
                OPERAND,
                "container toolkit version v1.20.0-ubuntu20.04",
                id="old toolkit",
            ),
            pytest.param(
                T,
                a_world(a_stack("v26.7.1", TOOLKIT, "v0.20.0")),
                OPERAND,
                "device plugin version v0.20.0",
                id="old device plugin",
            ),
            pytest.param(T, a_world(a_stack("v26.7.0", "v1.21.0-ubuntu20.04", "v0.21.0")), "", "", id="newer operands"),
            pytest.param(T, a_world(a_stack("v26.7.0", DIGEST, PLUGIN)), "", "", id="opaque tag"),
            pytest.param(T, a_world(a_stack("v26.7.1", "", PLUGIN)), "", "", id="default toolkit, new operator"),
            pytest.param(
                T,
                a_world(a_stack("v26.7.0", "", PLUGIN)),
                OPERATOR,
                "default container toolkit version that the ClusterPolicy leaves unset",
                id="default toolkit, old operator",
            ),
            pytest.param(
                T,
                a_world(a_stack("v26.7.0", "", "")),
                OPERATOR,
                "container toolkit and device plugin version",
                id="both default, old operator",
            ),
            pytest.param(
                T,
                a_world(a_stack("v26.7.1", "v1.20.0", "")),
                OPERAND,
                "container toolkit version v1.20.0",
                id="old toolkit, default device plugin",
            ),
            pytest.param(T, a_world(a_stack("", "", PLUGIN)), OPERATOR, "is missing", id="default toolkit, no version"),
            pytest.param(T, a_world(a_stack("v26.3.3", "v1.20.0", PLUGIN), skip=True), "", "", id="skipped: operand"),
            pytest.param(T, a_world(a_stack("v26.3.3", "", ""), skip=True), "", "", id="skipped: operator"),
            pytest.param(
                F,
                a_world(a_policy(error=PolicyCondition("True", "operand failed"))),
                NOT_READY,
                "operand failed",
                id="the operator's own error",
            ),
            pytest.param(T, a_world(), "", "", id="T, nothing there"),
            pytest.param(F, a_world(), "", "", id="F, nothing there"),
            pytest.param(F, a_world(csvs=csvs(a_csv("26.7.1"))), "", "", id="CSV, supported"),
            pytest.param(F, a_world(csvs=csvs(a_csv("26.3.3"))), OPERATOR, "26.3.3", id="CSV, old"),
            pytest.param(F, a_world(csvs=csvs(a_csv("26.7.0"))), OPERATOR, "26.7.0", id="CSV, just too old"),
            pytest.param(F, a_world(csvs=csvs(a_csv(""))), OPERATOR, "is missing", id="CSV, no version"),
            pytest.param(
                F,
                a_world(csvs=csvs(a_csv("26.3.3", "some-other-operator.v26.7.1"))),
                "",
                "",
                id="CSV of another product",
            ),
            pytest.param(F, a_world(a_policy(), csvs=csvs(a_csv("26.3.3"))), "", "", id="policy beats CSV"),
            pytest.param(
                F,
                a_world(a_policy(error=PolicyCondition("True", "broken")), skip=True),
                NOT_READY,
                "broken",
                id="skip covers versions only",
            ),
            pytest.param(F, a_world(csvs=csvs(a_csv("26.3.3")), skip=True), "", "", id="skipped: CSV"),
            pytest.param(T, a_world(csvs=()), "", "", id="neither API exists"),
            pytest.param(
                T,
                a_world(csv_error="forbidden"),
                NOT_READY,
                "unable to discover NVIDIA GPU Operator version from ClusterPolicy or ClusterServiceVersion: forbidden",
                id="CSV list forbidden",
            ),
            pytest.param(T, a_world(csv_error="forbidden", skip=True), "", "", id="CSV list forbidden, skipped"),
            pytest.param(
                T,
                a_world(policy_error="forbidden", skip=True),
                NOT_READY,
                "unable to read NVIDIA GPU Operator ClusterPolicy: forbidden",
                id="policy unreadable, skip or not",
            ),
        ],
    )
    def test_table(self, ready: Verdict, world: World, reason: str, told: str) -> None:
        """Versions and what cannot be read make Ready False; the operator's readiness only explains it."""
        found = dependencies.check(world, ready)

        assert reason == (found.reason if found else "")
        assert told in (found.message if found else "")

    @pytest.mark.parametrize(
        ("policy", "expected"),
        [
            pytest.param(a_policy(error=PolicyCondition(" TRUE ")), "reports Error=True", id="error without a message"),
            pytest.param(a_policy(ready=PolicyCondition("False", "wait")), "wait", id="not ready, with a message"),
            pytest.param(a_policy(ready=PolicyCondition("False")), "Ready condition is False", id="not ready"),
            pytest.param(a_policy(ready=PolicyCondition(" ")), "Ready condition is Unknown", id="a blank status"),
            pytest.param(
                a_policy(ready=PolicyCondition("true"), state="notReady"),
                'state is "notReady", expected "ready"',
                id="state",
            ),
            pytest.param(a_policy(state=None), "status does not report readiness", id="no status"),
            pytest.param(a_policy(state=None, ready=PolicyCondition("True")), "", id="the condition alone"),
            pytest.param(a_policy(state="READY"), "", id="the state alone, however spelled"),
        ],
    )
    def test_readiness(self, policy: ClusterPolicy, expected: str) -> None:
        """A GPU Operator that is not ready is told in its own words."""
        found = dependencies.check(a_world(policy), F)

        assert ("" if not expected else NOT_READY) == (found.reason if found else "")
        assert expected in (found.message if found else "")

    @pytest.mark.parametrize(
        ("is_nri", "allowed", "is_told"),
        [
            pytest.param(True, frozenset(), True, id="on, empty"),
            pytest.param(True, frozenset({"other"}), True, id="on, another namespace"),
            pytest.param(True, frozenset({"other", NAMESPACE}), False, id="on, ours"),
            pytest.param(False, frozenset(), False, id="off"),
        ],
    )
    def test_management_namespace(self, *, is_nri: bool, allowed: frozenset[str], is_told: bool) -> None:
        """In NRI mode the daemons' namespace has to be allowed, whatever else there is."""
        found = dependencies.check(a_world(a_policy(is_nri=is_nri, management_namespaces=allowed)), T)

        assert is_told is (found is not None)
        if found:
            assert found.reason == "ManagementCDINamespaceNotAllowed"
            assert f'namespace "{NAMESPACE}" is not listed in' in found.message
            assert "NRI_MANAGEMENT_CDI_DEVICE_NAMESPACES" in found.message
            assert "spec.toolkit.env" in found.message

    @pytest.mark.parametrize(
        ("is_nri", "strategy", "is_told"),
        [
            pytest.param(True, "envvar", True, id="envvar"),
            pytest.param(True, "envvar,volume-mounts", True, id="several, none with CDI"),
            pytest.param(True, "envvar, cdi-annotations", False, id="one with CDI"),
            pytest.param(True, "cdi-cri", False, id="CDI"),
            pytest.param(True, "", False, id="not set"),
            pytest.param(False, "envvar", False, id="not in this mode"),
        ],
    )
    def test_device_list_strategy(self, *, is_nri: bool, strategy: str, is_told: bool) -> None:
        """In NRI mode the device plugin has to publish a CDI device for each GPU."""
        policy = a_policy(is_nri=is_nri, device_list_strategy=strategy, management_namespaces=frozenset({NAMESPACE}))
        found = dependencies.check(a_world(policy), T)

        assert is_told is (found is not None)
        if found:
            assert found.reason == "DeviceListStrategyUnsupported"
            assert f"DEVICE_LIST_STRATEGY={strategy}" in found.message


class TestGate:
    @pytest.mark.parametrize(
        ("world", "reason"),
        [
            pytest.param(a_world(), "", id="nothing there"),
            pytest.param(a_world(a_stack("v26.7.1", "v1.20.0", PLUGIN)), OPERAND, id="an old operand"),
            pytest.param(a_world(a_stack("v26.7.1", "v1.20.0", PLUGIN), skip=True), "", id="an old operand, skipped"),
            pytest.param(a_world(policy_error="forbidden"), NOT_READY, id="unreadable"),
            pytest.param(a_world(csv_error="forbidden"), NOT_READY, id="CSV unreadable"),
            pytest.param(a_world(a_policy(is_nri=True)), "", id="namespace not allowed"),
            pytest.param(a_world(a_policy(state="notReady")), "", id="not ready"),
        ],
    )
    def test_table(self, world: World, reason: str) -> None:
        """Versions hold back the first rollout; what may heal meanwhile does not."""
        found = dependencies.gate(world)

        assert reason == (found.reason if found else "")

    @pytest.mark.parametrize(
        ("world", "expected"),
        [
            pytest.param(a_world(policy_error="forbidden"), True, id="ClusterPolicy"),
            pytest.param(a_world(csv_error="forbidden"), True, id="ClusterServiceVersion"),
            pytest.param(a_world(a_stack("v26.7.1", "v1.20.0", PLUGIN)), False, id="an old operand"),
        ],
    )
    def test_errors(self, *, world: World, expected: bool) -> None:
        """What could not be read is an error; what was found wanting is none."""
        found = dependencies.gate(world)

        assert found is not None
        assert expected is found.is_error

    def test_several_service_versions(self) -> None:
        """Of several ClusterServiceVersions the first by namespace and name counts."""
        versions = (ServiceVersion("b", "gpu-operator.v1", "26.7.1"), ServiceVersion("a", "gpu-operator.v2", "26.3.3"))
        found = dependencies.gate(a_world(csvs=versions))

        assert found is not None
        assert "26.3.3" in found.message

    def test_an_invalid_config(self) -> None:
        """A config that is not usable is told before anything else."""
        world = attrs.evolve(a_world(policy_error="forbidden"), config_problem="spec.nodeSelector: is missing")

        assert Finding("InvalidSpec", "spec.nodeSelector: is missing") == dependencies.gate(world)


class TestPolicy:
    def test_the_first_by_name(self) -> None:
        """Of several ClusterPolicies the first by name counts, and that is said."""
        world = a_world(a_policy(name="b", is_nri=True), a_policy(name="a"))

        assert dependencies.policy(world) == a_policy(name="a")
        assert dependencies.several_policies(world) == 'there are 2 ClusterPolicies, and "a" counts'

    def test_one(self) -> None:
        """One ClusterPolicy is nothing to talk about."""
        assert dependencies.several_policies(a_world(a_policy())) == ""


RUNNING_FOR_NRI = (a_daemonset("mpsd"), a_daemonset("fractiond", injects_cdi=True))
LOST = Memory(is_nri=True, policy_lost_since=NOW)


class TestMode:
    @pytest.mark.parametrize(
        ("world", "last", "expected"),
        [
            pytest.param(a_world(a_policy(is_nri=True)), False, True, id="on"),
            pytest.param(a_world(a_policy(is_nri=False)), True, False, id="off"),
            pytest.param(a_world(), True, False, id="no policy"),
            pytest.param(a_world(policy_error="e"), True, True, id="unreadable, known"),
            pytest.param(a_world(policy_error="e"), None, None, id="unreadable, unknown"),
            pytest.param(
                attrs.evolve(a_world(policy_error="e"), daemonsets=RUNNING_FOR_NRI),
                None,
                True,
                id="unreadable, told by the DaemonSet",
            ),
            pytest.param(a_world(a_policy(is_nri=True), policy_error="e"), False, True, id="unreadable, read before"),
        ],
    )
    def test_table(self, *, world: World, last: bool | None, expected: bool | None) -> None:
        """The mode is the ClusterPolicy's, and stays as it was while that cannot be read."""
        assert Memory(is_nri=expected) == dependencies.remember_mode(world, Memory(is_nri=last))

    @pytest.mark.parametrize(
        ("policies", "memory", "now", "expected"),
        [
            pytest.param((), Memory(is_nri=True), NOW, LOST, id="vanishes"),
            pytest.param((), Memory(), NOW, LOST, id="vanishes before a restart"),
            pytest.param((), LOST, "2026-11-29T12:09:59Z", LOST, id="is gone for ten minutes"),
            pytest.param((), LOST, "2026-11-29T12:10:00Z", Memory(is_nri=False), id="is gone for longer"),
            pytest.param((a_policy(is_nri=True),), LOST, LATER, Memory(is_nri=True), id="comes back"),
            pytest.param((a_policy(),), LOST, LATER, Memory(is_nri=False), id="comes back another"),
            pytest.param((), Memory(is_nri=False), NOW, Memory(is_nri=False), id="did not run the plugin"),
        ],
    )
    def test_vanishing(self, policies: tuple[ClusterPolicy, ...], memory: Memory, now: str, expected: Memory) -> None:
        """Over daemons that run for the NRI plugin, a ClusterPolicy that is gone counts for ten minutes more."""
        world = attrs.evolve(a_world(*policies), daemonsets=RUNNING_FOR_NRI, now=now)

        assert expected == dependencies.remember_mode(world, memory)

    def test_vanishing_in_an_outage(self) -> None:
        """One that is gone and then cannot be read is still gone since then."""
        world = attrs.evolve(a_world(policy_error="e"), daemonsets=RUNNING_FOR_NRI, now=LATER)

        assert LOST == dependencies.remember_mode(world, LOST)

    def test_told(self) -> None:
        """It is said that it is gone, and when that begins to count."""
        assert dependencies.lost_policy(Memory(is_nri=True)) == ""
        assert "until 2026-11-29T12:10:00Z" in dependencies.lost_policy(LOST)
