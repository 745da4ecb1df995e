"""What is done about each DaemonSet."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from controller import rollout
from controller.actions import ApplyDaemonSet
from controller.conditions import Health
from controller.dependencies import Finding
from controller.memory import Applied, Memory
from controller.rollout import Rollout
from controller.testing.builders import (
    NOW,
    OPTIONS,
    a_condition,
    a_config,
    a_daemonset,
    a_node,
    a_pod,
    an_owner,
    daemonset_uid,
)
from controller.testing.cluster import Cluster
from controller.world import DaemonSetView, FailedCreate, Owner, World

CONFIG = a_config()
KNOWN = Memory(is_nri=False)
GATE = Finding("GPUOperandVersionUnsupported", "too old")


def a_world(*daemonsets: DaemonSetView, **fields: Any) -> World:  # noqa: ANN401 - fields of what is built
    return World(**{"config": CONFIG, "options": OPTIONS, "now": NOW, "daemonsets": daemonsets, **fields})


def planned(world: World, memory: Memory = KNOWN, gate: Finding | None = None, component: str = "mpsd") -> Rollout:
    return next(one for one in rollout.plan(world, CONFIG, memory, gate) if one.component == component)


@pytest.fixture
def settled() -> Cluster:
    """A cluster in which both DaemonSets are as we left them."""
    cluster = Cluster(a_world(nodes=(a_node(),)))
    cluster.settle()
    return cluster


class TestCreation:
    def test_missing(self) -> None:
        """A DaemonSet that is missing is made."""
        found = planned(a_world())

        assert found.action is not None
        assert found.action.manifest["metadata"]["name"] == "gpu-fractioning-mpsd"
        assert found.action.spec_hash

    def test_order(self) -> None:
        """The daemon that fences comes first."""
        assert ["fractiond", "mpsd"] == [one.component for one in rollout.plan(a_world(), CONFIG, KNOWN, None)]

    def test_held_back(self) -> None:
        """Nothing is made while a gate is closed."""
        assert Rollout("mpsd", held="too old") == planned(a_world(), gate=GATE)

    def test_mode_unknown(self) -> None:
        """Nothing is made while it is not known how pods get at the GPUs."""
        found = planned(a_world(), Memory())

        assert (None, "it is not known whether the GPU Operator runs its NRI plugin") == (found.action, found.held)

    def test_a_rollout_that_began(self) -> None:
        """A gate that closes later holds nothing back, neither changes nor the other half."""
        world = a_world(a_daemonset("fractiond"))

        assert isinstance(planned(world, gate=GATE).action, ApplyDaemonSet)
        assert isinstance(planned(world, gate=GATE, component="fractiond").action, ApplyDaemonSet)

    def test_a_foreign_one_is_no_beginning(self) -> None:
        """A DaemonSet of somebody else's opens no gate."""
        world = a_world(a_daemonset("fractiond", owner=Owner("apps/v1", "Deployment", "x", "1")))

        assert "too old" == planned(world, gate=GATE).held

    @pytest.mark.parametrize(
        ("reason", "is_made"),
        [
            pytest.param("AllPodsReady", True, id="had all pods"),
            pytest.param("RolloutInProgress", True, id="had none yet"),
            pytest.param("RolloutHeldBack", False, id="never had a DaemonSet"),
            pytest.param("ReconcileError", False, id="may never have had one"),
        ],
    )
    def test_both_deleted_by_hand(self, *, reason: str, is_made: bool) -> None:
        """What was there once, as the conditions tell, is made again whatever a gate says now."""
        config = a_config(conditions=(a_condition("MpsdReady", "False", reason),))
        found = rollout.plan(a_world(config=config), config, KNOWN, GATE)

        assert [is_made] * 2 == [one.action is not None for one in found]

    def test_an_invalid_config(self) -> None:
        """From a config that is not usable nothing is made, and what is there stays."""
        missing = planned(a_world(config_problem="broken"), gate=Finding("InvalidSpec", "broken"))
        there = planned(a_world(a_daemonset("mpsd"), config_problem="broken"))

        assert Rollout("mpsd", held="broken") == missing
        assert Rollout("mpsd", held="broken") == planned(a_world(a_daemonset("fractiond"), config_problem="broken"))
        assert Rollout("mpsd", a_daemonset("mpsd")) == there


