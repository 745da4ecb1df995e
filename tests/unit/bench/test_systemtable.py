from __future__ import annotations

import attrs
import pytest
from systemtable import Block, Effort, Figures, Rollout, Start, Usage, holds, percentile, render

EFFORT = Effort(blocks=2, singly=1, batches=1, batch=2, loaded=4)
ROLLOUT = Rollout(install=5.0, ready=30.0, change=25.0, uninstall=12.0)
USAGE = Usage("mpsd", peak_rss_mib=64.0, working_set_mib=48.0, limit_mib=256.0)


def a_block(*first_lines: float) -> Block:
    pods = tuple(Start(placed=0.1, first_line=each, shown=each + 1.0) for each in first_lines)
    return Block(singly=pods[:1], at_once=pods[1:])


def the_figures(*, rollouts: tuple[Rollout, ...] = (ROLLOUT,), memory: tuple[Usage, ...] = (USAGE,)) -> Figures:
    without = (a_block(0.5, 1.0, 2.0), a_block(0.5, 1.0, 3.0))
    product = (a_block(0.6, 1.2, 2.2), a_block(0.7, 1.2, 3.5))
    return Figures(without, product, rollouts, memory)


def row(figures: Figures, what: str) -> str:
    (found,) = (line for line in render(figures, EFFORT, load=0.0).splitlines() if line.startswith(f"| {what} |"))
    return found


class TestRender:
    def test_starts(self) -> None:
        """
        A row has the percentiles of both sides over all blocks, and how much more they are with the product.
        """
        what = "created to the first line, 2 at once: p50 / p99, s"

        assert f"| {what} | 1.00 / 3.00 | 1.20 / 3.50 | +0.20 / +0.50 |" == row(the_figures(), what)

    def test_node_alone(self) -> None:
        """
        What a worker takes is told without the time until the pod was placed.
        """
        what = "placed to the first line, one at a time: p50 / p99, s"

        assert f"| {what} | 0.40 / 0.40 | 0.50 / 0.60 | +0.10 / +0.20 |" == row(the_figures(), what)

    def test_blocks(self) -> None:
        """
        How far the blocks of a side lie apart is told, too: a difference below that means nothing.
        """
        what = "the medians of each block, created to the first line, 2 at once, s"

        assert f"| {what} | 1.50 to 2.00 | 1.70 to 2.35 |  |" == row(the_figures(), what)

    def test_rollouts(self) -> None:
        """
        Rollouts are told by their median and the worst of them, against the bar.
        """
        slow = attrs.evolve(ROLLOUT, ready=61.0)
        what = "`helm install` to Ready, both daemons on both workers"

        assert f"| {what} | 30.0 / 30.0 | < 60 s: met |" == row(the_figures(), what)
        assert f"| {what} | 45.5 / 61.0 | < 60 s: **missed** |" == row(the_figures(rollouts=(ROLLOUT, slow)), what)

    def test_memory(self) -> None:
        """
        Memory is told with its limit, and how much of that it is.
        """
        assert "| mpsd | 64 | 48 | 256 | 25 %, ≤ 100 %: met |" == row(the_figures(), "mpsd")


class TestHolds:
    def test_met(self) -> None:
        """
        Bars that are all met hold.
        """
        assert holds(the_figures())

    @pytest.mark.parametrize(
        "figures",
        [
            pytest.param(the_figures(rollouts=(ROLLOUT, attrs.evolve(ROLLOUT, ready=60.0))), id="a slow install"),
            pytest.param(the_figures(memory=(USAGE, attrs.evolve(USAGE, peak_rss_mib=256.5))), id="above the limit"),
        ],
    )
    def test_missed(self, figures: Figures) -> None:
        """
        One that is missed is enough for them not to hold.
        """
        assert not holds(figures)


class TestUsage:
    def test_larger(self) -> None:
        """
        Of two readings each figure is the larger one.
        """
        other = attrs.evolve(USAGE, peak_rss_mib=50.0, working_set_mib=60.0)

        assert attrs.evolve(USAGE, working_set_mib=60.0) == USAGE.larger(other)


class TestPercentile:
    @pytest.mark.parametrize(
        ("percent", "expected"),
        [pytest.param(50, 100.0, id="half"), pytest.param(99, 198.0, id="99 of 100"), pytest.param(0, 1.0, id="none")],
    )
    def test_nearest_rank(self, percent: int, expected: float) -> None:
        """
        It is a value that was measured, never one between two.
        """
        assert expected == percentile([float(value) for value in range(200, 0, -1)], percent)
