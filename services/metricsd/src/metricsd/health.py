"""
What metricsd knows about its own work: whether NVML answers, why not, and how old its figures are.

The cycle tells, readiness and page read. An error of NVML withdraws the figures at once, since zeros of a driver that
does not answer would be believed; where NVML is merely silent, or the records cannot be read, the last figures stay for
a minute, marked as stale. Liveness asks none of this: no restart has ever mended a driver.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import attrs
from fractioning_core.nvml.errors import NvmlError, NvmlSilent
from fractioning_core.service.http import Readiness

# So many intervals without a finished cycle: one may fall into a busy moment of the node.
STALE_INTERVALS = 2
# A minute of figures that stand still says less than none.
WITHDRAWN_SECONDS = 60.0
WITHDRAWN_INTERVALS = 3
# The function that takes minutes on a node whose driver is being loaded.
START = "Init"
# A reason is one line of a probe's answer.
REASON_LIMIT = 400


class Outcome(Enum):
    """
    How a cycle ended.
    """

    COMPLETE = "complete"
    NVML_ERROR = "nvml_error"
    NVML_SILENT = "nvml_silent"
    NODE_UNREADABLE = "node_unreadable"


@attrs.frozen
class State:
    """
    How the last cycle ended.

    Args:
        outcome: None before the first.
        reason: Why it did not complete, one line without a duration; empty when it did.
        since: Since when NVML is silent, or since the start where it never answered.
    """

    outcome: Outcome | None
    reason: str = ""
    since: float = 0.0


@attrs.define(eq=False)
class Health:
    """
    The state, and what follows from it at this moment.

    Args:
        clock: Monotonic, in seconds.
        interval_seconds: From cycle to cycle.
    """

    _clock: Callable[[], float]
    _interval_seconds: float = attrs.field(kw_only=True)
    state: State = attrs.field(init=False)
    _has_met_nvml: bool = attrs.field(default=False, init=False)
    _snapshot_at: float | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.state = State(None, since=self._clock())

    def completed(self, *, began: float) -> Outcome:
        """
        Take that a cycle has put its figures on the page.

        Args:
            began: When it began, before anything was read: so old are the figures at least.
        """
        self._has_met_nvml = True
        self._snapshot_at = began
        return self._ended(Outcome.COMPLETE)

    def nvml_failed(self, error: NvmlError, *, explanation: str = "") -> Outcome:
        """
        Take that NVML answered with an error, or not at all.

        Args:
            error: Which.
            explanation: More about it.
        """
        if isinstance(error, NvmlSilent):
            # Whatever else is under way is asked of a driver that has started.
            self._has_met_nvml = self._has_met_nvml or error.function != START
            since = self._clock() - error.seconds if self._has_met_nvml else self.state.since
            return self._ended(Outcome.NVML_SILENT, f"NVML {error.function} does not answer", since=since)
        self._has_met_nvml = True
        self._snapshot_at = None
        reason = f"{error}: {explanation}" if explanation else str(error)
        return self._ended(Outcome.NVML_ERROR, reason)

    def node_unreadable(self, reason: str) -> Outcome:
        """
        Take that NVML answered, and the node's records or processes could not be read.
        """
        self._has_met_nvml = True
        return self._ended(Outcome.NODE_UNREADABLE, reason)

    @property
    def is_nvml_up(self) -> bool:
        """
        Whether NVML answered when it was last asked.
        """
        return self.state.outcome in (Outcome.COMPLETE, Outcome.NODE_UNREADABLE)

    def driver_reason(self) -> str:
        """
        Say what is wrong with the driver; empty when nothing is.
        """
        match self.state.outcome:
            case Outcome.COMPLETE | Outcome.NODE_UNREADABLE:
                return ""
            case Outcome.NVML_ERROR:
                return self.state.reason
            case Outcome.NVML_SILENT if self._has_met_nvml:
                return f"{self.state.reason}, {self._clock() - self.state.since:.0f} s"
            case _:
                return f"driver starting, {self._clock() - self.state.since:.0f} s"

    def snapshot_age_seconds(self) -> float | None:
        """
        Give the age of the figures on the page; None when there are none to be shown.
        """
        if self._snapshot_at is None:
            return None
        age = self._clock() - self._snapshot_at
        return age if age <= max(WITHDRAWN_SECONDS, WITHDRAWN_INTERVALS * self._interval_seconds) else None

    def is_stale(self) -> bool | None:
        """
        Tell whether those figures are older than they are between two cycles; None when there are none.
        """
        age = self.snapshot_age_seconds()
        return None if age is None else age > STALE_INTERVALS * self._interval_seconds

    def readiness(self) -> Readiness:
        """
        Say whether the page shows the GPUs as they are, and else why not.
        """
        reason = self.driver_reason() or self.state.reason
        if not reason and self.is_stale() is not False:
            reason = "the last figures are older than two intervals"
        return Readiness(ready=not reason, reason=reason)

    def _ended(self, outcome: Outcome, reason: str = "", *, since: float = 0.0) -> Outcome:
        self.state = State(outcome, reason[:REASON_LIMIT], since)
        return outcome
