"""How long to wait before trying again, and when to give up.

Both are values computed from values: sleeping is one line in the service that asks. A supervisor of a connection or a
child process holds one `RetryBudget`, tells it how long each run lasted, and obeys the answer.
"""

from __future__ import annotations

import math

import attrs

from fractioning_core.errors import Misuse


@attrs.frozen
class Schedule:
    """
    Delays that grow by a factor until they reach a cap.

    Args:
        first: Seconds before the first retry.
        cap: Seconds that no delay exceeds, the first included.
        factor: What each delay is multiplied by to give the next; 1 keeps them equal.
    """

    first: float
    cap: float
    factor: float = 2.0

    def __attrs_post_init__(self) -> None:
        # A delay of zero would turn a refused connection into a busy loop.
        if not (self.first > 0 and self.cap > 0 and self.factor >= 1):
            raise Misuse(f"{self!r}: first and cap are above 0, factor is at least 1")

    def delay(self, attempt: int) -> float:
        """
        Return the seconds to wait before a retry, whose number starts at 0.
        """
        if self.first >= self.cap:
            return self.cap
        # Compared as logarithms, because the power itself overflows a float after about a thousand doublings.
        if attempt * math.log(self.factor) >= math.log(self.cap / self.first):
            return self.cap
        return min(self.cap, self.first * self.factor**attempt)


@attrs.define
class RetryBudget:
    """
    What a supervisor still allows: a number of short runs in a row, each followed by a longer wait.

    Args:
        max_retries: Short runs in a row after which to give up; 0 never does.
        stable_threshold: Seconds after which a run counts as having worked, so that nothing is held against it.
        schedule: The waits.
    """

    max_retries: int
    stable_threshold: float
    schedule: Schedule
    attempts: int = attrs.field(default=0, init=False)
    """Short runs since the last stable one, for the words of the one who gives up."""

    _step: int = attrs.field(default=0, init=False)
    """Apart from `attempts`, since a stable run is waited after without being charged."""

    def relax(self) -> None:
        """
        Begin again with the first wait: what was waited for came about. The number of short runs stays.
        """
        self._step = 0

    def after_run(self, uptime_seconds: float) -> float | None:
        """
        Charge one ended run.

        Returns:
            The seconds to wait before the next run, or None when the budget is spent.
        """
        if uptime_seconds >= self.stable_threshold:
            self.attempts = self._step = 0
        else:
            self.attempts += 1
        if 0 < self.max_retries <= self.attempts:
            return None
        self._step += 1
        return self.schedule.delay(self._step - 1)

    def forgive(self) -> None:
        """
        Hold nothing against the next run, as after a stable one, and begin with the first wait.
        """
        self.attempts = self._step = 0
