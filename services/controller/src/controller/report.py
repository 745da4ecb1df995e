"""
What became of a plan: gathered while it is carried out, and summed up in the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import attrs
from fractioning_core.errors import FractioningError
from fractioning_core.kube.errors import ApiOverloaded

from controller.actions import (
    Action,
    AddFinalizer,
    ApplyDaemonSet,
    DeleteDaemonSet,
    RemoveDriverLabel,
    RemoveFinalizer,
    RemoveNodeCondition,
    SetNodeCondition,
    WriteStatus,
)
from controller.configreading import ConfigReading
from controller.memory import Memory

# How many failures an event tells in full; the others are alike.
_TOLD = 3

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


@attrs.frozen
class Report:
    """
    What became of a plan.

    Args:
        memory: For the next plan.
        failures: How many actions failed.
        is_stopped: Whether writing had to stop.
        is_cut: Whether actions on nodes were left, for another plan.
        on_nodes: How many actions were on nodes.
        retry_after_seconds: How long the server asks to be left alone.
        problems: What failed, in words; one for each kind of write.
    """

    memory: Memory
    failures: int = 0
    is_stopped: bool = False
    is_cut: bool = False
    on_nodes: int = 0
    retry_after_seconds: float = 0.0
    problems: tuple[str, ...] = ()


@attrs.define
class Work:
    """
    One plan while it is carried out.
    """

    config: ConfigReading | None
    memory: Memory
    problems: dict[str, list[str]] = attrs.field(factory=lambda: defaultdict(list))
    failures: int = 0
    is_stopped: bool = False
    is_cut: bool = False
    on_nodes: int = 0
    retry_after_seconds: float = 0.0

    def note(self, action: Action, error: FractioningError) -> None:
        """
        Note that an action failed.
        """
        self.failures += 1
        if isinstance(error, ApiOverloaded):
            self.retry_after_seconds = max(self.retry_after_seconds, error.retry_after_seconds)
        if isinstance(action, ApplyDaemonSet):
            self.memory = self.memory.failed(action.component, str(error))
        elif what := _TEXTS.get(type(action)):
            self.problems[what].append(str(error))

    def report(self) -> Report:
        """
        Sum it up.
        """
        problems = (*(f"{name}: {error}" for name, error in self.memory.errors.items()), *self.told())
        return Report(
            memory=self.memory,
            failures=self.failures,
            is_stopped=self.is_stopped,
            is_cut=self.is_cut,
            on_nodes=self.on_nodes,
            retry_after_seconds=self.retry_after_seconds,
            problems=problems,
        )

    def told(self) -> Sequence[str]:
        """
        Say what failed beside DaemonSets, in a sentence for each kind of write.
        """
        return [f"{what}: {_some(problems)}" for what, problems in self.problems.items()]


def _some(problems: Sequence[str]) -> str:
    untold = len(problems) - _TOLD
    return "; ".join(problems[:_TOLD]) + (f"; and {untold} more" if untold > 0 else "")
