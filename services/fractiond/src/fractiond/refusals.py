"""
Remembers which refusals were already logged.

The kubelet retries a refused container for as long as its pod exists; the log should say it once.
"""

from __future__ import annotations

# One entry per refused container of a pod; past it the oldest is forgotten and may be logged once more.
MAX_REMEMBERED = 4096


class Refusals:
    """A bounded memory of texts."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], None] = {}

    def is_new(self, pod_uid: str, text: str) -> bool:
        """Tell whether this text about this pod comes for the first time, and remember it."""
        key = (pod_uid, text)
        if key in self._seen:
            return False
        if len(self._seen) >= MAX_REMEMBERED:
            del self._seen[next(iter(self._seen))]
        self._seen[key] = None
        return True
