"""
How long to wait before the API server is asked again, after a run that ended.

A pure value, so that sleeping is one line elsewhere. There is always a wait, if a short one: a server whose answers
end at once must not be asked in a loop.
"""

from __future__ import annotations

import attrs

STABLE_SECONDS = 5.0
"""
After a run as long as this nothing is held against the server.
"""


@attrs.frozen
class Pace:
    """
    Waits that double from run to run.

    Args:
        first_seconds: The wait after a run that worked.
        cap_seconds: What no wait exceeds.
        failures: Runs in a row that did not work.
    """

    first_seconds: float
    cap_seconds: float
    failures: int = 0

    def after_run(self, uptime_seconds: float, *, has_worked: bool) -> Pace:
        """
        Take note of a run that ended: how long it lasted, and whether it brought anything.
        """
        if has_worked or uptime_seconds >= STABLE_SECONDS:
            return attrs.evolve(self, failures=0)
        return attrs.evolve(self, failures=self.failures + 1)

    @property
    def wait_seconds(self) -> float:
        """
        How long to wait now.
        """
        # The exponent is bounded because a float ends after a thousand doublings.
        return min(self.cap_seconds, self.first_seconds * 2.0 ** min(self.failures, 64))
