"""How long is waited before the next start."""

from __future__ import annotations

import pytest
from fractioning_core.service.backoff import RetryBudget, Schedule
from mpsd.causes import Cause
from mpsd.waits import PAUSE_SECONDS, Waits

FINDINGS = [Cause.NO_ANSWER, Cause.ERROR_ANSWER, Cause.CONFIG_CHANGED]


@pytest.fixture
def waits() -> Waits:
    return Waits.of(RetryBudget(3, 300.0, Schedule(first=5.0, cap=60.0)))


class TestAfterRestart:
    def test_findings_double_and_never_end(self, waits: Waits) -> None:
        """Whatever checks find is waited after longer each time, up to a minute, and is charged to no budget."""
        delays = [waits.after_restart(FINDINGS[n % 3], 10.0) for n in range(7)]

        assert [5.0, 10.0, 20.0, 40.0, 60.0, 60.0, 60.0] == delays
        assert 5.0 == waits.after_crash(1.0)

    def test_a_socket_that_vanishes_again_and_again_is_waited_for_alike(self, waits: Waits) -> None:
        """Whoever removes it stops some time, and then the next daemon is to be there within seconds."""
        assert [5.0] * 5 == [waits.after_restart(Cause.SOCKET_MISSING, 1.0) for _ in range(5)]

    def test_a_stable_run_begins_anew(self, waits: Waits) -> None:
        """A daemon that did well for long is given the first wait."""
        delays = [waits.after_restart(Cause.NO_ANSWER, uptime) for uptime in (1.0, 1.0, 300.0, 1.0)]

        assert [5.0, 10.0, 5.0, 10.0] == delays

    def test_a_finding_forgives_no_crash(self, waits: Waits) -> None:
        """Crashes and findings in turn spend the budget all the same."""
        delays = []
        for _ in range(3):
            delays.append(waits.after_crash(1.0))
            waits.after_restart(Cause.ERROR_ANSWER, 1.0)

        assert [5.0, 10.0, None] == delays

    def test_a_request_forgives_both(self, waits: Waits) -> None:
        """A person who restarts it begins anew, after a pause and no more."""
        for _ in range(2):
            waits.after_crash(1.0)
            waits.after_restart(Cause.NO_ANSWER, 1.0)
        delay = waits.after_restart(Cause.REQUESTED, 1.0)

        assert (PAUSE_SECONDS, 5.0, 5.0) == (delay, waits.after_crash(1.0), waits.after_restart(Cause.NO_ANSWER, 1.0))

    def test_the_driver_needs_no_wait(self, waits: Waits) -> None:
        """What is held next is not started anyway."""
        assert PAUSE_SECONDS == waits.after_restart(Cause.DRIVER, 1.0)

    def test_never_less_than_the_pause(self) -> None:
        """The driver lets go of its sockets, however short the back-off."""
        waits = Waits.of(RetryBudget(3, 300.0, Schedule(first=0.1, cap=60.0)))

        assert PAUSE_SECONDS == waits.after_restart(Cause.NO_ANSWER, 1.0)
