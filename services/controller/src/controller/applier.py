"""
Carries out a plan: its actions in order, those on nodes some at a time, each even where one before it failed.

What failed is no reason to stop: it is told in an event, and the next plan asks for it again, since the world is not
as it should be. Losing the lease is one: from then on nothing is written at all. Time is another, on nodes: where they
are many and the server is slow, the last would be told what was decided minutes ago. What is left is planned anew.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, Protocol, assert_never

from fractioning_core import resource
from fractioning_core.errors import InvalidInput, ProtocolViolation, Unavailable
from fractioning_core.kube.errors import Conflict, NotFound
from fractioning_core.kube.eventbook import ObjectReference
from fractioning_core.kube.events import WARNING

from controller.actions import (
    Action,
    AddFinalizer,
    ApplyDaemonSet,
    DeleteDaemonSet,
    EmitEvent,
    NodeAction,
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
from controller.metrics import Metrics, WriteKind, WriteResult
from controller.report import Report, Work
from controller.writes import Writes

NODES_AT_ONCE = 8
"""
A request takes some milliseconds, of which most are the server's: thousands of nodes are done in seconds, and the
server's share for us is not used up.
"""

NODES_SECONDS = 2.0
"""
How long after a plan nodes are still written on; requests that are under way then are ended. As long as a change may
take to be seen at all.
"""

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


class Tells(Protocol):
    """
    Who tells events.
    """

    def emit(self, regarding: ObjectReference, type: str, reason: str, message: str) -> None:  # noqa: A002 - its name
        """
        Let something be told of an object.
        """


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
        self._refused: frozenset[str] = frozenset()
        """Nodes that could not be written on the last time; they must not take up the time of the others."""

    async def apply(self, plan: Plan, config: ConfigReading | None) -> Report:
        """
        Carry a plan out.

        Args:
            plan: The plan.
            config: The resource that it was made for.
        """
        work = Work(config, plan.memory)
        for is_on_node, actions in groupby(plan.actions, key=_is_on_node):
            if is_on_node:
                await self._apply_on_nodes(work, [action for action in actions if isinstance(action, NodeAction)])
            else:
                for action in actions:
                    await self._apply(work, action)
        self._tell(work)
        return work.report()

    async def _apply_on_nodes(self, work: Work, actions: Iterable[NodeAction]) -> None:
        clock = asyncio.get_running_loop().time
        ends = clock() + NODES_SECONDS
        left = deque(sorted(actions, key=lambda action: action.node in self._refused))
        refused = set[str]()

        async def take() -> None:
            while left and clock() < ends:
                action = left.popleft()
                work.on_nodes += 1
                if not await self._apply(work, action):
                    refused.add(action.node)

        async with asyncio.TaskGroup() as group:
            for number in range(NODES_AT_ONCE):
                group.create_task(take(), name=f"nodes {number}")
        work.is_cut = bool(left)
        self._refused = frozenset(refused).union(action.node for action in left if action.node in self._refused)

    async def _apply(self, work: Work, action: Action) -> bool:
        """
        Do one thing if we still may; say whether it is done.
        """
        if work.is_stopped:
            return False
        try:
            await self._do(work, action)
        except MayNotWrite:
            work.is_stopped = True
            return False
        except (Unavailable, InvalidInput, ProtocolViolation) as error:
            self._count(action, WriteResult.ERROR)
            work.note(action, error)
            return False
        self._count(action, WriteResult.OK)
        return True

    async def _do(self, work: Work, action: Action) -> None:
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

    async def _set_finalizers(self, work: Work, action: AddFinalizer | RemoveFinalizer) -> None:
        try:
            manifest = await self._writes.set_finalizers(action)
        except NotFound:
            return
        except Conflict:
            # Another version is on its way to us, and leads to another plan; should it not come, we try again.
            work.failures += 1
            return
        self._wrote(work, manifest)

    async def _write_status(self, work: Work, action: WriteStatus) -> None:
        try:
            manifest = await self._writes.write_status(action)
        except NotFound:
            return
        self._wrote(work, manifest)

    def _wrote(self, work: Work, manifest: Mapping[str, Any]) -> None:
        if work.config is not None:
            work.config = self._latest.wrote(work.config, manifest)

    def _count(self, action: Action, result: WriteResult) -> None:
        if kind := _KINDS.get(type(action)):
            self._metrics.writes[kind, result].inc()

    def _emit(self, work: Work, kind: str, reason: str, message: str) -> None:
        if work.config is not None:
            self._recorder.emit(_reference(work.config), kind, reason, message)

    def _tell(self, work: Work) -> None:
        """
        Tell what failed, in one event for each kind of write.
        """
        for problem in work.told():
            self._emit(work, WARNING, RECONCILE_ERROR, problem)


def _is_on_node(action: Action) -> bool:
    return isinstance(action, NodeAction)


def _reference(reading: ConfigReading) -> ObjectReference:
    return ObjectReference(resource.API_VERSION, resource.KIND, reading.config.name, uid=reading.config.uid)
