"""
What the controller says of itself: ready when it follows the cluster, or stands by to do so.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import attrs
from fractioning_core.service.http import Readiness

from controller.reconciler import Reconciler
from controller.sources import Sources

LEADS_ONLY = "leads but may not write"


class Candidate(Protocol):
    """
    Who may lead.
    """

    @property
    def is_leader(self) -> bool:
        """
        Whether it leads.
        """

    @property
    def problem(self) -> str:
        """
        Why it is not known who leads; empty when it is.
        """

    def may_write(self) -> bool:
        """
        Say whether a write may begin now.
        """

    async def run(self) -> None:
        """
        Seek the lead and keep it, for ever.
        """


@attrs.frozen
class Alone:
    """
    A replica that nobody stands beside.
    """

    is_leader: bool = True
    problem: str = ""

    def may_write(self) -> bool:
        """
        Always.
        """
        return True

    async def run(self) -> None:
        """
        There is nothing to seek.
        """
        await asyncio.Event().wait()


@attrs.frozen
class Health:
    """
    Looks at the parts.
    """

    _candidate: Candidate
    _sources: Sources
    _reconciler: Reconciler

    def readiness(self) -> Readiness:
        """
        Say whether we do our work, or what is missing.
        """
        candidate = self._candidate
        reason = candidate.problem
        if candidate.is_leader and not candidate.may_write():
            # Passing, but not without a word: nothing is applied meanwhile.
            reason = f"{LEADS_ONLY}: {reason or 'the lease is renewed too slowly'}"
        elif not reason and candidate.is_leader:
            reason = self._sources.complaint() or self._reconciler.complaint
        return Readiness(not reason, reason)
