"""
How long calls took, from the thread that makes them to the loop that tells of them.
"""

from __future__ import annotations

from collections import deque

from fractioning_core.nvml.samples import CallTime

# Six cycles of a node with ten thousand containers, whose limits are read one by one; 6 MB, should nobody take them.
ROOM = 60_000


class CallTimes:
    """
    The times of the last calls. One thread adds and one takes; a deque needs no lock for that.

    Args:
        room: How many are kept; of more, the oldest go.
    """

    def __init__(self, *, room: int = ROOM) -> None:
        # Plain tuples: there may be hundreds of calls a cycle, in a thread that shares its time with the loop.
        self._times: deque[tuple[str, float, str]] = deque(maxlen=room)
        self._room = room
        self.dropped = 0
        """How many went untaken, ever."""

    def add(self, function: str, seconds: float, error: str) -> None:
        """
        Keep one; `error` is empty when there was none.
        """
        if len(self._times) == self._room:
            self.dropped += 1
        self._times.append((function, seconds, error))

    def take(self) -> tuple[CallTime, ...]:
        """
        Give those kept, oldest first, and keep them no more.
        """
        # Not by iteration, which an `add` in between would break; an `add` never leaves fewer.
        return tuple(CallTime(*self._times.popleft()) for _ in range(len(self._times)))
