from __future__ import annotations

import pytest
from metricsd import windows
from metricsd.snapshot import PodOnGpu
from metricsd.windows import History

SECOND = 1_000_000_000
KEY = PodOnGpu("team-ml", "trainer", "3f2a-uid", "GPU-0", 0)
OTHER = PodOnGpu("team-ml", "other", "77-uid", "GPU-0", 0)


class TestLength:
    @pytest.mark.parametrize(
        ("window_ns", "expected"),
        [
            pytest.param(0, 1, id="off"),
            pytest.param(5 * SECOND, 1, id="one cycle"),
            pytest.param(5 * SECOND + 1, 1, id="little more than one"),
            pytest.param(10 * SECOND, 2, id="two"),
            pytest.param(15 * SECOND - 1, 2, id="not quite three"),
            pytest.param(60 * SECOND, 12, id="a minute"),
        ],
    )
    def test_whole_cycles(self, window_ns: int, expected: int) -> None:
        """A window has as many values as whole cycles fit into it, and one when it is not longer than a cycle."""
        assert expected == windows.length(window_ns=window_ns, interval_ns=5 * SECOND)


class TestMeans:
    @pytest.mark.parametrize(
        ("window", "values", "expected"),
        [
            pytest.param(4, [80.0], [80.0], id="first value"),
            pytest.param(4, [80.0, 20.0], [80.0, 50.0], id="not full yet"),
            pytest.param(4, [80.0, 20.0, 60.0, 40.0, 100.0], [80.0, 50.0, 53.33, 50.0, 55.0], id="oldest leaves"),
            pytest.param(2, [80.0, 20.0, 60.0], [80.0, 50.0, 40.0], id="window of two"),
            pytest.param(1, [80.0, 20.0], [80.0, 20.0], id="no averaging"),
        ],
    )
    def test_of_the_last_values(self, window: int, values: list[float], expected: list[float]) -> None:
        """Each cycle gives the mean of the last values, as many as the window has."""
        history: History = {}
        means = []

        for value in values:
            history = windows.advance(history, {KEY: value}, window)
            means.append(round(windows.mean(history[KEY]), 2))

        assert expected == means


class TestGoneSeries:
    def test_is_forgotten_at_once(self) -> None:
        """A series that one cycle does not have begins anew, and the others go on."""
        full = windows.advance({}, {KEY: 80.0, OTHER: 10.0}, 4)

        without = windows.advance(full, {OTHER: 20.0}, 4)
        again = windows.advance(without, {KEY: 60.0, OTHER: 30.0}, 4)

        assert {OTHER: (10.0, 20.0)} == without
        assert {KEY: (60.0,), OTHER: (10.0, 20.0, 30.0)} == again
