from __future__ import annotations

import pytest
from controller import claim, identifiers
from controller.actions import AddFinalizer, EmitEvent, Plan
from controller.memory import Memory
from controller.plan import plan
from controller.testing.builders import NAMESPACE, NOW, OPTIONS, a_config, a_node
from controller.testing.cluster import Cluster
from controller.world import World
from fractioning_core.resource import Config

TOLD = (
    "GpuFractioningConfig default is served by the controller in namespace 'elsewhere'; the one in 'gpu-fractioning' "
    "stands by. Where the other is gone for good, remove the resource's annotation "
    "gpu-fractioning.kai.scheduler/controller-namespace"
)


def a_world(config: Config) -> World:
    return World(config=config, options=OPTIONS, now=NOW, nodes=(a_node(),))


class TestOwn:
    """
    A config that is ours.
    """

    @pytest.mark.parametrize(
        ("served_from", "is_ours"),
        [
            pytest.param("", True, id="nobody's"),
            pytest.param(NAMESPACE, True, id="ours"),
            pytest.param("elsewhere", False, id="another's"),
        ],
    )
    def test_is_ours(self, served_from: str, *, is_ours: bool) -> None:
        """
        A config is served by the namespace that it names, or by any when it names none.
        """
        assert is_ours is claim.is_ours(a_config(served_from=served_from), NAMESPACE)

    @pytest.mark.parametrize(
        ("finalizers", "served_from"),
        [
            pytest.param(("other",), "", id="new"),
            pytest.param(("other", identifiers.FINALIZER), "", id="of an earlier release"),
            pytest.param(("other",), NAMESPACE, id="finalizer removed by hand"),
        ],
    )
    def test_complete(self, finalizers: tuple[str, ...], served_from: str) -> None:
        """
        Finalizer and note are set together, before anything else.
        """
        found = plan(a_world(a_config(finalizers=finalizers, served_from=served_from)), Memory())

        assert (AddFinalizer(("other", identifiers.FINALIZER), NAMESPACE, "7"),) == found.actions

    def test_settles(self) -> None:
        """
        What was set is not set again.
        """
        cluster = Cluster(a_world(a_config(finalizers=(), served_from="")))
        cluster.settle()

        assert cluster.world.config is not None
        assert NAMESPACE == cluster.world.config.served_from


class TestAnothers:
    """
    A config that a controller in another namespace serves.
    """

    @pytest.mark.parametrize("is_deleting", [pytest.param(False, id="serving"), pytest.param(True, id="deleting")])
    def test_stands_by(self, is_deleting: bool) -> None:  # noqa: FBT001 - a table
        """
        Nothing is done, and that is told once, with what to do by hand.
        """
        world = a_world(a_config(served_from="elsewhere", is_deleting=is_deleting))
        first = plan(world, Memory(is_nri=True))
        second = plan(world, first.memory)

        stands_by = Memory(stands_by=TOLD)
        assert Plan((EmitEvent("Warning", "ServedFromElsewhere", TOLD),), stands_by) == first
        assert Plan((), stands_by) == second

    def test_released(self) -> None:
        """
        Once the note is removed, the next controller that sees it takes over.
        """
        found = plan(a_world(a_config(served_from="")), Memory(stands_by=TOLD))

        assert (AddFinalizer((identifiers.FINALIZER,), NAMESPACE, "7"),) == found.actions
        assert "" == found.memory.stands_by
