"""The whole decision."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from controller.actions import AddFinalizer, ApplyDaemonSet, EmitEvent, Plan, RemoveNodeCondition, Rollup, WriteStatus
from controller.memory import Memory
from controller.plan import plan, plan_blind
from controller.policy import ClusterPolicy
from controller.testing.builders import (
    LATER,
    NAMESPACE,
    NOW,
    OPTIONS,
    SELECTOR,
    a_config,
    a_daemonset,
    a_node,
    a_pod,
    a_policy,
    an_owner,
)
from controller.testing.cluster import Cluster
from controller.world import DaemonSetView, NodeCondition, NodeView, Owner, PodView, Reading, Taint, World
from fractioning_core import names
from fractioning_core.versions import ClusterPolicyVersions
from hypothesis import given
from hypothesis import strategies as st

TOO_OLD = a_policy(ClusterPolicyVersions("v26.7.1", "v1.20.0", "v0.20.1"))
CLIENT = "nvidia.com/gpu.deploy.client"
UPGRADE = "nvidia.com/gpu-driver-upgrade-state"
PODS = (a_pod("fractiond"), a_pod("mpsd"))


def a_world(**fields: Any) -> World:  # noqa: ANN401 - fields of what is built
    return World(**{"config": a_config(), "options": OPTIONS, "now": NOW, "nodes": (a_node(),), **fields})


def said(cluster: Cluster, kind: str = "Ready") -> tuple[str, str]:
    config = cluster.world.config
    assert config is not None
    found = next(one for one in config.conditions if one.type == kind)
    return found.status, found.reason


def changed(cluster: Cluster, **fields: Any) -> None:  # noqa: ANN401 - fields of what is built
    cluster.world = attrs.evolve(cluster.world, **fields)


@pytest.fixture
def healthy() -> Cluster:
    """A cluster in which everything runs."""
    cluster = Cluster(a_world(cluster_policies=Reading((a_policy(),))))
    cluster.step()
    live = tuple(attrs.evolve(one, observed_generation=1, desired=1, ready=1) for one in cluster.world.daemonsets)
    changed(cluster, daemonsets=live, pods=PODS)
    cluster.settle()
    cluster.events.clear()
    return cluster


class TestBeginning:
    def test_no_config(self) -> None:
        """Without a config nothing is made, and no node goes on looking fenced."""
        node = a_node(condition=NodeCondition("True", "AllDaemonsReady", "m", NOW), without=[names.DRIVER_LABEL])
        found = plan(a_world(config=None, nodes=(node, a_node("b"))), Memory(is_nri=True))

        assert Plan((RemoveNodeCondition("node-a"),), Memory()) == found

    def test_finalizer_first(self) -> None:
        """Nothing is made before it is sure to be cleaned up."""
        found = plan(a_world(config=a_config(finalizers=("other",))), Memory())

        expected = AddFinalizer(("other", "gpu-fractioning.nvidia.com/cleanup-node-conditions"), NAMESPACE, "7")
        assert (expected,) == found.actions

    def test_a_fresh_cluster(self) -> None:
        """The first plan makes both DaemonSets, reports them and looks again."""
        found = plan(a_world(), Memory())

        assert [ApplyDaemonSet, ApplyDaemonSet, WriteStatus, EmitEvent] == [type(one) for one in found.actions]
        assert found.requeue_seconds == 30.0
        assert found.memory.is_nri is False

    def test_no_nodes(self) -> None:
        """Where nothing is to run, all is well, whether the DaemonSets were observed or not."""
        cluster = Cluster(a_world(nodes=()))
        cluster.step()

        assert ("True", "NoTargetNodes") == said(cluster, "MpsdReady")
        assert ("True", "AllComponentsReady") == said(cluster)
        assert cluster.step() == Plan(
            (), cluster.memory, None, attrs.evolve(plan(cluster.world, cluster.memory).figures)
        )

    def test_fresh_daemonsets_are_no_success(self) -> None:
        """DaemonSets that nobody counted yet are not ready where nodes wait for them."""
        cluster = Cluster(a_world())
        cluster.settle()

        assert ("False", "RolloutInProgress") == said(cluster, "MpsdReady")
        assert ("False", "ComponentNotReady") == said(cluster)


class TestGate:
    def test_held_back(self) -> None:
        """An unsupported stack gets no daemons, is told why and is looked at again."""
        cluster = Cluster(a_world(cluster_policies=Reading((TOO_OLD,))))
        found = cluster.step()

        assert cluster.world.daemonsets == ()
        assert ("False", "RolloutHeldBack") == said(cluster, "FractiondReady")
        assert ("False", "GPUOperandVersionUnsupported") == said(cluster)
        assert found.requeue_seconds == 30.0

    def test_opened(self) -> None:
        """The daemons are made once the stack is supported."""
        cluster = Cluster(a_world(cluster_policies=Reading((TOO_OLD,))))
        cluster.settle()
        changed(cluster, cluster_policies=Reading((a_policy(),)))
        cluster.settle()

        assert len(cluster.world.daemonsets) == 2

    def test_downgrade(self, healthy: Cluster) -> None:
        """A stack that becomes unsupported is reported; what runs goes on running and on being kept up."""
        changed(healthy, cluster_policies=Reading((TOO_OLD,)))
        healthy.settle()
        changed(healthy, options=attrs.evolve(OPTIONS, audit_log=False))
        found = healthy.step()

        assert ("False", "GPUOperandVersionUnsupported") == said(healthy)
        assert ("True", "AllPodsReady") == said(healthy, "MpsdReady")
        assert ["mpsd"] == [one.component for one in found.actions if isinstance(one, ApplyDaemonSet)]
        assert found.requeue_seconds == 30.0

    def test_unreadable_at_first(self) -> None:
        """While the mode of the GPU Operator is unknown nothing is rendered."""
        cluster = Cluster(a_world(cluster_policies=Reading(error="forbidden")))
        cluster.settle()

        assert cluster.world.daemonsets == ()
        assert ("False", "GPUOperatorNotReady") == said(cluster)

    @pytest.mark.parametrize("is_restarted", [False, True])
    def test_unreadable_later(self, *, healthy: Cluster, is_restarted: bool) -> None:
        """A ClusterPolicy that cannot be read any more turns no daemon to another mode, after a restart either."""
        nri = a_policy(is_nri=True, management_namespaces=frozenset({NAMESPACE}))
        changed(healthy, cluster_policies=Reading((nri,)))
        healthy.settle()
        before = {live.name: live.spec_hash for live in healthy.world.daemonsets}
        changed(healthy, cluster_policies=Reading(error="forbidden"))
        if is_restarted:
            healthy.memory = Memory()
        healthy.settle()

        assert before == {live.name: live.spec_hash for live in healthy.world.daemonsets}
        assert ("False", "GPUOperatorNotReady") == said(healthy)
        assert ["DependencyCheckError"] == [one.reason for one in healthy.events if one.type == "Warning"]


class TestSteadyState:
    def test_healthy(self, healthy: Cluster) -> None:
        """When all is well there is nothing to do and nothing to wait for."""
        found = healthy.step()

        assert ((), None) == (found.actions, found.requeue_seconds)
        assert {"fractiond": Rollup(1, 1), "mpsd": Rollup(1, 1)} == found.figures.daemons
        assert (1, 0) == (found.figures.nodes_ready, found.figures.nodes_degraded)
        assert ("True", "AllComponentsReady") == said(healthy)
        condition = healthy.node("node-a").condition
        assert condition is not None
        assert condition.status == "True"

    def test_later(self, healthy: Cluster) -> None:
        """Time alone changes nothing."""
        changed(healthy, now=LATER)

        assert healthy.step().actions == ()

    def test_restart(self, healthy: Cluster) -> None:
        """After a restart the DaemonSets are applied once, which changes nothing, and nothing is told."""
        healthy.memory = Memory()
        before = healthy.world
        found = healthy.step()

        assert [ApplyDaemonSet, ApplyDaemonSet] == [type(one) for one in found.actions]
        assert {live.name: live for live in before.daemonsets} == {live.name: live for live in healthy.world.daemonsets}
        assert healthy.step().actions == ()

    def test_condition_removed_by_hand(self, healthy: Cluster) -> None:
        """A node condition that somebody removed comes back."""
        changed(healthy, nodes=(a_node(),))
        healthy.settle()

        assert healthy.node("node-a").condition is not None

    def test_generation(self, healthy: Cluster) -> None:
        """A new generation is observed even if it changes nothing."""
        assert healthy.world.config is not None
        changed(healthy, config=attrs.evolve(healthy.world.config, generation=2))
        healthy.settle()

        assert healthy.world.config.observed_generation == 2
        assert {2} == {one.observed_generation for one in healthy.world.config.conditions}


class TestTrouble:
    def test_an_error(self, healthy: Cluster) -> None:
        """A DaemonSet that could not be applied is reported, told in one event, and heals."""
        changed(healthy, options=attrs.evolve(OPTIONS, audit_log=False))
        healthy.memory = healthy.memory.failed("mpsd", "admission webhook denied the request")
        planned = plan(healthy.world, healthy.memory)

        assert EmitEvent("Warning", "ReconcileError", "mpsd: admission webhook denied the request") in planned.actions
        healthy.settle()
        changed(healthy, daemonsets=tuple(attrs.evolve(one, observed_generation=2) for one in healthy.world.daemonsets))
        healthy.settle()
        assert ("True", "AllComponentsReady") == said(healthy)

    def test_a_foreign_daemonset(self) -> None:
        """A DaemonSet of somebody else's is an error that does not keep the other one from running."""
        foreign = a_daemonset("mpsd", owner=Owner("apps/v1", "Deployment", "x", "1"))
        cluster = Cluster(a_world(daemonsets=(foreign,)))
        cluster.settle()

        assert foreign in cluster.world.daemonsets
        assert ("False", "ReconcileError") == said(cluster, "MpsdReady")
        assert len(cluster.world.daemonsets) == 2

    def test_an_old_driver(self, healthy: Cluster) -> None:
        """A node with an old driver is named on the node and on the config."""
        old = attrs.evolve(healthy.node("node-a"), labels={**a_node().labels, names.DRIVER_LABEL: "570"})
        live = tuple(
            attrs.evolve(one, desired=0, ready=0) if one.name.endswith("fractiond") else attrs.evolve(one, ready=0)
            for one in healthy.world.daemonsets
        )
        changed(healthy, nodes=(old,), pods=(a_pod("mpsd", reason="NotReady"),), daemonsets=live)
        healthy.settle()
        condition = healthy.node("node-a").condition

        assert condition is not None
        assert condition.reason == "GPUDriverVersionUnsupported"
        assert ("False", "GPUDriverVersionUnsupported") == said(healthy)
        assert ("True", "NoTargetNodes") == said(healthy, "FractiondReady")

    def test_a_lost_label(self, healthy: Cluster) -> None:
        """A label that vanishes for a while is told on node and config, and heals without a hand."""
        before = healthy.node("node-a")
        changed(healthy, nodes=(attrs.evolve(before, labels=a_node(without=list(SELECTOR)).labels),))
        healthy.settle()
        during = healthy.node("node-a").condition
        assert healthy.world.config is not None
        message = healthy.world.config.conditions[2].message

        assert during is not None
        assert ("False", "NodeLabelMissing") == (during.status, during.reason)
        assert ("False", "NodeLabelMissing") == said(healthy)
        assert "node-a (nvidia.com/gpu.present=true)" in message
        assert healthy.memory.lost_since == {"node-a": NOW}

        changed(healthy, nodes=(attrs.evolve(healthy.node("node-a"), labels=before.labels),))
        healthy.settle()

        assert ("True", "AllComponentsReady") == said(healthy)
        assert healthy.memory.lost_since == {}

    def test_a_driver_upgrade(self, healthy: Cluster) -> None:
        """A node that is drained for its driver carries no condition, and that is no fault."""
        upgrading = attrs.evolve(healthy.node("node-a"), labels={**a_node().labels, UPGRADE: "drain-required"})
        changed(healthy, nodes=(upgrading,))
        healthy.settle()

        assert healthy.node("node-a").condition is None
        assert ("True", "DriverUpgrading") == said(healthy, "DriverUpgradeInProgress")

    @pytest.mark.parametrize(
        ("selector", "expected"),
        [
            pytest.param(SELECTOR, "CrashLoopBackOff", id="which nodes are meant is known"),
            pytest.param({}, "AllDaemonsReady", id="it is not"),
        ],
    )
    def test_an_invalid_config(self, healthy: Cluster, selector: dict[str, str], expected: str) -> None:
        """A config that is not usable leaves the daemons as they are; nodes are judged by its selector."""
        before = healthy.world
        changed(
            healthy,
            config=attrs.evolve(before.config or a_config(), spec=a_config(node_selector=selector).spec),
            config_problem="spec.mpsDaemon.backoff: is not a duration",
            pods=tuple(a_pod(component, reason="CrashLoopBackOff") for component in ("fractiond", "mpsd")),
        )
        healthy.settle()
        condition = healthy.node("node-a").condition

        assert ("False", "InvalidSpec") == said(healthy)
        assert before.daemonsets == healthy.world.daemonsets
        assert expected == (condition.reason if condition else "")

    def test_a_policy_that_vanishes(self, healthy: Cluster) -> None:
        """A ClusterPolicy that is made anew, as by an upgrade of the GPU Operator, restarts no daemon."""
        nri = Reading((a_policy(is_nri=True, management_namespaces=frozenset({NAMESPACE})),))
        changed(healthy, cluster_policies=nri)
        healthy.settle()
        changed(healthy, daemonsets=tuple(attrs.evolve(one, observed_generation=2) for one in healthy.world.daemonsets))
        healthy.settle()
        before = {live.name: live.spec_hash for live in healthy.world.daemonsets}
        changed(healthy, cluster_policies=Reading())
        healthy.settle()
        during = {live.name: live.spec_hash for live in healthy.world.daemonsets}
        requeue = healthy.step().requeue_seconds
        changed(healthy, now="2026-11-29T12:10:00Z")
        healthy.settle()

        assert (before, 30.0) == (during, requeue)
        assert all(live.spec_hash != before[live.name] for live in healthy.world.daemonsets)

    def test_deleted_by_hand_over_an_old_stack(self, healthy: Cluster) -> None:
        """Both DaemonSets come back although a gate would hold back the first rollout."""
        changed(healthy, daemonsets=(), pods=(), cluster_policies=Reading((TOO_OLD,)))
        healthy.settle()

        assert 2 == len(healthy.world.daemonsets)
        assert ("False", "GPUOperandVersionUnsupported") == said(healthy)

    def test_a_recreated_config(self, healthy: Cluster) -> None:
        """The DaemonSets of a former config are taken over."""
        changed(healthy, config=a_config(uid="new"))
        healthy.settle()

        assert {an_owner("new")} == {live.owner for live in healthy.world.daemonsets}