class TestChange:
    def test_as_left(self, settled: Cluster) -> None:
        """What is as we left it is not written again."""
        assert planned(settled.world, settled.memory).action is None

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param({"generation": 2}, id="the spec was edited"),
            pytest.param({"spec_hash": "other"}, id="the hash was edited"),
            pytest.param({"labels": {}}, id="the labels were removed"),
            pytest.param({"labels": {"app.kubernetes.io/component": "mpsd"}}, id="one label was removed"),
            pytest.param({"uid": "new"}, id="it was made anew by somebody"),
        ],
    )
    def test_edited(self, settled: Cluster, change: dict[str, Any]) -> None:
        """An edit by hand is taken back."""
        edited = tuple(attrs.evolve(live, **change) for live in settled.world.daemonsets)
        found = planned(attrs.evolve(settled.world, daemonsets=edited), settled.memory)

        assert isinstance(found.action, ApplyDaemonSet)

    def test_another_config(self, settled: Cluster) -> None:
        """A change of the config reaches the daemon."""
        world = attrs.evolve(settled.world, options=attrs.evolve(OPTIONS, audit_log=False))

        assert isinstance(planned(world, settled.memory).action, ApplyDaemonSet)
        assert planned(world, settled.memory, component="fractiond").action is None

    def test_news_on_its_way(self, settled: Cluster) -> None:
        """A view from before our own write calls for no other write."""
        left = settled.memory.daemonsets["mpsd"]
        memory = settled.memory.applied("mpsd", attrs.evolve(left, generation=left.generation + 1))

        assert planned(settled.world, memory).action is None

    def test_after_a_restart(self, settled: Cluster) -> None:
        """Without memory each DaemonSet is applied once, since nobody knows who wrote its spec."""
        assert isinstance(planned(settled.world, KNOWN).action, ApplyDaemonSet)

    def test_on_its_way_out(self) -> None:
        """A DaemonSet that is being deleted is waited for."""
        leaving = a_daemonset("mpsd", is_deleting=True)

        assert Rollout("mpsd", leaving) == planned(a_world(leaving))

    def test_an_error(self) -> None:
        """What could not be applied is tried again, and why is told meanwhile."""
        memory = KNOWN.failed("mpsd", "denied the request")
        found = planned(a_world(), memory)

        assert "denied the request" == found.error
        assert isinstance(found.action, ApplyDaemonSet)
        assert {} == memory.applied("mpsd", Applied("1", 1, "h")).errors


class TestOwnership:
    @pytest.mark.parametrize(
        ("fields", "is_ours"),
        [
            pytest.param({}, True, id="of this config"),
            pytest.param({"owner": an_owner("former")}, True, id="of a former config"),
            pytest.param({"owner": None}, True, id="nobody's, with our labels"),
            pytest.param({"owner": None, "labels": {}}, False, id="nobody's, without our labels"),
            pytest.param(
                {"owner": None, "labels": {"app.kubernetes.io/managed-by": "gpu-fractioning"}},
                False,
                id="nobody's, with one of our labels",
            ),
            pytest.param({"owner": Owner("apps/v1", "Deployment", "x", "1")}, False, id="somebody else's"),
            pytest.param(
                {"owner": Owner("example.org/v1", "GpuFractioningConfig", "default", "1")}, False, id="a namesake's"
            ),
        ],
    )
    def test_table(self, *, fields: dict[str, Any], is_ours: bool) -> None:
        """Only what is ours is overwritten."""
        found = planned(a_world(a_daemonset("mpsd", **fields)))

        assert is_ours is (found.action is not None)
        assert is_ours is not found.error.startswith("DaemonSet gpu-fractioning/gpu-fractioning-mpsd ")

    def test_somebody_elses(self) -> None:
        """The message names the object, its owner and what to do."""
        found = planned(a_world(a_daemonset("mpsd", owner=Owner("apps/v1", "Deployment", "x", "1"))))

        expected = 'belongs to Deployment "x" (UID 1) and is left alone; delete it there to make room'
        assert f"DaemonSet gpu-fractioning/gpu-fractioning-mpsd {expected}" == found.error

    def test_nobodys(self) -> None:
        """The message says how to hand it over."""
        found = planned(a_world(a_daemonset("mpsd", owner=None, labels={})))

        assert (
            "label it app.kubernetes.io/managed-by=gpu-fractioning and app.kubernetes.io/component=mpsd" in found.error
        )


