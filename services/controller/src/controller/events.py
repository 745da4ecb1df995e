"""
Events about the config, from what changed between its stored conditions and the new ones: so no state is told twice.
"""

from __future__ import annotations

from collections.abc import Iterator

from fractioning_core.resource import Config

from controller import conditions, identifiers
from controller.actions import EmitEvent
from controller.conditions import RECONCILE_ERROR, TRUE
from controller.memory import Memory
from controller.status import Status

NORMAL, WARNING = "Normal", "Warning"

DEPENDENCY_CHECK_ERROR = "DependencyCheckError"
RUNTIME_CLASS_IGNORED = "RuntimeClassNameIgnored"
READY, NOT_READY = "Ready", "NotReady"


def iter_events(config: Config, status: Status) -> Iterator[EmitEvent]:
    """
    Yield what is new.
    """
    for component in identifiers.COMPONENTS:
        kind = conditions.component_type(component)
        new = conditions.find(status.conditions, kind)
        before = _said(config, kind)
        if new is None or before == (new.status, new.reason, new.message):
            continue
        if new.reason == RECONCILE_ERROR:
            yield EmitEvent(WARNING, RECONCILE_ERROR, f"{component}: {new.message}")
        elif before[0] not in {"", new.status}:
            # Its pods' comings and goings in between would be an event each.
            yield EmitEvent(NORMAL, new.reason, f"{kind} is {new.status}: {new.message}")
    ready = conditions.find(status.conditions, conditions.READY)
    if ready is None:
        return
    status_before, reason_before, message_before = _said(config, conditions.READY)
    if status.finding and status.finding.is_error and (reason_before, message_before) != (ready.reason, ready.message):
        yield EmitEvent(WARNING, DEPENDENCY_CHECK_ERROR, status.finding.message)
    if (status_before, reason_before) != (ready.status, ready.reason):
        reason = READY if ready.status == TRUE else NOT_READY
        yield EmitEvent(NORMAL, reason, f"Ready is {ready.status}, {ready.reason}: {ready.message}")


def iter_mode_events(config: Config, before: Memory, after: Memory) -> Iterator[EmitEvent]:
    """
    Yield that a RuntimeClass was asked for in vain, when that mode is entered or first seen.
    """
    name = config.spec.runtime_class_name
    if name and after.is_nri and not before.is_nri:
        message = f'spec.runtimeClassName "{name}" is not used: the GPU Operator runs its NRI plugin, which deletes it'
        yield EmitEvent(NORMAL, RUNTIME_CLASS_IGNORED, message)


def _said(config: Config, kind: str) -> tuple[str, str, str]:
    found = conditions.find(config.conditions, kind)
    return (found.status, found.reason, found.message) if found else ("", "", "")