class TestBlind:
    """
    What is done where the world is not known.
    """

    def test_told(self) -> None:
        """The config is told why nothing is known, once; the generation that its daemons were judged for stays."""
        first = plan_blind(a_config(generation=2), "no pods", namespace=NAMESPACE, now=NOW)
        (ready,) = (action.conditions[0] for action in first if isinstance(action, WriteStatus))

        assert (WriteStatus((ready,), 0),) == first
        told = a_config(generation=2, conditions=(ready,))
        assert plan_blind(told, "no pods", namespace=NAMESPACE, now=LATER) == ()

    def test_of_others(self) -> None:
        """A config that another installation serves is told nothing."""
        config = a_config(served_from="elsewhere")

        assert plan_blind(config, "no pods", namespace=NAMESPACE, now=NOW) == ()


LABELS = st.fixed_dictionaries(
    {},
    optional={
        **{key: st.sampled_from([value, "other"]) for key, value in SELECTOR.items()},
        CLIENT: st.sampled_from(["true", "paused-for-driver-upgrade"]),
        UPGRADE: st.sampled_from(["", "upgrade-done", "drain-required"]),
        names.DRIVER_LABEL: st.sampled_from(["570", "615", "x"]),
    },
)
CONDITIONS = st.none() | st.builds(
    NodeCondition,
    status=st.sampled_from(["True", "False"]),
    reason=st.sampled_from(["AllDaemonsReady", "Pending"]),
    message=st.just("m"),
    last_transition_time=st.just(NOW),
)
NAMES = ("a", "b", "c")


