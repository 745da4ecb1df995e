"""
SM use averaged over the last few cycles.

Short samples of a process that works in bursts jump between 0 and 100. The memory of a series that is gone is gone with
it: what comes back later starts anew.
"""

from __future__ import annotations

from collections.abc import Mapping

from metricsd.snapshot import PodOnGpu

History = Mapping[PodOnGpu, tuple[float, ...]]
"""The last values of each series, oldest first."""


def length(*, window_ns: int, interval_ns: int) -> int:
    """
    Give how many cycles a window has; 1, which averages nothing, for one that is not longer than a cycle.
    """
    return max(1, window_ns // interval_ns)


def advance(history: History, values: Mapping[PodOnGpu, float], window: int) -> History:
    """
    Add this cycle's values, and let go of what is older than the window or gone.
    """
    return {key: (*history.get(key, ()), value)[-window:] for key, value in values.items()}


def mean(values: tuple[float, ...]) -> float:
    """
    Average what a series has.
    """
    return values[0] if len(values) == 1 else sum(values) / len(values)
