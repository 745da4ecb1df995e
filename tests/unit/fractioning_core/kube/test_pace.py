from __future__ import annotations

import pytest
from fractioning_core.kube.pace import STABLE_SECONDS, Pace


class TestPace:
    """
    The wait after a run.
    """

    @pytest.mark.parametrize(
        ("failures", "seconds"),
        [
            pytest.param(0, 0.1, id="none"),
            pytest.param(1, 0.2, id="one"),
            pytest.param(3, 0.8, id="three"),
            pytest.param(9, 30.0, id="the cap"),
            pytest.param(100_000, 30.0, id="more than a float has room for"),
        ],
    )
    def test_wait(self, failures: int, seconds: float) -> None:
        """
        It doubles with each failure until the cap.
        """
        assert seconds == pytest.approx(Pace(0.1, 30.0, failures).wait_seconds)

    @pytest.mark.parametrize(
        ("uptime_seconds", "has_worked", "failures"),
        [
            pytest.param(0.0, False, 5, id="short and nothing brought"),
            pytest.param(0.0, True, 0, id="short and worked"),
            pytest.param(STABLE_SECONDS, False, 0, id="long and nothing brought"),
        ],
    )
    def test_after_run(self, *, uptime_seconds: float, has_worked: bool, failures: int) -> None:
        """
        A run fails that was short and brought nothing; any other starts the waits anew.
        """
        after = Pace(0.1, 30.0, failures=4).after_run(uptime_seconds, has_worked=has_worked)

        assert Pace(0.1, 30.0, failures) == after