@st.composite
def nodes(draw: st.DrawFn) -> tuple[NodeView, ...]:
    return tuple(
        NodeView(
            name,
            labels=draw(LABELS),
            condition=draw(CONDITIONS),
            taints=draw(st.sampled_from([(), (Taint("k", "", "NoSchedule"),)])),
            driver_problem=draw(st.sampled_from(["", "mismatch"])),
        )
        for name in NAMES
    )


@st.composite
def pods(draw: st.DrawFn) -> tuple[PodView, ...]:
    places = draw(st.lists(st.tuples(st.sampled_from(["fractiond", "mpsd"]), st.sampled_from(NAMES)), max_size=6))
    return tuple(
        a_pod(
            component,
            node,
            reason=draw(st.sampled_from(["", "Pending", "CrashLoopBackOff"])),
            is_terminating=draw(st.booleans()),
        )
        for component, node in places
    )


@st.composite
def daemonsets(draw: st.DrawFn) -> tuple[DaemonSetView, ...]:
    owners = st.sampled_from([an_owner(), an_owner("former"), Owner("apps/v1", "Deployment", "x", "1"), None])
    return tuple(
        a_daemonset(
            component,
            owner=draw(owners),
            generation=draw(st.integers(1, 2)),
            desired=draw(st.integers(0, 2)),
            ready=draw(st.integers(0, 2)),
            is_deleting=draw(st.booleans()),
            injects_cdi=draw(st.sampled_from([None, True, False])),
        )
        for component in draw(st.sets(st.sampled_from(["fractiond", "mpsd"])).map(sorted))
    )


