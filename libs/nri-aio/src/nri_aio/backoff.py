"""
How long to wait before the next connection: doubling, with a cap, and never two plugins in step.
"""

from __future__ import annotations

import attrs

FIRST_SECONDS = 0.1
"""A runtime that restarts is back soon, and until then containers start without us."""

MAX_SECONDS = 5.0
"""While the runtime is away there is nothing to miss, only the moment of its return."""

MAX_SLOW_SECONDS = 30.0
"""A runtime that rejects us logs each attempt, and while it considers one it accepts no other plugin."""


@attrs.define
class Backoff:
    """The schedule; `reset` it after a connection that became active."""

    _next_seconds: float = FIRST_SECONDS

    def advance(self, jitter: float, *, slowly: bool) -> float:
        """
        Give the seconds to wait now.

        Args:
            jitter: From 0 to 1; takes off up to a quarter.
            slowly: Whether the next attempt will probably fail the same way.
        """
        cap = MAX_SLOW_SECONDS if slowly else MAX_SECONDS
        seconds = min(self._next_seconds, cap)
        self._next_seconds = min(self._next_seconds * 2, MAX_SLOW_SECONDS)
        return seconds * (1 - jitter / 4)

    def reset(self) -> None:
        """Begin anew."""
        self._next_seconds = FIRST_SECONDS
