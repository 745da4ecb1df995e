"""
Work that must not hold up an answer to the runtime, which is what goes into the log.

It is done together, a little later. The runtime validates within a millisecond of a creation, and anything that runs
meanwhile competes with that answer; done one by one it also costs several times as much, for the caches are cold and
each line wakes the thread that writes it.
"""

from __future__ import annotations

import collections
from collections.abc import Callable

# A burst of creations makes some 100 lines in this time, which then hold the loop for about 3 ms. Shorter pauses cost
# more in all (with 20 ms, a tenth of the answers take a fifth longer).
GATHER_SECONDS = 0.05

Work = Callable[[], object]


class Afterwards:
    """
    A queue of work, as long as the runtime's calls of `GATHER_SECONDS` make it.

    Args:
        call_later: The event loop's.
    """

    def __init__(self, call_later: Callable[[float, Work], object]) -> None:
        self._call_later = call_later
        self._waiting: collections.deque[Work] = collections.deque()

    def add(self, work: Work) -> None:
        """Do this soon, after everything added before it."""
        if not self._waiting:
            self._call_later(GATHER_SECONDS, self.run)
        self._waiting.append(work)

    def run(self) -> None:
        """Do all of it now; what one piece raises keeps none of the others from being done."""
        try:
            while self._waiting:
                self._waiting.popleft()()
        finally:
            if self._waiting:
                self._call_later(0, self.run)