POLICIES: st.SearchStrategy[Reading[ClusterPolicy]] = st.builds(
    Reading,
    items=st.sampled_from([(), (a_policy(),), (TOO_OLD,), (a_policy(is_nri=True), a_policy(name="b"))]),
    error=st.sampled_from(["", "forbidden"]),
)
WORLDS = st.builds(
    World,
    config=st.none()
    | st.builds(
        a_config,
        is_deleting=st.booleans(),
        finalizers=st.sampled_from([(), a_config().finalizers, ("other", *a_config().finalizers)]),
        runtime_class_name=st.sampled_from([None, "", "custom"]),
    ),
    options=st.just(OPTIONS),
    now=st.just(NOW),
    config_problem=st.sampled_from(["", "spec: is missing"]),
    nodes=nodes(),
    pods=pods(),
    daemonsets=daemonsets(),
    cluster_policies=POLICIES,
)


class TestLevel:
    @given(WORLDS)
    def test_settles(self, world: World) -> None:
        """Whatever the world is, a few plans bring it to where there is nothing to do, and time changes nothing."""
        cluster = Cluster(world)
        cluster.settle()
        events = list(cluster.events)
        changed(cluster, now="2026-11-29T12:00:30Z")

        assert cluster.step().actions == ()
        assert events == cluster.events

    @given(WORLDS)
    def test_twice(self, world: World) -> None:
        """Planning twice for the same world plans the same."""
        assert plan(world, Memory()) == plan(world, Memory())

    @given(WORLDS)
    def test_a_true_node_is_fenced(self, world: World) -> None:
        """No node is called ready unless both daemons have a ready pod there that stays."""
        cluster = Cluster(world)
        cluster.settle()
        is_running = world.has_selector and world.config is not None and not world.config.is_deleting
        for node in cluster.world.nodes if is_running else ():
            ready = {
                pod.component for pod in world.pods if pod.node == node.name and pod.is_ready and not pod.is_terminating
            }
            assert node.condition is None or node.condition.status == "False" or {"fractiond", "mpsd"} <= ready
