"""The condition of each node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from controller import nodes
from controller.actions import RemoveNodeCondition, SetNodeCondition
from controller.conditions import FALSE, TRUE, Verdict
from controller.memory import Memory
from controller.nodes import NodeState
from controller.rollout import Rollout
from controller.testing.builders import LATER, NOW, OPTIONS, SELECTOR, a_config, a_daemonset, a_node, a_pod
from controller.world import NodeCondition, NodeView, PodView, Taint, World
from fractioning_core import names

BOTH = (Rollout("fractiond", a_daemonset("fractiond")), Rollout("mpsd", a_daemonset("mpsd")))
READY_PODS = (a_pod("fractiond"), a_pod("mpsd"))
HEALTHY = Verdict(TRUE, "AllDaemonsReady", "all gpu-fractioning daemons are running")
GOOD = NodeCondition(TRUE, HEALTHY.reason, HEALTHY.message, NOW)
BAD = NodeCondition(FALSE, "Pending", "mpsd pod is not ready: Pending", NOW)
CLIENT = "nvidia.com/gpu.deploy.client"
UPGRADE = "nvidia.com/gpu-driver-upgrade-state"


def judged(
    node: NodeView,
    pods: Sequence[PodView] = READY_PODS,
    *,
    rollouts: Sequence[Rollout] = BOTH,
    memory: Memory | None = None,
    now: str = NOW,
) -> NodeState:
    world = World(config=a_config(), options=OPTIONS, now=now, nodes=(node,), pods=tuple(pods))
    (state,) = nodes.judge(world, a_config().spec, rollouts, memory or Memory())
    return state


class TestPods:
    @pytest.mark.parametrize(
        ("pods", "expected"),
        [
            pytest.param(READY_PODS, HEALTHY, id="both ready"),
            pytest.param(
                (a_pod("fractiond"), a_pod("mpsd", reason="CrashLoopBackOff")),
                Verdict(FALSE, "CrashLoopBackOff", "mpsd pod is not ready: CrashLoopBackOff"),
                id="one not ready",
            ),
            pytest.param((a_pod("fractiond"),), Verdict(FALSE, "PodMissing", "mpsd pod is missing"), id="one missing"),
            pytest.param(
                (a_pod("fractiond"), a_pod("mpsd", is_terminating=True)),
                Verdict(FALSE, "Terminating", "mpsd pod is not ready: Terminating"),
                id="one on its way out",
            ),
            pytest.param((*READY_PODS, a_pod("mpsd", is_terminating=True)), HEALTHY, id="one replaced"),
            pytest.param(
                (a_pod("fractiond"), a_pod("mpsd", owner_uid="former")),
                Verdict(FALSE, "PodMissing", "mpsd pod is missing"),
                id="one of a former DaemonSet",
            ),
            pytest.param(
                (a_pod("fractiond"), a_pod("mpsd", "node-b")),
                Verdict(FALSE, "PodMissing", "mpsd pod is missing"),
                id="one elsewhere",
            ),
            pytest.param((), None, id="none yet"),
        ],
    )
    def test_table(self, pods: Sequence[PodView], expected: Verdict | None) -> None:
        """Both daemons have to be ready; a node without any pod carries no condition yet."""
        assert expected == judged(a_node(), pods).verdict

    def test_all_pods_gone(self) -> None:
        """A node that carries the condition loses its truth with its pods."""
        found = judged(a_node(condition=GOOD), ())

        assert Verdict(FALSE, "PodMissing", "fractiond pod is missing") == found.verdict

    @pytest.mark.parametrize(
        ("node", "pods"),
        [
            pytest.param(a_node(labels=dict.fromkeys(SELECTOR, "false")), (), id="another node"),
            pytest.param(a_node(labels={CLIENT: "paused-for-driver-upgrade"}), (), id="paused"),
            pytest.param(a_node(labels={UPGRADE: "drain-required"}), READY_PODS, id="in an upgrade"),
            pytest.param(a_node(taints=(Taint("a", "", "NoSchedule"),)), (), id="a taint"),
        ],
    )
    def test_no_daemon_belongs_there(self, node: NodeView, pods: Sequence[PodView]) -> None:
        """A node that no daemon belongs on carries no condition."""
        assert judged(attrs.evolve(node, condition=GOOD), pods).verdict is None

    def test_pods_that_stay(self) -> None:
        """Pods that a new taint does not drive away count on."""
        assert HEALTHY == judged(a_node(taints=(Taint("a", "", "NoSchedule"),))).verdict

    def test_no_daemonset(self) -> None:
        """Where no rollout began, no pod is missing."""
        rollouts = (Rollout("fractiond", held="gate"), Rollout("mpsd", held="gate"))

        assert judged(a_node(condition=GOOD), (), rollouts=rollouts).verdict is None

    def test_half_a_rollout(self) -> None:
        """One daemon alone fences nothing."""
        rollouts = (BOTH[0], Rollout("mpsd", error="foreign"))
        found = judged(a_node(), (a_pod("fractiond"),), rollouts=rollouts)

        assert Verdict(FALSE, "PodMissing", "mpsd pod is missing") == found.verdict


class TestDriver:
    @pytest.mark.parametrize(
        ("label", "pods", "reason"),
        [
            pytest.param("614", (a_pod("mpsd", reason="NotReady"),), "GPUDriverVersionUnsupported", id="as it should"),
            pytest.param("614", (a_pod("mpsd"),), "GPUDriverVersionUnsupported", id="mpsd ready all the same"),
            pytest.param("x", (a_pod("mpsd"),), "GPUDriverVersionInvalid", id="no number"),
            pytest.param("615", (a_pod("fractiond"), a_pod("mpsd", reason="NotReady")), "NotReady", id="a good driver"),
        ],
    )
    def test_table(self, label: str, pods: Sequence[PodView], reason: str) -> None:
        """A node that fractiond stays off because of its driver is not ready for that reason."""
        found = judged(a_node(labels={names.DRIVER_LABEL: label}), pods).verdict

        assert found is not None
        assert (FALSE, reason) == (found.status, found.reason)


class TestLostLabel:
    LOST = Verdict(
        FALSE, "NodeLabelMissing", "node label nvidia.com/gpu.present=true is missing, so the daemons leave the node"
    )

    @pytest.mark.parametrize(
        ("pods", "condition", "now", "expected"),
        [
            pytest.param(READY_PODS, GOOD, NOW, LOST, id="just now"),
            pytest.param((), GOOD, NOW, LOST, id="pods gone"),
            pytest.param((), GOOD, "2026-11-29T12:10:00Z", LOST, id="ten minutes later"),
            pytest.param((), GOOD, "2026-11-29T12:10:01Z", None, id="for good"),
            pytest.param(
                (a_pod("mpsd", is_terminating=True),), GOOD, "2026-11-29T13:00:00Z", LOST, id="with a pod that stays"
            ),
            pytest.param((a_pod("mpsd"),), None, NOW, LOST, id="a pod, and no condition yet"),
            pytest.param((), None, NOW, None, id="never ours"),
        ],
    )
    def test_table(
        self, pods: Sequence[PodView], condition: NodeCondition | None, now: str, expected: Verdict | None
    ) -> None:
        """A label that vanishes makes the node unfit at once, and is forgotten when it stays away."""
        node = a_node(without=list(SELECTOR), condition=condition)
        memory = Memory(lost_since={"node-a": NOW})
        found = judged(node, pods, memory=memory, now=now)

        assert expected == found.verdict
        assert bool(expected) is bool(found.lost)

    def test_back(self) -> None:
        """A label that is back heals the node without a hand."""
        assert NodeState(a_node(condition=BAD), HEALTHY) == judged(a_node(condition=BAD))

    def test_memory(self) -> None:
        """The time of the loss is the first time it was seen."""
        states = [NodeState(a_node(name), self.LOST, ("x=y",)) for name in ("a", "b")]
        memory = Memory(lost_since={"a": NOW, "c": NOW})

        assert {"a": NOW, "b": LATER} == nodes.lost_since(states, memory, LATER)

    def test_message(self) -> None:
        """Nodes and labels are named for the config."""
        states = [NodeState(a_node("b"), self.LOST, ("x=y",)), NodeState(a_node("a"), self.LOST, ("x=y", "z=1"))]

        assert "labels are missing, and the daemons leave: a (x=y, z=1), b (x=y)" == nodes.lost_message(states)
        assert not nodes.lost_message([NodeState(a_node("c"), HEALTHY)])

    def test_many_labels(self) -> None:
        """Of the labels that a node lost two are named; that all are lost is what counts."""
        config = a_config(node_selector={f"k{number}": "v" for number in range(9)})
        world = World(config=config, options=OPTIONS, now=NOW, nodes=(a_node(condition=GOOD),))
        (found,) = nodes.judge(world, config.spec, BOTH, Memory())

        message = "node label k0=v, k1=v and 7 more is missing, so the daemons leave the node"
        assert (Verdict(FALSE, "NodeLabelMissing", message), 9) == (found.verdict, len(found.lost))


class TestActions:
    @pytest.mark.parametrize(
        ("condition", "verdict", "expected"),
        [
            pytest.param(
                None, HEALTHY, [SetNodeCondition("node-a", attrs.evolve(GOOD, last_transition_time=LATER))], id="new"
            ),
            pytest.param(GOOD, HEALTHY, [], id="the same"),
            pytest.param(
                BAD,
                Verdict(FALSE, "NotReady", "m"),
                [SetNodeCondition("node-a", NodeCondition(FALSE, "NotReady", "m", NOW))],
                id="another reason",
            ),
            pytest.param(
                BAD, HEALTHY, [SetNodeCondition("node-a", attrs.evolve(GOOD, last_transition_time=LATER))], id="healed"
            ),
            pytest.param(GOOD, None, [RemoveNodeCondition("node-a")], id="gone"),
            pytest.param(None, None, [], id="none"),
        ],
    )
    def test_table(self, condition: NodeCondition | None, verdict: Verdict | None, expected: list[Any]) -> None:
        """Only a difference is written, and the time moves with the status alone."""
        state = NodeState(a_node(condition=condition), verdict)

        assert expected == list(nodes.iter_actions([state], LATER))

    def test_order(self) -> None:
        """What takes a node out of use goes first."""
        states = [
            NodeState(a_node("healed"), HEALTHY),
            NodeState(a_node("broken"), Verdict(FALSE, "NotReady", "m")),
            NodeState(a_node("left", condition=GOOD), None),
        ]
        order = [action.node for action in nodes.iter_actions(states, NOW)]

        assert ["left", "broken", "healed"] == order
