"""
Results as the table of the README: one row for each thing measured, and the bar it was held to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from statistics import median

import attrs
from playedruntime import Kind, Percentiles
from results import Memory, Node, Results, RoundTrips, Sides, Starts, typical

MAX_RATIO = 1.0
MAX_START_MS = 600.0
MAX_SYNCHRONIZE_MS = 500.0
MAX_RSS_MIB = 64.0
MAX_IDLE_PERCENT = 0.5
# One in a hundred.
MAX_LATE_SHARE = 0.01

_PICKS: tuple[Callable[[Percentiles], float], ...] = (
    lambda each: each.p50,
    lambda each: each.p90,
    lambda each: each.p99,
)
_HEAD = ("", "Go plugin", "fractiond", "ratio", "bar")


@attrs.frozen
class Bar:
    """
    What a figure must not exceed, and the figure.
    """

    text: str
    limit: float
    figure: float

    @property
    def holds(self) -> bool:
        """
        Whether the bar is met.
        """
        return self.figure <= self.limit

    def __str__(self) -> str:
        return f"{self.text}: {'met' if self.holds else '**missed**'}"


@attrs.frozen
class _Row:
    what: str
    go: str
    ours: str
    ratio: str = ""
    bar: Bar | None = None

    def cells(self) -> tuple[str, ...]:
        return self.what, self.go, self.ours, self.ratio, "" if self.bar is None else str(self.bar)


def render(results: Results) -> str:
    """
    Write the table.
    """
    rows = [_HEAD, ("---",) * len(_HEAD), *(row.cells() for row in _rows(results))]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def holds(results: Results) -> bool:
    """
    Say whether every bar is met.
    """
    return all(row.bar is None or row.bar.holds for row in _rows(results))


def _rows(results: Results) -> Iterator[_Row]:
    for course in (results.plain, results.validating):
        yield from map(_round_trips, course.round_trips)
    yield _compared("100 annotated creations at once, ms", results.validating.bursts_ms)
    full, empty = results.full_starts, results.empty_starts
    yield _compared("start to synchronised, ms", empty.start_ms, "≤ 600 ms", MAX_START_MS)
    what = f"Synchronize of {full.containers} containers, ms"
    yield _compared(what, full.synchronize_ms, "≤ 500 ms", MAX_SYNCHRONIZE_MS)
    yield from _memory(results, full)
    yield from _node(results.node)


def _round_trips(trips: RoundTrips) -> _Row:
    what = "annotated" if trips.kind is Kind.ANNOTATED else "not annotated"
    means = "created and validated" if trips.validates else "created"
    sides = [trips.sides(pick) for pick in _PICKS]
    return _Row(
        f"added per container, {what}, {means}: p50 / p90 / p99, µs",
        _joined("{:.0f}", (median(side.go) for side in sides)),
        _joined("{:.0f}", (median(side.ours) for side in sides)),
        _joined("{:.2f}", (side.ratio for side in sides)),
        Bar("p50 ≤ 1.0", MAX_RATIO, round(sides[0].ratio, 2)),
    )


def _compared(what: str, sides: Sides, text: str = "", limit: float = math.inf) -> _Row:
    go, ours = median(sides.go), median(sides.ours)
    bar = Bar(text, limit, ours) if text else None
    return _Row(what, f"{go:.0f}", f"{ours:.0f}", f"{sides.ratio:.2f}", bar)


def _memory(results: Results, full: Starts) -> Iterator[_Row]:
    course = results.validating
    for what, go, ours in (
        ("after the run", course.go_memory, course.our_memory),
        (f"with {full.containers} containers", full.go_memory, full.our_memory),
    ):
        bar = Bar("RSS ≤ 64 MiB", MAX_RSS_MIB, ours.rss_mib)
        yield _Row(f"memory {what}: RSS / PSS, MiB", _both(go), _both(ours), f"{ours.rss_mib / go.rss_mib:.1f}", bar)


def _both(memory: Memory) -> str:
    return f"{memory.rss_mib:.0f} / {memory.pss_mib:.0f}"


def _node(node: Node) -> Iterator[_Row]:
    (go,), (ours,) = node.idle_percent.go, node.idle_percent.ours
    bar = Bar("≤ 0.5 %", MAX_IDLE_PERCENT, ours)
    yield _Row("idle, % of a core", f"{go:.2f}", f"{ours:.2f}", bar=bar)
    bare, with_go, with_ours = (typical(rounds, _PICKS[0]) for rounds in (node.bare_ms, node.go_ms, node.our_ms))
    what = f"CreateContainer over CRI, containerd 2.3: p50, ms (no plugin: {bare:.1f})"
    yield _Row(what, f"{with_go:.1f}", f"{with_ours:.1f}", f"{with_ours / with_go:.2f}")
    burst = node.burst
    what = f"{burst.pods} pods over CRI, {burst.at_once} at once: creations answered after more than 50 ms"
    yield _Row(what, "", str(burst.late), bar=Bar("≤ 1 %", MAX_LATE_SHARE, burst.late / burst.pods))


def _joined(form: str, figures: Iterator[float]) -> str:
    return " / ".join(form.format(figure) for figure in figures)
