"""What is cleaned up before a config goes."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from controller import deletion
from controller.actions import DeleteDaemonSet, RemoveDriverLabel, RemoveFinalizer, RemoveNodeCondition
from controller.memory import Memory
from controller.testing.builders import NOW, OPTIONS, SELECTOR, a_config, a_daemonset, a_node, a_pod
from controller.testing.cluster import Cluster
from controller.world import NodeCondition, Owner, World
from fractioning_core import names

CONDITION = NodeCondition("True", "AllDaemonsReady", "m", NOW)
GOING = a_config(is_deleting=True)


def a_world(**fields: Any) -> World:  # noqa: ANN401 - fields of what is built
    return World(**{"config": GOING, "options": OPTIONS, "now": NOW, **fields})


def actions(world: World, memory: Memory | None = None) -> list[Any]:
    assert world.config is not None
    return list(deletion.plan(world, world.config, memory or Memory()).actions)


def told(world: World) -> list[tuple[str, str | None, str]]:
    return [
        (node.name, node.labels.get(names.DRIVER_LABEL), node.condition.status if node.condition else "")
        for node in world.nodes
    ]


class TestSteps:
    def test_without_our_finalizer(self) -> None:
        """What is not ours to hold up is let go."""
        config = a_config(is_deleting=True, finalizers=("other",))

        assert actions(a_world(config=config, nodes=(a_node(condition=CONDITION),))) == []

    def test_nothing_left_behind(self) -> None:
        """Where there is nothing to clean up, the finalizer goes at once, and only ours."""
        config = a_config(is_deleting=True, finalizers=("other", *GOING.finalizers))

        assert [RemoveFinalizer(("other",), "7")] == actions(a_world(config=config))

    def test_conditions_first(self) -> None:
        """The condition goes at once; the label waits for the mpsd that could write it again."""
        world = a_world(
            nodes=(a_node("a", condition=CONDITION), a_node("b", condition=CONDITION)),
            daemonsets=(a_daemonset("mpsd"),),
            pods=(a_pod("mpsd", "a"),),
        )

        assert actions(world) == [
            DeleteDaemonSet("gpu-fractioning-mpsd", "uid-of-mpsd"),
            RemoveNodeCondition("a"),
            RemoveDriverLabel("b"),
            RemoveNodeCondition("b"),
        ]

    def test_waiting(self) -> None:
        """Nothing is done while pods are on their way out, and the finalizer stays."""
        world = a_world(
            nodes=(a_node("a"),), daemonsets=(a_daemonset("mpsd", is_deleting=True),), pods=(a_pod("mpsd", "a"),)
        )
        found = deletion.plan(world, GOING, Memory())

        assert ((), 5.0, NOW) == (found.actions, found.requeue_seconds, found.memory.deleting_since)

    @pytest.mark.parametrize(
        "left",
        [
            pytest.param({"pods": (a_pod("fractiond", "a"),)}, id="a pod"),
            pytest.param({"daemonsets": (a_daemonset("fractiond", is_deleting=True),)}, id="a DaemonSet"),
        ],
    )
    def test_either_is_waited_for(self, left: dict[str, Any]) -> None:
        """The config stays as long as anything of its daemons does."""
        assert actions(a_world(**left)) == []

    def test_pods_of_others(self) -> None:
        """A pod that only has our label is not waited for."""
        assert [RemoveFinalizer((), "7")] == actions(a_world(pods=(a_pod("another"),)))

    def test_pods_that_never_go(self) -> None:
        """A node that does not answer holds up a deletion for the pods' grace and half a minute."""
        world = a_world(
            nodes=(a_node("a"),), daemonsets=(a_daemonset("mpsd", is_deleting=True),), pods=(a_pod("mpsd", "a"),)
        )
        memory = Memory(deleting_since=NOW)
        before, after = (attrs.evolve(world, now=f"2026-11-29T12:01:{second}Z") for second in ("45", "46"))

        assert actions(before, memory) == []
        assert [RemoveDriverLabel("a")] == actions(after, memory)

    def test_overdue(self) -> None:
        """When nobody waits any more and all is clean, the config goes."""
        world = a_world(daemonsets=(a_daemonset("mpsd", is_deleting=True),), now="2026-11-29T12:02:00Z")

        assert [RemoveFinalizer((), "7")] == actions(world, Memory(deleting_since=NOW))

    def test_foreign_daemonsets(self) -> None:
        """What belongs to somebody else is neither deleted nor waited for."""
        live = a_daemonset("mpsd", owner=Owner("apps/v1", "Deployment", "x", "1"))

        assert [RemoveFinalizer((), "7")] == actions(a_world(daemonsets=(live,)))


class TestNodes:
    def test_whole(self) -> None:
        """Selected nodes, and those that carry our condition, lose condition and label; others keep what they have."""
        nodes = (
            a_node("a", condition=CONDITION),
            a_node("lost", condition=CONDITION, without=list(SELECTOR), driver_problem="mismatch"),
            a_node("other", without=list(SELECTOR)),
            a_node("clean", without=[names.DRIVER_LABEL]),
        )
        pods = tuple(a_pod(component, "a") for component in ("fractiond", "mpsd"))
        daemonsets = (a_daemonset("fractiond"), a_daemonset("mpsd"))
        cluster = Cluster(a_world(nodes=nodes, daemonsets=daemonsets, pods=pods))
        cluster.settle()

        assert cluster.world.config is None
        assert [(node.name, node.labels.get(names.DRIVER_LABEL), node.condition) for node in cluster.world.nodes] == [
            ("a", None, None),
            ("lost", None, None),
            ("other", "615", None),
            ("clean", None, None),
        ]
        assert all(not node.driver_problem for node in cluster.world.nodes)
        assert cluster.world.daemonsets == ()

    def test_after_the_config(self) -> None:
        """Of a config whose finalizer somebody removed, all is cleaned, once no mpsd writes its label any more."""
        nodes = (
            a_node("a", condition=CONDITION),
            a_node("b", condition=CONDITION, driver_problem="mismatch"),
            a_node("other"),
        )
        cluster = Cluster(a_world(config=None, nodes=nodes, pods=(a_pod("mpsd", "a"),)))
        cluster.settle()
        during = cluster.world
        cluster.world = attrs.evolve(during, pods=())
        cluster.settle()

        assert [("a", "615", "False"), ("b", None, ""), ("other", "615", "")] == told(during)
        assert [("a", None, ""), ("b", None, ""), ("other", "615", "")] == told(cluster.world)

    def test_condition_after_label(self) -> None:
        """On a node that is no longer selected the condition goes last: it tells that the label is ours."""
        node = a_node(condition=CONDITION, without=list(SELECTOR))

        assert [RemoveDriverLabel("node-a")] == actions(a_world(nodes=(node,)))
