"""
Stops containers that run without what creation would inject, one after another.

The kubelet makes each of them anew, this time through a working hook. At most one stop runs at a time, a pause apart,
those without any limit first; a container is stopped at most once. What cannot be stopped (the CRI socket is gone,
slow or refusing) is said and tried again for as long as it takes.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Iterable
from typing import Protocol

import attrs
import structlog
from fractioning_core.service.backoff import Schedule
from nri_aio.errors import CriError

from fractiond.audit import Kind, Violation
from fractiond.metrics import Metrics, StopResult
from fractiond.turn import Turn

RETRY = Schedule(first=1.0, cap=30.0)


class Stopper(Protocol):
    """The one call of the CRI client that is needed here."""

    async def stop_container(self, container_id: str, *, grace_seconds: int) -> None:
        """Stop a container: TERM, then KILL after the grace. A stopped or unknown one is fine."""


@attrs.frozen
class Terms:
    """How stops are done."""

    grace_seconds: float
    interval_seconds: float
    dry_run: bool


@attrs.define
class _Pending:
    violation: Violation
    attempts: int = 0

    def urgency(self) -> tuple[int, bool]:
        return self.attempts, self.violation.kind is not Kind.UNFENCED


class NoEnforcer:
    """Stands in where retroactive enforcement is off: nothing is judged, nothing is stopped."""

    def submit(self, violations: Iterable[Violation]) -> None:
        """Pass over them."""

    def forget(self, container_id: str) -> None:
        """Nothing was remembered."""

    def retain(self, existing: Collection[str]) -> None:
        """Nothing was remembered."""


class Enforcer:
    """The queue of violators and the worker that stops them."""

    def __init__(self, stopper: Stopper, terms: Terms, *, turn: Turn, metrics: Metrics) -> None:
        self._stopper = stopper
        self._turn = turn
        self._terms = terms
        self._metrics = metrics
        self._log = structlog.get_logger()
        self._pending: dict[str, _Pending] = {}
        self._reported: dict[str, Violation] = {}
        self._arrived = asyncio.Event()

    @property
    def pending(self) -> int:
        """How many containers are still to be stopped."""
        return len(self._pending)

    def submit(self, violations: Iterable[Violation]) -> None:
        """Report violations and queue those that must end."""
        for violation in violations:
            container_id = violation.subject.container_id
            is_new = self._report(violation)
            if violation.kind is Kind.TOLERATED:
                self._pending.pop(container_id, None)
            elif is_new or not self._terms.dry_run:
                self._pending.setdefault(container_id, _Pending(violation)).violation = violation
                self._arrived.set()

    def forget(self, container_id: str) -> None:
        """Drop what is known of a container that no longer exists."""
        self._pending.pop(container_id, None)
        self._reported.pop(container_id, None)

    def retain(self, existing: Collection[str]) -> None:
        """Drop what is known of all containers but these, which the runtime listed just now."""
        for container_id in self._reported.keys() - set(existing):
            self.forget(container_id)

    async def run(self) -> None:
        """Stop what is queued, for ever."""
        failures = 0
        while True:
            await self._arrived.wait()
            if not self._pending:
                self._arrived.clear()
                continue
            pending = min(self._pending.values(), key=_Pending.urgency)
            failures = 0 if await self._stop(pending) else failures + 1
            await asyncio.sleep(self._terms.interval_seconds if not failures else RETRY.delay(failures - 1))

    def _report(self, violation: Violation) -> bool:
        """Say a violation once, however often the runtime lists the container; tell whether it is new."""
        container_id = violation.subject.container_id
        if self._reported.get(container_id) == violation:
            return False
        self._reported[container_id] = violation
        self._metrics.violations[violation.kind].inc()
        self._log.warning("violation_found", **_facts(violation))
        return True

    async def _stop(self, pending: _Pending) -> bool:
        violation, container_id = pending.violation, pending.violation.subject.container_id
        if self._terms.dry_run:
            self._pending.pop(container_id, None)
            self._metrics.stops[StopResult.DRY_RUN].inc()
            self._log.warning("container_would_be_stopped", **_facts(violation))
            return True
        try:
            async with self._turn:
                # Rounded up: CRI counts whole seconds, and half a second must not become an immediate KILL.
                await self._stopper.stop_container(container_id, grace_seconds=math.ceil(self._terms.grace_seconds))
        except CriError as error:
            pending.attempts += 1
            self._metrics.stops[StopResult.FAILED].inc()
            self._log.error("container_not_stopped", error=str(error), attempt=pending.attempts, **_facts(violation))
            return False
        # Nothing of it is remembered: stopped, it is never listed as alive again. One that the runtime lists all the
        # same was created and not started, which a stop leaves as it was, and is to be judged anew.
        self.forget(container_id)
        self._metrics.stops[StopResult.STOPPED].inc()
        self._log.warning("container_stopped", **_facts(violation))
        return True


def _facts(violation: Violation) -> dict[str, object]:
    subject = violation.subject
    return {**subject.keys(), "pod_uid": subject.pod_uid, "kind": violation.kind.value, "reasons": violation.reasons}
