from __future__ import annotations

import pytest
from fractioning_core.errors import Misuse
from fractioning_core.service.backoff import RetryBudget, Schedule
from hypothesis import given
from hypothesis import strategies as st

SCHEDULE = Schedule(first=5.0, cap=60.0)


def a_budget(max_retries: int = 0) -> RetryBudget:
    return RetryBudget(max_retries=max_retries, stable_threshold=300.0, schedule=SCHEDULE)


class TestSchedule:
    def test_growth(self) -> None:
        """Delays double from the first to the cap."""
        delays = [SCHEDULE.delay(attempt) for attempt in range(6)]

        assert [5.0, 10.0, 20.0, 40.0, 60.0, 60.0] == delays

    @pytest.mark.parametrize(
        ("schedule", "expected"),
        [
            pytest.param(Schedule(first=1.0, cap=60.0), 60.0, id="doubling reaches the cap"),
            pytest.param(Schedule(first=3.0, cap=60.0, factor=1.0), 3.0, id="a factor of one never grows"),
            pytest.param(Schedule(first=90.0, cap=60.0), 60.0, id="a first delay above the cap is cut to it"),
        ],
    )
    def test_huge_attempt(self, schedule: Schedule, expected: float) -> None:
        """An attempt number past any float's exponent costs nothing and overflows nothing."""
        delay = schedule.delay(10**12)

        assert expected == delay

    @pytest.mark.parametrize(
        ("first", "cap", "factor"),
        [
            pytest.param(0.0, 60.0, 2.0, id="no first delay"),
            pytest.param(-1.0, 60.0, 2.0, id="negative first delay"),
            pytest.param(5.0, 0.0, 2.0, id="no cap"),
            pytest.param(5.0, 60.0, 0.5, id="shrinking"),
            pytest.param(float("nan"), 60.0, 2.0, id="not a number"),
        ],
    )
    def test_busy_loop(self, first: float, cap: float, factor: float) -> None:
        """A schedule that would end in a busy loop cannot be made."""
        with pytest.raises(Misuse):
            Schedule(first=first, cap=cap, factor=factor)

    @given(
        first=st.floats(0.001, 1e6),
        cap=st.floats(0.001, 1e6),
        factor=st.floats(1.0, 10.0),
        attempt=st.integers(0, 10**6),
    )
    def test_order(self, first: float, cap: float, factor: float, attempt: int) -> None:
        """Delays are above zero, never shrink and never exceed the cap."""
        schedule = Schedule(first=first, cap=cap, factor=factor)

        now, later = schedule.delay(attempt), schedule.delay(attempt + 1)

        assert 0 < now <= later <= cap


class TestRetryBudget:
    def test_unlimited(self) -> None:
        """Without a maximum it never gives up, and waits follow the schedule."""
        budget = a_budget()

        delays = [budget.after_run(0.1) for _ in range(7)]

        assert [5.0, 10.0, 20.0, 40.0, 60.0, 60.0, 60.0] == delays

    @pytest.mark.parametrize(
        ("max_retries", "expected"),
        [
            pytest.param(1, [None], id="the first short run is already fatal"),
            pytest.param(3, [5.0, 10.0, None], id="the third short run is fatal"),
        ],
    )
    def test_exhausted(self, max_retries: int, expected: list[float | None]) -> None:
        """As many short runs in a row as the maximum end it, and the number is there to be told."""
        budget = a_budget(max_retries)

        delays = [budget.after_run(1.0) for _ in range(max_retries)]

        assert (expected, max_retries) == (delays, budget.attempts)

    def test_stable_runs(self) -> None:
        """Runs of the stable length are never charged and always waited after by the first delay."""
        budget = a_budget(max_retries=1)

        delays = [budget.after_run(300.0) for _ in range(5)]

        assert ([5.0] * 5, 0) == (delays, budget.attempts)

    def test_forgiveness(self) -> None:
        """What is forgiven counts as never having been, and waits begin anew."""
        budget = a_budget(max_retries=2)
        first = budget.after_run(1.0)
        budget.forgive()

        assert (5.0, 5.0, None) == (first, budget.after_run(1.0), budget.after_run(1.0))

    def test_stable_run_between_short_ones(self) -> None:
        """A stable run resets both the count and the delay; its own wait is the first step of the new row."""
        budget = a_budget(max_retries=3)

        delays = [budget.after_run(uptime) for uptime in (1.0, 1.0, 299.9, 300.0, 1.0, 1.0, 1.0)]

        assert [5.0, 10.0, None, 5.0, 10.0, 20.0, None] == delays
