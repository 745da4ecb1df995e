"""
Results as the table of the README: one row for each thing measured, and the bar it was held to.
"""

from __future__ import annotations

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

_PICKS: tuple[Callable[[Percentiles], float], ...] = (
    lambda each: each.p50,
    lambda each: each.p90,
    lambda each: each.p99,
)
_HEAD = ("", "Go plugin", "fractiond", "ratio", "bar")


@attrs.frozen
class Bar:
    """
    What a figure must not exceed.
    """

    text: str
    limit: float

    def judge(self, figure: float) -> str:
        """
        Give the bar's text and whether it was met.
        """
        return f"{self.text}: {'met' if figure <= self.limit else '**missed**'}"


def render(results: Results) -> str:
    """
    Write the table.
    """
    rows = [_HEAD, ("---",) * len(_HEAD), *_rows(results)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _rows(results: Results) -> Iterator[tuple[str, ...]]:
    for course in (results.plain, results.validating):
        yield from map(_round_trips, course.round_trips)
    bursts = results.validating.bursts_ms
    yield _compared("100 annotated creations at once, ms", bursts, "")
    full, empty = results.full_starts, results.empty_starts
    yield _compared(
        "start to synchronised, ms", empty.start_ms, Bar("≤ 600 ms", MAX_START_MS).judge(median(empty.start_ms.ours))
    )
    bar = Bar("< 500 ms", MAX_SYNCHRONIZE_MS).judge(median(full.synchronize_ms.ours))
    yield _compared(f"Synchronize of {full.containers} containers, ms", full.synchronize_ms, bar)
    yield from _memory(results, full)
    yield from _node(results.node)


def _round_trips(trips: RoundTrips) -> tuple[str, ...]:
    what = "annotated" if trips.kind is Kind.ANNOTATED else "not annotated"
    means = "created and validated" if trips.validates else "created"
    sides = [trips.sides(pick) for pick in _PICKS]
    return (
        f"added per container, {what}, {means}: p50 / p90 / p99, µs",
        _joined("{:.0f}", (median(side.go) for side in sides)),
        _joined("{:.0f}", (median(side.ours) for side in sides)),
        _joined("{:.2f}", (side.ratio for side in sides)),
        Bar("p50 ≤ 1.0", MAX_RATIO).judge(round(sides[0].ratio, 2)),
    )


def _compared(what: str, sides: Sides, bar: str) -> tuple[str, ...]:
    return what, f"{median(sides.go):.0f}", f"{median(sides.ours):.0f}", f"{sides.ratio:.2f}", bar


def _memory(results: Results, full: Starts) -> Iterator[tuple[str, ...]]:
    course = results.validating
    for what, go, ours in (
        ("after the run", course.go_memory, course.our_memory),
        (f"with {full.containers} containers", full.go_memory, full.our_memory),
    ):
        bar = Bar("RSS ≤ 64 MiB", MAX_RSS_MIB).judge(ours.rss_mib)
        yield f"memory {what}: RSS / PSS, MiB", _both(go), _both(ours), f"{ours.rss_mib / go.rss_mib:.1f}", bar


def _both(memory: Memory) -> str:
    return f"{memory.rss_mib:.0f} / {memory.pss_mib:.0f}"


def _node(node: Node) -> Iterator[tuple[str, ...]]:
    (go,), (ours,) = node.idle_percent.go, node.idle_percent.ours
    yield "idle, % of a core", f"{go:.2f}", f"{ours:.2f}", "", Bar("≤ 0.5 %", MAX_IDLE_PERCENT).judge(ours)
    bare, with_go, with_ours = (typical(rounds, _PICKS[0]) for rounds in (node.bare_ms, node.go_ms, node.our_ms))
    what = f"CreateContainer over CRI, containerd 2.3: p50, ms (no plugin: {bare:.1f})"
    yield what, f"{with_go:.1f}", f"{with_ours:.1f}", f"{with_ours / with_go:.2f}", ""


def _joined(form: str, figures: Iterator[float]) -> str:
    return " / ".join(form.format(figure) for figure in figures)
