"""
A cluster that does what a plan says, at once and without fail.

It plays the API server alone: nobody makes pods, and numbers of a DaemonSet's status stay what a test says.
"""

from __future__ import annotations

from typing import assert_never

import attrs
from fractioning_core import names

from controller.actions import (
    Action,
    AddFinalizer,
    ApplyDaemonSet,
    DeleteDaemonSet,
    EmitEvent,
    Plan,
    RemoveDriverLabel,
    RemoveFinalizer,
    RemoveNodeCondition,
    SetNodeCondition,
    WriteStatus,
)
from controller.memory import Applied, Memory
from controller.plan import plan
from controller.testing.builders import daemonset_uid
from controller.world import DaemonSetView, NodeView, World


class Cluster:
    """
    The world, and the memory of whoever plans it.

    Attributes:
        world: as it is now.
        memory: of the last plan.
        events: every event that was emitted.
    """

    def __init__(self, world: World, memory: Memory | None = None) -> None:
        self.world = world
        self.memory = memory or Memory()
        self.events: list[EmitEvent] = []

    def step(self) -> Plan:
        """
        Plan once and do it.
        """
        planned = plan(self.world, self.memory)
        self.memory = planned.memory
        for action in planned.actions:
            self._do(action)
        return planned

    def settle(self, rounds: int = 5) -> None:
        """
        Plan until there is nothing to do.

        Raises:
            AssertionError: there always is.
        """
        for _ in range(rounds):
            if not self.step().actions:
                return
        raise AssertionError(f"still something to do after {rounds} plans")

    def node(self, name: str) -> NodeView:
        """
        Return a node.
        """
        return next(node for node in self.world.nodes if node.name == name)

    def _do(self, action: Action) -> None:
        match action:
            case AddFinalizer(finalizers=finalizers, namespace=namespace):
                self._set_finalizers(finalizers, namespace)
            case RemoveFinalizer(finalizers=finalizers):
                self._set_finalizers(finalizers, "")
            case ApplyDaemonSet():
                self._apply(action)
            case DeleteDaemonSet(uid=uid):
                kept = tuple(live for live in self.world.daemonsets if live.uid != uid)
                pods = tuple(pod for pod in self.world.pods if pod.owner_uid != uid)
                self.world = attrs.evolve(self.world, daemonsets=kept, pods=pods)
            case WriteStatus():
                self._write_status(action)
            case SetNodeCondition(node=name, condition=condition):
                self._replace(attrs.evolve(self.node(name), condition=condition))
            case RemoveNodeCondition(node=name):
                self._replace(attrs.evolve(self.node(name), condition=None))
            case RemoveDriverLabel(node=name):
                self._remove_label(name)
            case EmitEvent():
                self.events.append(action)
            case _:
                assert_never(action)

    def _set_finalizers(self, finalizers: tuple[str, ...], namespace: str) -> None:
        config = self.world.config
        assert config is not None  # noqa: S101 - a plan about finalizers has one
        is_gone = config.is_deleting and not finalizers
        served_from = namespace or config.served_from
        changed = None if is_gone else attrs.evolve(config, finalizers=finalizers, served_from=served_from)
        self.world = attrs.evolve(self.world, config=changed)

    def _write_status(self, action: WriteStatus) -> None:
        config = self.world.config
        assert config is not None  # noqa: S101 - a plan about its status has one
        changed = attrs.evolve(config, conditions=action.conditions, observed_generation=action.observed_generation)
        self.world = attrs.evolve(self.world, config=changed)

    def _apply(self, action: ApplyDaemonSet) -> None:
        wanted = DaemonSetView.from_manifest(action.manifest)
        old = next((live for live in self.world.daemonsets if live.name == wanted.name), None)
        if old is None:
            applied = attrs.evolve(wanted, uid=daemonset_uid(action.component), generation=1)
        else:
            applied = attrs.evolve(
                old,
                labels=wanted.labels,
                owner=wanted.owner,
                spec_hash=wanted.spec_hash,
                injects_cdi=wanted.injects_cdi,
                generation=old.generation + (old.spec_hash != wanted.spec_hash),
            )
        others = tuple(live for live in self.world.daemonsets if live.name != wanted.name)
        self.world = attrs.evolve(self.world, daemonsets=(*others, applied))
        left = Applied(applied.uid, applied.generation, applied.spec_hash)
        self.memory = self.memory.applied(action.component, left)

    def _remove_label(self, name: str) -> None:
        labels = {key: value for key, value in self.node(name).labels.items() if key != names.DRIVER_LABEL}
        self._replace(attrs.evolve(self.node(name), labels=labels, driver_problem=""))

    def _replace(self, changed: NodeView) -> None:
        nodes = tuple(changed if node.name == changed.name else node for node in self.world.nodes)
        self.world = attrs.evolve(self.world, nodes=nodes)
