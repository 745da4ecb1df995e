"""The conditions of the config as a whole."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from controller import status
from controller.conditions import FALSE, TRUE, UNKNOWN, Verdict
from controller.memory import Memory
from controller.nodes import NodeState
from controller.policy import ClusterPolicy
from controller.rollout import Rollout
from controller.testing.builders import LATER, NOW, OPTIONS, a_config, a_daemonset, a_node, a_policy, daemonset_uid
from controller.world import FailedCreate, Reading, World
from fractioning_core import names
from fractioning_core.resource import Condition
from fractioning_core.versions import ClusterPolicyVersions

FINE = (Rollout("fractiond", a_daemonset("fractiond")), Rollout("mpsd", a_daemonset("mpsd")))
MPSD_DOWN = (FINE[0], Rollout("mpsd", a_daemonset("mpsd", ready=0)))
TOO_OLD = a_policy(ClusterPolicyVersions("v26.7.1", "v1.20.0", "v0.20.1"))


def a_world(**fields: Any) -> World:  # noqa: ANN401 - fields of what is built
    return World(**{"config": a_config(), "options": OPTIONS, "now": NOW, "nodes": (a_node(),), **fields})


def ready_of(found: status.Status) -> Condition:
    return next(one for one in found.conditions if one.type == "Ready")


def an_old_node(name: str) -> NodeState:
    node = a_node(name, labels={names.DRIVER_LABEL: "570"})
    return NodeState(node, Verdict(FALSE, "GPUDriverVersionUnsupported", "m"))


LOST = NodeState(a_node("n1"), Verdict(FALSE, "NodeLabelMissing", "m"), ("nvidia.com/gpu.present=true",))


class TestJudge:
    def test_all_is_well(self) -> None:
        """There are four conditions, in one order, all of them about this generation."""
        found = status.judge(a_world(), a_config(generation=3), FINE, (), Memory())

        assert found.conditions == (
            Condition("FractiondReady", TRUE, "AllPodsReady", "1 of 1 pods ready", 3, NOW),
            Condition("MpsdReady", TRUE, "AllPodsReady", "1 of 1 pods ready", 3, NOW),
            Condition("Ready", TRUE, "AllComponentsReady", "all components are healthy", 3, NOW),
            Condition("DriverUpgradeInProgress", FALSE, "NoDriverUpgrade", "", 3, NOW),
        )
        assert found.is_ready

    @pytest.mark.parametrize(
        ("rollouts", "states", "policies", "reason", "message"),
        [
            pytest.param(MPSD_DOWN, (), (), "ComponentNotReady", "not ready: MpsdReady", id="a component"),
            pytest.param(
                MPSD_DOWN,
                (an_old_node("n2"), an_old_node("n1")),
                (),
                "GPUDriverVersionUnsupported",
                "NVIDIA driver major version is below minimum supported major version 615 on nodes: "
                "n1 (570), n2 (570); not ready: MpsdReady",
                id="a component, over old drivers",
            ),
            pytest.param(
                FINE,
                (an_old_node("n1"),),
                (),
                "AllComponentsReady",
                "all components are healthy",
                id="old drivers that keep no component back",
            ),
            pytest.param(
                FINE,
                (LOST,),
                (),
                "NodeLabelMissing",
                "labels are missing, and the daemons leave: n1 (nvidia.com/gpu.present=true)",
                id="a lost label",
            ),
            pytest.param(
                MPSD_DOWN,
                (LOST,),
                (),
                "ComponentNotReady",
                "not ready: MpsdReady; labels are missing, and the daemons leave: n1 (nvidia.com/gpu.present=true)",
                id="a lost label beside a component",
            ),
            pytest.param(
                MPSD_DOWN,
                (an_old_node("n1"),),
                (TOO_OLD,),
                "GPUOperandVersionUnsupported",
                "NVIDIA container toolkit version v1.20.0 from ClusterPolicy spec.toolkit.version is below minimum "
                "supported version v1.20.1",
                id="a dependency before all",
            ),
            pytest.param(
                FINE,
                (),
                (a_policy(name="b"), a_policy(name="a")),
                "AllComponentsReady",
                'all components are healthy; there are 2 ClusterPolicies, and "a" counts',
                id="two policies",
            ),
        ],
    )
    def test_ready(
        self,
        rollouts: tuple[Rollout, ...],
        states: tuple[NodeState, ...],
        policies: tuple[ClusterPolicy, ...],
        reason: str,
        message: str,
    ) -> None:
        """Ready names what stands in the way: the GPU stack, then drivers, then components and nodes."""
        world = a_world(cluster_policies=Reading(policies))
        found = ready_of(status.judge(world, a_config(), rollouts, states, Memory()))

        assert (reason, message) == (found.reason, found.message)
        assert (TRUE if reason == "AllComponentsReady" else FALSE) == found.status

    def test_held_back(self) -> None:
        """A rollout that is held back quotes the gate on the daemons, and Ready is the gate's own."""
        rollouts = (Rollout("fractiond", held="too old"), Rollout("mpsd", held="too old"))
        found = status.judge(a_world(cluster_policies=Reading((TOO_OLD,))), a_config(), rollouts, (), Memory())

        assert [(one.reason, one.message) for one in found.conditions[:2]] == [
            ("RolloutHeldBack", "rollout held back: too old")
        ] * 2
        assert ready_of(found).reason == "GPUOperandVersionUnsupported"

    def test_an_invalid_config(self) -> None:
        """A config without a usable selector is told, and says nothing about nodes."""
        config = a_config(node_selector={})
        found = status.judge(a_world(config=config, config_problem="spec: is missing"), config, FINE, (), Memory())

        assert ("InvalidSpec", "spec: is missing") == (ready_of(found).reason, ready_of(found).message)
        assert ["FractiondReady", "MpsdReady", "Ready"] == [one.type for one in found.conditions]

    def test_conditions_of_others(self) -> None:
        """A condition that is not ours stays where it is, and counts as a component's."""
        other = Condition("ThirdReady", FALSE, "R", "m", 1, NOW)
        found = status.judge(a_world(), a_config(conditions=(other,)), FINE, (), Memory())

        assert other == found.conditions[0]
        assert ready_of(found).message == "not ready: ThirdReady"

    def test_driver_upgrade(self) -> None:
        """An upgrade is told beside, and is no fault."""
        node = a_node(labels={"nvidia.com/gpu-driver-upgrade-state": "drain-required"})
        found = status.judge(a_world(nodes=(node, a_node("b"))), a_config(), FINE, (), Memory())

        assert found.is_ready
        assert (TRUE, "DriverUpgrading") == (found.conditions[3].status, found.conditions[3].reason)

    def test_time_stays(self) -> None:
        """A status that does not change keeps its time."""
        first = status.judge(a_world(), a_config(), FINE, (), Memory())
        later = attrs.evolve(a_world(), now="2026-11-29T13:00:00Z")

        assert first == status.judge(later, a_config(conditions=first.conditions), FINE, (), Memory())

    def test_pods_refused(self) -> None:
        """Ready quotes what keeps pods from being created."""
        failed = FailedCreate(daemonset_uid("mpsd"), "Error creating:\nforbidden", NOW)
        found = ready_of(status.judge(a_world(failed_creates=(failed,)), a_config(), MPSD_DOWN, (), Memory()))

        assert "not ready: MpsdReady; mpsd: Error creating: forbidden" == found.message

    @pytest.mark.parametrize(
        ("rollouts", "expected"),
        [
            pytest.param(FINE, (UNKNOWN, "ClusterNotReadable", "no pods"), id="all was well"),
            pytest.param(MPSD_DOWN, (FALSE, "ComponentNotReady", "not ready: MpsdReady; no pods"), id="it was not"),
        ],
    )
    def test_outage(self, rollouts: tuple[Rollout, ...], expected: tuple[str, str, str]) -> None:
        """What cannot be read any more is told, and nothing is called well on the word of what was read before."""
        found = ready_of(status.judge(a_world(outage="no pods"), a_config(), rollouts, (), Memory()))

        assert expected == (found.status, found.reason, found.message)

    @pytest.mark.parametrize(
        ("world", "memory", "expected"),
        [
            pytest.param({"failed_creates_outage": "no events"}, Memory(), "no events", id="events"),
            pytest.param({}, Memory(is_nri=True, policy_lost_since=NOW), "ClusterPolicy is gone", id="a policy"),
        ],
    )
    def test_notes(self, world: dict[str, Any], memory: Memory, expected: str) -> None:
        """What is no fault yet is told beside."""
        found = ready_of(status.judge(a_world(**world), a_config(), FINE, (), memory))

        assert (TRUE, True) == (found.status, expected in found.message)

    def test_many_labels(self) -> None:
        """However long selectors and texts are, the API server takes the message."""
        labels = tuple(f"example.com/{'k' * 300}-{number}={'v' * 63}" for number in range(64))
        states = [NodeState(a_node(name), Verdict(FALSE, "NodeLabelMissing", "m"), labels) for name in "abcdef"]
        found = ready_of(status.judge(a_world(outage="x" * 40000), a_config(), FINE, states, Memory()))

        assert (4096, True) == (len(found.message), "a (example.com/" in found.message)


class TestBlind:
    def test_ready_alone(self) -> None:
        """Where nothing is known but why, Ready says so, and the rest stays."""
        before = status.judge(a_world(), a_config(), FINE, (), Memory()).conditions
        found = status.blind(a_config(conditions=before), "no pods", now=LATER)

        ready = Condition("Ready", UNKNOWN, "ClusterNotReadable", "no pods", 1, LATER)
        assert (*before[:2], ready, *before[3:]) == found
