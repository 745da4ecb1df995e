"""
What was measured, and what is derived from it.

Every sequence is in the order of the rounds, so that the two of a pair stand in the same place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import median

import attrs
from playedruntime import Kind, Percentiles


@attrs.frozen
class Sides:
    """
    One figure of both contestants, round by round.
    """

    go: tuple[float, ...]
    ours: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """
        The median of the ratios of each pair: a disturbance hits both of a pair, or is one among many.
        """
        return median(ours / go for go, ours in zip(self.go, self.ours, strict=True))


@attrs.frozen
class RoundTrips:
    """
    Calls of CreateContainer, one after the other, at the runtime's NRI layer; microseconds.
    """

    kind: Kind
    validates: bool
    bare: tuple[Percentiles, ...]
    go: tuple[Percentiles, ...]
    ours: tuple[Percentiles, ...]

    def sides(self, pick: Callable[[Percentiles], float]) -> Sides:
        """
        Give one percentile of both, less what the runtime's layer costs without a plugin.
        """
        bare = typical(self.bare, pick)
        return Sides(
            tuple(pick(each) - bare for each in self.go),
            tuple(pick(each) - bare for each in self.ours),
        )


def percentiles(samples: Sequence[float]) -> Percentiles:
    """
    Give for each percentile the smallest sample that at least that many per cent do not exceed.
    """
    ordered = sorted(samples)
    p50, p90, p99 = (ordered[max(0, math.ceil(len(ordered) * share) - 1)] for share in (0.5, 0.9, 0.99))
    return Percentiles(p50, p90, p99)


def typical(rounds: Sequence[Percentiles], pick: Callable[[Percentiles], float]) -> float:
    """
    Give the median over rounds of one percentile.
    """
    return median(pick(each) for each in rounds)


@attrs.frozen
class Memory:
    """
    What a process holds, in MiB.
    """

    rss_mib: float
    pss_mib: float


@attrs.frozen
class Course:
    """
    Both contestants under one runtime: round trips of each kind, bursts, and the memory they held afterwards.
    """

    round_trips: tuple[RoundTrips, ...]
    bursts_ms: Sides
    go_memory: Memory
    our_memory: Memory


@attrs.frozen
class Starts:
    """
    Starts of a process until the runtime has its answer to Synchronize, each time on a node of that many containers.
    """

    containers: int
    start_ms: Sides
    synchronize_ms: Sides
    go_memory: Memory
    our_memory: Memory


@attrs.frozen
class PodBurst:
    """
    Pods started side by side on a real containerd, so many at once, and how many creations fractiond answered late.
    """

    pods: int
    at_once: int
    late: int


@attrs.frozen
class Node:
    """
    A real containerd: idle processor time in per cent of a core, CreateContainer end to end in milliseconds, a burst.
    """

    idle_percent: Sides
    created: int
    bare_ms: tuple[Percentiles, ...]
    go_ms: tuple[Percentiles, ...]
    our_ms: tuple[Percentiles, ...]
    burst: PodBurst


@attrs.frozen
class Results:
    """
    All of one run.
    """

    plain: Course
    validating: Course
    empty_starts: Starts
    full_starts: Starts
    node: Node
