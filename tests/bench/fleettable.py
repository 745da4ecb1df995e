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
    """Without a change."""
    beating_seconds: float
    """With the heartbeats of that many kubelets, on the largest cluster; on the others as long as without a change."""
    changes: int
    peer_changes: int

    def beating_seconds_of(self, size: int) -> float:
        """
        Give how long heartbeats go on on a cluster.
        """
        return self.beating_seconds if size == max(self.sizes) else self.steady_seconds


@attrs.frozen
class PeerFigures:
    """
    What was measured of the peer on one cluster.
    """

    first_told_seconds: float
    """From the start of the process to the condition on every node."""
    beating_percent: float
    change_seconds: tuple[float, ...]
    requests_per_change: float
    peak_rss_mib: float


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
    peer: PeerFigures | None = None


def render(results: Sequence[Figures], effort: Effort, *, load: float) -> str:
    """
    Write the table, and below it where it was measured.
    """
    rows = [("", *(f"{each.nodes:,} nodes" for each in results), "bar"), ("---",) * (len(results) + 2)]
    rows += [(what, *map(figure, results), bar) for what, bar, figure in _ROWS]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return (
        f"{table}\n\n{machine.here()}; load at the start {load:.1f}. A real kube-apiserver 1.34 and etcd on the same "
        "machine; nodes and pods are posted, with nobody behind them, and the counts of the DaemonSets with them. "
        f"Steady: {effort.steady_seconds:g} s without a change, then as long, and on the largest cluster "
        f"{effort.beating_seconds:g} s, with every node's status reported again each {HEARTBEAT_SECONDS:g} s. "
        f"{effort.changes} pods failed and recovered, one at a "
        f"time; {effort.peer_changes} with the peer: a Go program on controller-runtime that, as the operator this is "
        "a drop-in for, lists the daemons' pods and reads their nodes when a DaemonSet changes; it does nothing else. "
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


def _change(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds):.2f} / {max(seconds):.2f}"


def _of_peer(figure: Callable[[PeerFigures], str]) -> Callable[[Figures], str]:
    return lambda each: figure(each.peer) if each.peer else "not measured"


_ROWS: Sequence[tuple[str, str, Callable[[Figures], str]]] = (
    ("first start to Ready and a condition on every node, s", "", lambda each: f"{each.first_ready_seconds:.1f}"),
    (
        "the peer: first start to a condition on every node, s",
        "",
        _of_peer(lambda each: f"{each.first_told_seconds:.1f}"),
    ),
    ("start to readiness where all is there, s", "", lambda each: f"{each.restart_seconds:.1f}"),
    ("writes while nothing changes", "0", lambda each: str(each.steady_writes)),
    (
        "a pod's change on its node's condition: median / worst, s",
        f"< {CHANGE_BAR_SECONDS:g} s",
        lambda each: _change(each.change_seconds),
    ),
    ("the peer", "", _of_peer(lambda each: _change(each.change_seconds))),
    ("requests for each change", "", lambda each: f"{each.requests_per_change:.1f}"),
    ("the peer", "", _of_peer(lambda each: f"{each.requests_per_change:,.1f}")),
    ("memory at its peak: RSS, MiB", f"≤ {RSS_BAR_MIB:g} MiB", lambda each: f"{each.peak_rss_mib:.0f}"),
    ("the peer", "", _of_peer(lambda each: f"{each.peak_rss_mib:.0f}")),
    ("idle, % of a core", f"≤ {IDLE_BAR_PERCENT:g} %", lambda each: f"{each.idle_percent:.2f}"),
    ("with the kubelets' heartbeats, % of a core", "", lambda each: f"{each.beating_percent:.2f}"),
    ("the peer", "", _of_peer(lambda each: f"{each.beating_percent:.2f}")),
)
