from __future__ import annotations

import pytest
from nri_aio.backoff import Backoff


class TestBackoff:
    """How long to wait before the next connection."""

    def test_doubles_up_to_five_seconds(self) -> None:
        """A runtime that is away is asked every five seconds at last."""
        backoff = Backoff()

        waits = [backoff.advance(0, slowly=False) for _ in range(8)]

        assert [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5] == waits

    def test_doubles_up_to_thirty_seconds_when_rejected(self) -> None:
        """A runtime that refuses us is left alone longer."""
        backoff = Backoff()

        waits = [backoff.advance(0, slowly=True) for _ in range(10)]

        assert [12.8, 25.6, 30] == waits[-3:]

    def test_jitter_takes_off_up_to_a_quarter(self) -> None:
        """Jitter only shortens, so the caps hold."""
        assert pytest.approx(0.075) == Backoff().advance(1, slowly=False)

    def test_reset_begins_anew(self) -> None:
        """After an active connection the first wait is short again."""
        backoff = Backoff()
        for _ in range(5):
            backoff.advance(0, slowly=False)
        backoff.reset()

        assert 0.1 == backoff.advance(0, slowly=False)
