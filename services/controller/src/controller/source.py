"""
A mirror, and since when it cannot be relied on.

A short outage is told to nobody, because it is about to be over: what was read counts until then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from fractioning_core.kube.mirror import Mirror

from controller.world import Reading

T = TypeVar("T")

OUTAGE_SECONDS = 60.0
"""
A mirror that was fine is asked again every half minute at most, so what lasts longer is no passing outage.
"""


class Source(Generic[T]):
    """
    One collection that is mirrored.

    Args:
        changed: Called as by a mirror.
        clock: The loop's time.
        mirror: Makes the mirror, given what it is to call.
    """

    def __init__(
        self,
        mirror: Callable[[Callable[[], None]], Mirror[T]],
        *,
        changed: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self.mirror = mirror(self._note)
        self._changed = changed
        self._clock = clock
        self._failing_since: float | None = None

    def reading(self) -> Reading[T] | None:
        """
        Tell what is known of what may be absent; None while nothing is. What was never read is told at once.
        """
        mirror = self.mirror
        is_known = mirror.is_synced or mirror.is_absent
        error = self.outage() if is_known else mirror.problem
        return Reading(tuple(mirror.items.values()), error) if is_known or error else None

    def outage(self) -> str:
        """
        Say why it cannot be read, when that is no passing outage; else nothing.
        """
        return self.mirror.problem if self._outage_seconds() >= OUTAGE_SECONDS else ""

    def patience_seconds(self) -> float | None:
        """
        Say how long to wait until an outage is to be told; None while there is none to wait for.
        """
        left = OUTAGE_SECONDS - self._outage_seconds()
        return left if self.mirror.problem and left > 0 else None

    def _outage_seconds(self) -> float:
        return 0.0 if self._failing_since is None else self._clock() - self._failing_since

    def _note(self) -> None:
        if not self.mirror.problem:
            self._failing_since = None
        elif self._failing_since is None:
            self._failing_since = self._clock()
        self._changed()
