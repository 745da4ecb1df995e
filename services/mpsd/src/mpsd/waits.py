"""
How long the supervisor waits before the next start, by why the last daemon ended.

Crashes are charged to the retry budget, whose end is mpsd's. What checks find is waited after by the same schedule but
charged to nothing: mpsd must not end for a daemon that answers badly, and a restart ends all clients of the node, so
it must not come again and again either. What was asked for comes back at once and forgives the crashes before it.
"""

from __future__ import annotations

from typing import Self

import attrs
from fractioning_core.service.backoff import RetryBudget

from mpsd.causes import Cause

# Before a daemon that was told to end comes back: the driver lets go of its sockets and servers meanwhile.
PAUSE_SECONDS = 1.0


@attrs.define
class Waits:
    """
    Both counts.

    Args:
        crashes: What crashes are allowed.
        findings: The same for what checks find, without an end.
    """

    crashes: RetryBudget
    findings: RetryBudget

    @classmethod
    def of(cls, budget: RetryBudget) -> Self:
        """
        Wait after findings as after crashes.
        """
        return cls(budget, RetryBudget(0, budget.stable_threshold, budget.schedule))

    def after_crash(self, uptime_seconds: float) -> float | None:
        """
        Charge a crash; None when no more are allowed.
        """
        return self.crashes.after_run(uptime_seconds)

    def after_restart(self, cause: Cause, uptime_seconds: float) -> float:
        """
        Give the wait after a daemon that was made to end.
        """
        if cause is Cause.REQUESTED:
            self.crashes.forgive()
            self.findings.forgive()
        if cause is Cause.SOCKET_MISSING:
            # Only a new daemon makes a socket, and newcomers want one as soon as nobody removes it any more.
            return max(PAUSE_SECONDS, self.findings.schedule.delay(0))
        if cause.is_a_finding:
            return max(PAUSE_SECONDS, self.findings.after_run(uptime_seconds) or PAUSE_SECONDS)
        return PAUSE_SECONDS
