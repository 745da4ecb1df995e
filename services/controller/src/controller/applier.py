"""
Carries out a plan: its actions in order, those on nodes some at a time, each even where one before it failed.

What failed is no reason to stop: it is told in an event, and the next plan asks for it again, since the world is not
as it should be. Losing the lease is one: from then on nothing is written at all.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Protocol, assert_never

import attrs
from fractioning_core import resource
from fractioning_core.errors import FractioningError, InvalidInput, ProtocolViolation, Unavailable
from fractioning_core.kube.errors import ApiOverloaded, Conflict, NotFound
from fractioning_core.kube.eventbook import ObjectReference
from fractioning_core.kube.events import WARNING

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
from controller.conditions import RECONCILE_ERROR
from controller.configreading import ConfigReading
from controller.guard import MayNotWrite
from controller.latest import Latest
from controller.memory import Memory
from controller.metrics import Metrics, WriteKind, WriteResult
from controller.writes import Writes

NODES_AT_ONCE = 8
"""
A request takes some milliseconds, of which most are the server's: thousands of nodes are done in seconds, and the
server's share for us is not used up.
"""

# How many failures an event tells in full; the others are alike.
_TOLD = 3

_KINDS: dict[type[Action], WriteKind] = {
    AddFinalizer: WriteKind.FINALIZER,
    RemoveFinalizer: WriteKind.FINALIZER,
    ApplyDaemonSet: WriteKind.DAEMON_SET,
    DeleteDaemonSet: WriteKind.DAEMON_SET,
    WriteStatus: WriteKind.STATUS,
    SetNodeCondition: WriteKind.NODE_CONDITION,
    RemoveNodeCondition: WriteKind.NODE_CONDITION,
    RemoveDriverLabel: WriteKind.NODE_LABEL,
}

# What an event says of it that failed. Of a DaemonSet that cannot be applied the next plan tells.
_TEXTS: dict[type[Action], str] = {
    AddFinalizer: "adding finalizer",
    RemoveFinalizer: "removing finalizer",
    DeleteDaemonSet: "deleting DaemonSets",
    WriteStatus: "unable to update status",
    SetNodeCondition: "patching node conditions",
    RemoveNodeCondition: "cleaning up node conditions",
    RemoveDriverLabel: "cleaning up driver labels",
}


class Tells(Protocol):
    """
    Who tells events.
    """

    def emit(self, regarding: ObjectReference, type: str, reason: str, message: str) -> None:  # noqa: A002 - its name
        """
        Let something be told of an object.
        """


@attrs.frozen
class Report:
    """
    What became of a plan.

    Args:
        memory: For the next plan.
        failures: How many actions failed.
        is_stopped: Whether writing had to stop.
        on_nodes: How many actions were on nodes.
        retry_after_seconds: How long the server asks to be left alone.
        problems: What failed, in words; one for each kind of write.
    """

    memory: Memory
    failures: int = 0
    is_stopped: bool = False
    on_nodes: int = 0
    retry_after_seconds: float = 0.0
    problems: tuple[str, ...] = ()


@attrs.define
class _Work:
    """
    One plan while it is carried out.
    """

    config: ConfigReading | None
    memory: Memory
    problems: dict[str, list[str]] = attrs.field(factory=lambda: defaultdict(list))
    failures: int = 0
    is_stopped: bool = False
    on_nodes: int = 0
    retry_after_seconds: float = 0.0

    def report(self) -> Report:
        """
        Sum it up.
        """
        problems = (*(f"{name}: {error}" for name, error in self.memory.errors.items()), *self.told())
        return Report(self.memory, self.failures, self.is_stopped, self.on_nodes, self.retry_after_seconds, problems)

    def told(self) -> Sequence[str]:
        """
        Say what failed beside DaemonSets, in a sentence for each kind of write.
        """
        return [f"{what}: {_some(problems)}" for what, problems in self.problems.items()]


class Applier:
    """
    Carries plans out, one at a time.

    Args:
        writes: Sends what is to be written.
        recorder: Tells events.
        latest: Learns what the resource became by a write.
        metrics: Counts writes.
    """

    def __init__(self, writes: Writes, *, recorder: Tells, latest: Latest, metrics: Metrics) -> None:
        self._writes = writes
        self._recorder = recorder
        self._latest = latest
        self._metrics = metrics

    async def apply(self, plan: Plan, config: ConfigReading | None) -> Report:
        """
        Carry a plan out.

        Args:
            plan: The plan.
            config: The resource that it was made for.
        """
        work = _Work(config, plan.memory)
        for is_on_node, actions in groupby(plan.actions, key=_is_on_node):
            if is_on_node:
                await self._apply_on_nodes(work, actions)
            else:
                for action in actions:
                    await self._apply(work, action)
        self._tell(work)
        return work.report()

    async def _apply_on_nodes(self, work: _Work, actions: Iterator[Action]) -> None:
        async def take() -> None:
            for action in actions:
                work.on_nodes += 1
                await self._apply(work, action)

        async with asyncio.TaskGroup() as group:
            for number in range(NODES_AT_ONCE):
                group.create_task(take(), name=f"nodes {number}")

    async def _apply(self, work: _Work, action: Action) -> None:
        if work.is_stopped:
            return
        try:
            await self._do(work, action)
        except MayNotWrite:
            work.is_stopped = True
        except (Unavailable, InvalidInput, ProtocolViolation) as error:
            self._count(action, WriteResult.ERROR)
            _note(work, action, error)
        else:
            self._count(action, WriteResult.OK)

    async def _do(self, work: _Work, action: Action) -> None:
        match action:
            case AddFinalizer() | RemoveFinalizer():
                await self._set_finalizers(work, action)
            case ApplyDaemonSet():
                applied = await self._writes.apply_daemonset(action)
                work.memory = work.memory.applied(action.component, applied)
            case DeleteDaemonSet():
                await self._writes.delete_daemonset(action)
            case WriteStatus():
                await self._write_status(work, action)
            case SetNodeCondition():
                await self._writes.set_node_condition(action)
            case RemoveNodeCondition(node):
                await self._writes.remove_node_condition(node)
            case RemoveDriverLabel(node):
                await self._writes.remove_driver_marks(node)
            case EmitEvent(kind, reason, message):
                self._emit(work, kind, reason, message)
            case _:
                assert_never(action)

    async def _set_finalizers(self, work: _Work, action: AddFinalizer | RemoveFinalizer) -> None:
        try:
            manifest = await self._writes.set_finalizers(action.finalizers, action.resource_version)
        except NotFound:
            return
        except Conflict:
            # Another version is on its way to us, and leads to another plan; should it not come, we try again.
            work.failures += 1
            return
        self._wrote(work, manifest)

    async def _write_status(self, work: _Work, action: WriteStatus) -> None:
        try:
            manifest = await self._writes.write_status(action)
        except NotFound:
            return
        self._wrote(work, manifest)

    def _wrote(self, work: _Work, manifest: Mapping[str, Any]) -> None:
        if work.config is not None:
            work.config = self._latest.wrote(work.config, manifest)

    def _count(self, action: Action, result: WriteResult) -> None:
        if kind := _KINDS.get(type(action)):
            self._metrics.writes[kind, result].inc()

    def _emit(self, work: _Work, kind: str, reason: str, message: str) -> None:
        if work.config is not None:
            self._recorder.emit(_reference(work.config), kind, reason, message)

    def _tell(self, work: _Work) -> None:
        """
        Tell what failed, in one event for each kind of write.
        """
        for problem in work.told():
            self._emit(work, WARNING, RECONCILE_ERROR, problem)


def _note(work: _Work, action: Action, error: FractioningError) -> None:
    work.failures += 1
    if isinstance(error, ApiOverloaded):
        work.retry_after_seconds = max(work.retry_after_seconds, error.retry_after_seconds)
    if isinstance(action, ApplyDaemonSet):
        work.memory = work.memory.failed(action.component, str(error))
    elif what := _TEXTS.get(type(action)):
        work.problems[what].append(str(error))


def _some(problems: Sequence[str]) -> str:
    untold = len(problems) - _TOLD
    return "; ".join(problems[:_TOLD]) + (f"; and {untold} more" if untold > 0 else "")


def _is_on_node(action: Action) -> bool:
    return isinstance(action, SetNodeCondition | RemoveNodeCondition | RemoveDriverLabel)


def _reference(reading: ConfigReading) -> ObjectReference:
    return ObjectReference(resource.API_VERSION, resource.KIND, reading.config.name, uid=reading.config.uid)
