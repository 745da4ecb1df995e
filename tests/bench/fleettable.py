"""
What was measured of the controller as the table of the README: a column for each size of cluster.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import attrs
import machine
from hollowfleet import HEARTBEAT_SECONDS

CHANGE_BAR_SECONDS = 2.0
RSS_BAR_MIB = 96.0
IDLE_BAR_PERCENT = 2.0


@attrs.frozen
class Effort:
    """
    What is measured, and for how long.
    """

    sizes: Sequence[int]
    steady_seconds: float
    changes: int


@attrs.frozen
class Figures:
    """
    What was measured on one cluster.
    """

    nodes: int
    first_ready_seconds: float
    """From the start of the process to `Ready` True and the condition on every node."""
    restart_seconds: float
    """The same where all of it is there already: to readiness."""
    steady_writes: int
    idle_percent: float
    beating_percent: float
    """With the heartbeats of that many kubelets."""
    change_seconds: tuple[float, ...]
    requests_per_change: float
    peak_rss_mib: float


def render(results: Sequence[Figures], effort: Effort, *, load: float) -> str:
    """
    Write the table, and below it where it was measured.
    """
    rows = [("", *(f"{each.nodes:,} nodes" for each in results), "bar"), ("---",) * (len(results) + 2)]
    rows += [_row(what, bar, results, figure) for what, bar, figure in _ROWS]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return (
        f"{table}\n\n{machine.here()}; load at the start {load:.1f}. A real kube-apiserver 1.34 and etcd on the same "
        "machine; nodes and pods are posted, with nobody behind them, and the counts of the DaemonSets with them. "
        f"Steady: {effort.steady_seconds:g} s without a change, and as long with every node's status reported again "
        f"each {HEARTBEAT_SECONDS:g} s. {effort.changes} pods failed and recovered, one at a time. "
        "`scripts/bench controller` measures again."
    )


def holds(figures: Figures) -> bool:
    """
    Say whether every bar is met.
    """
    return (
        figures.steady_writes == 0
        and max(figures.change_seconds) < CHANGE_BAR_SECONDS
        and figures.peak_rss_mib <= RSS_BAR_MIB
        and figures.idle_percent <= IDLE_BAR_PERCENT
    )


_ROWS: Sequence[tuple[str, str, Callable[[Figures], str]]] = (
    ("first start to Ready and a condition on every node, s", "", lambda each: f"{each.first_ready_seconds:.1f}"),
    ("start to readiness where all is there, s", "", lambda each: f"{each.restart_seconds:.1f}"),
    ("writes while nothing changes", "0", lambda each: str(each.steady_writes)),
    (
        "a pod's change on its node's condition: median / worst, s",
        f"< {CHANGE_BAR_SECONDS:g} s",
        lambda each: f"{statistics.median(each.change_seconds):.2f} / {max(each.change_seconds):.2f}",
    ),
    ("requests for each change", "", lambda each: f"{each.requests_per_change:.1f}"),
    ("memory at its peak: RSS, MiB", f"≤ {RSS_BAR_MIB:g} MiB", lambda each: f"{each.peak_rss_mib:.0f}"),
    ("idle, % of a core", f"≤ {IDLE_BAR_PERCENT:g} %", lambda each: f"{each.idle_percent:.2f}"),
    ("with the kubelets' heartbeats, % of a core", "", lambda each: f"{each.beating_percent:.2f}"),
)


def _row(what: str, bar: str, results: Sequence[Figures], figure: Callable[[Figures], str]) -> tuple[str, ...]:
    return what, *(figure(each) for each in results), bar
