from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from fractioning_core.kube import timestamps

MOMENT = datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=UTC)


class TestTexts:
    """
    Moments as Kubernetes writes them.
    """

    def test_seconds(self) -> None:
        """
        A `Time` has whole seconds, in UTC.
        """
        assert "2026-03-04T05:06:07Z" == timestamps.seconds(MOMENT.astimezone(timezone(timedelta(hours=2))))

    def test_microseconds(self) -> None:
        """
        A `MicroTime` has six digits after the point, whatever they are.
        """
        assert "2026-03-04T05:06:07.000089Z" == timestamps.microseconds(MOMENT)