class TestHealth:
    def test_numbers(self) -> None:
        """The numbers are the DaemonSet's, beside our own count of nodes."""
        live = a_daemonset("mpsd", desired=2, ready=1)
        world = a_world(live, nodes=(a_node("a"), a_node("b"), a_node("c", without=["nvidia.com/gpu.present"])))

        assert Health(desired=2, ready=1, targets=2) == rollout.health(world, CONFIG, Rollout("mpsd", live))

    @pytest.mark.parametrize(
        "fields",
        [
            pytest.param({"generation": 2}, id="not observed"),
            pytest.param({"is_deleting": True}, id="on its way out"),
        ],
    )
    def test_not_observed(self, fields: dict[str, Any]) -> None:
        """Numbers that are not about the newest spec are no success."""
        live = a_daemonset("mpsd", **fields)

        assert not rollout.health(a_world(live), CONFIG, Rollout("mpsd", live)).is_observed

    @pytest.mark.parametrize(
        ("desired", "pods", "expected"),
        [
            pytest.param(0, 0, "newest", id="none desired, though there are nodes"),
            pytest.param(2, 1, "newest", id="one pod lacks"),
            pytest.param(2, 2, "", id="no pod lacks"),
        ],
    )
    def test_obstacle(self, desired: int, pods: int, expected: str) -> None:
        """The newest event about this DaemonSet says why pods are missing, as long as they are."""
        live = a_daemonset("mpsd", desired=desired, ready=0)
        uid = daemonset_uid("mpsd")
        world = a_world(
            live,
            nodes=(a_node("a"), a_node("b")),
            pods=tuple(a_pod("mpsd", node, reason="Pending") for node in ("a", "b")[:pods]),
            failed_creates=(
                FailedCreate(uid, "newest", "2026-11-29T12:00:02Z"),
                FailedCreate(uid, "older", "2026-11-29T12:00:01Z"),
                FailedCreate("another", "another", "2026-11-29T12:00:03Z"),
            ),
        )

        assert expected == rollout.health(world, CONFIG, Rollout("mpsd", live)).obstacle

    @pytest.mark.parametrize(
        ("nodes", "expected"),
        [
            pytest.param("ba", "the former DaemonSet waits for its pods on a, b", id="pods"),
            pytest.param("", "the former DaemonSet is going", id="none"),
        ],
    )
    def test_a_former_one(self, nodes: str, expected: str) -> None:
        """Where a DaemonSet goes after its pods, it is said which nodes keep the next one from being made."""
        live = a_daemonset("mpsd", is_deleting=True)
        pods = (a_pod("fractiond", "c"), *(a_pod("mpsd", node, is_terminating=True) for node in nodes))

        assert expected == rollout.health(a_world(live, pods=pods), CONFIG, Rollout("mpsd", live)).obstacle

    @pytest.mark.parametrize(
        ("nodes", "is_told"),
        [
            pytest.param((a_node(without=["nvidia.com/gpu.deploy.client"]),), True, id="no client label anywhere"),
            pytest.param((a_node(labels={"nvidia.com/gpu.deploy.client": "false"}),), False, id="another value"),
            pytest.param(
                (
                    a_node("a", without=["nvidia.com/gpu.deploy.client"]),
                    a_node("b", labels={"nvidia.com/gpu.deploy.client": "false"}),
                ),
                False,
                id="no client label on one, another value on the other",
            ),
            pytest.param((a_node(without=["nvidia.com/gpu.present"]),), False, id="no node selected"),
            pytest.param((), False, id="no node"),
        ],
    )
    def test_hint(self, *, nodes: tuple[Any, ...], is_told: bool) -> None:
        """Where the GPU Operator sets no client label, that is told as the reason for no target nodes."""
        found = rollout.health(a_world(nodes=nodes), CONFIG, Rollout("mpsd"))

        assert is_told is ("nvidia.com/gpu.deploy.client=true" in found.hint)
