from __future__ import annotations

import attrs
import pytest
from playedruntime import Kind, Percentiles
from results import Course, Memory, Node, PodBurst, Results, RoundTrips, Sides, Starts
from table import holds, render

BARE = Percentiles(2.0, 3.0, 4.0)
GO = Percentiles(302.0, 403.0, 504.0)
OURS = Percentiles(272.0, 403.0, 604.0)
MEMORY = Memory(rss_mib=60.0, pss_mib=50.0)
TRIPS = tuple(RoundTrips(kind, False, (BARE,), (GO,), (OURS,)) for kind in Kind)
COURSE = Course(TRIPS, Sides((50.0,), (40.0,)), go_memory=Memory(15.0, 15.0), our_memory=MEMORY)
STARTS = Starts(500, Sides((10.0,), (400.0,)), Sides((30.0,), (40.0,)), Memory(20.0, 20.0), MEMORY)
NODE = Node(Sides((0.0,), (0.01,)), 10, (BARE,), (GO,), (OURS,), PodBurst(pods=100, at_once=16, late=1))
RESULTS = Results(COURSE, COURSE, STARTS, STARTS, NODE)


def with_trips(ours: Percentiles) -> Results:
    """
    Give results with other round trips of fractiond's.
    """
    trips = attrs.evolve(TRIPS[0], ours=(ours,))
    return attrs.evolve(RESULTS, plain=attrs.evolve(COURSE, round_trips=(trips, TRIPS[1])))


def with_late(late: int) -> Results:
    """
    Give results with so many late answers in the burst.
    """
    return attrs.evolve(RESULTS, node=attrs.evolve(NODE, burst=attrs.evolve(NODE.burst, late=late)))


class TestRender:
    def test_ratio_and_bar(self) -> None:
        """
        Both sides stand there without what the bare runtime takes, their ratio, and what came of the bar.
        """
        expected = (
            "| added per container, annotated, created: p50 / p90 / p99, µs | 300 / 400 / 500 | 270 / 400 / 600 "
            "| 0.90 / 1.00 / 1.20 | p50 ≤ 1.0: met |"
        )

        assert expected == render(RESULTS).splitlines()[2]

    def test_missed(self) -> None:
        """
        A bar that is not met stands out.
        """
        last = render(with_late(2)).splitlines()[-1]

        assert last.endswith("| 2 |  | ≤ 1 %: **missed** |")


class TestHolds:
    @pytest.mark.parametrize(
        ("results", "expected"),
        [
            pytest.param(RESULTS, True, id="all met"),
            pytest.param(with_trips(attrs.evolve(OURS, p50=310.0)), False, id="slower than the Go plugin"),
            pytest.param(
                attrs.evolve(RESULTS, empty_starts=attrs.evolve(STARTS, start_ms=Sides((10.0,), (601.0,)))),
                False,
                id="late start",
            ),
            pytest.param(
                attrs.evolve(RESULTS, full_starts=attrs.evolve(STARTS, synchronize_ms=Sides((30.0,), (501.0,)))),
                False,
                id="slow Synchronize",
            ),
            pytest.param(
                attrs.evolve(RESULTS, full_starts=attrs.evolve(STARTS, our_memory=Memory(65.0, 50.0))),
                False,
                id="memory",
            ),
            pytest.param(
                attrs.evolve(RESULTS, node=attrs.evolve(NODE, idle_percent=Sides((0.0,), (0.6,)))), False, id="not idle"
            ),
            pytest.param(with_late(2), False, id="late in a burst"),
        ],
    )
    def test_bars(self, results: Results, *, expected: bool) -> None:
        """
        One bar that is missed is enough.
        """
        assert expected is holds(results)
