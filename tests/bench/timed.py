"""
Measurements at the runtime's own NRI layer, where a tenth of a millisecond still shows.

End to end a creation takes some 15 ms, give or take 8, in which the cost of a plugin drowns.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import attrs
from contestants import FRACTIOND, SCRATCH, Contestant, Place, go_plugin
from lab.process import Service
from playedruntime import Kind, PlayedRuntime
from results import Course, Memory, RoundTrips, Sides, Starts

T = TypeVar("T")
# Caches fill and the processor wakes up; what is timed is a plugin that has been at work.
WARM_UP_CALLS = 50
BURST_CALLS = 100


@attrs.frozen
class Effort:
    """
    How much is measured.
    """

    rounds: int
    calls: int
    starts: int
    idle_seconds: float
    creations: int


@attrs.frozen
class Lane:
    """
    A plugin that is connected to a played runtime of its own.
    """

    runtime: PlayedRuntime
    service: Service

    def memory(self) -> Memory:
        """
        Read what the plugin holds now.
        """
        usage = self.service.usage()
        return Memory(usage.rss_kib / 1024, usage.pss_kib / 1024)


def say(text: str) -> None:
    """
    Tell how far we are.
    """
    print(f"bench: {text}", file=sys.stderr, flush=True)


async def run_course(version: str, effort: Effort, *, validates: bool, cri_socket: Path) -> Course:
    """
    Time both contestants and the bare runtime in turn.

    Args:
        version: The containerd to be played.
        effort: How much to measure.
        validates: Whether that version asks plugins to validate: then an annotated creation is two round trips.
        cri_socket: A runtime's CRI socket, which fractiond compares its list with.
    """
    async with (
        _bare(version) as bare,
        _lane(go_plugin(validates=validates), version, cri_socket) as go,
        _lane(FRACTIOND, version, cri_socket) as ours,
    ):
        trips = []
        for kind in Kind:
            say(f"containerd {version}, {kind.value}: {effort.rounds} rounds of {effort.calls} calls for each")
            timers = (bare, go.runtime, ours.runtime)
            for timer in timers:
                await timer.round(kind, WARM_UP_CALLS)
            rounds = await _in_turn(effort.rounds, *(partial(timer.round, kind, effort.calls) for timer in timers))
            trips.append(RoundTrips(kind, validates, *rounds))
        bursts = await _in_turn(
            effort.rounds,
            lambda: go.runtime.burst(Kind.ANNOTATED, BURST_CALLS),
            lambda: ours.runtime.burst(Kind.ANNOTATED, BURST_CALLS),
        )
        totals = Sides(*(tuple(burst.total_ms for burst in side) for side in bursts))
        return Course(tuple(trips), totals, go.memory(), ours.memory())


async def run_starts(version: str, effort: Effort, *, containers: int, cri_socket: Path) -> Starts:
    """
    Start both contestants in turn, each time on a node of that many running containers.
    """
    say(f"starts with {containers} running containers: {effort.starts} of each")
    go, ours = await _in_turn(
        effort.starts,
        lambda: _start_once(go_plugin(validates=True), version, containers, cri_socket),
        lambda: _start_once(FRACTIOND, version, containers, cri_socket),
    )
    return Starts(
        containers,
        Sides(tuple(each.start_ms for each in go), tuple(each.start_ms for each in ours)),
        Sides(tuple(each.synchronize_ms for each in go), tuple(each.synchronize_ms for each in ours)),
        go[-1].memory,
        ours[-1].memory,
    )


@attrs.frozen
class _Start:
    start_ms: float
    synchronize_ms: float
    memory: Memory


async def _start_once(contestant: Contestant, version: str, containers: int, cri_socket: Path) -> _Start:
    async with _played(version) as runtime:
        await runtime.listen(containers=containers)
        started = time.perf_counter()
        async with contestant.service(_place(runtime, cri_socket)) as service:
            synchronize_ms = await runtime.synchronized()
            start_ms = (time.perf_counter() - started) * 1000
            return _Start(start_ms, synchronize_ms, Lane(runtime, service).memory())


async def _in_turn(rounds: int, *measures: Callable[[], Awaitable[T]]) -> tuple[tuple[T, ...], ...]:
    """
    Measure each once a round, in a new order each round; give what each measured, in the order of the rounds.
    """
    found: tuple[list[T], ...] = tuple([] for _ in measures)
    for number in range(rounds):
        for position in range(len(measures)):
            # Rotated, and reversed in every second round, so that nobody always goes first or after the same one.
            which = (position + number) % len(measures)
            which = which if number % 2 else len(measures) - 1 - which
            found[which].append(await measures[which]())
    return tuple(tuple(each) for each in found)


@asynccontextmanager
async def _played(version: str) -> AsyncIterator[PlayedRuntime]:
    with TemporaryDirectory(prefix="bench-", dir=SCRATCH) as directory:
        async with PlayedRuntime(Path(directory) / "nri.sock", version=version) as runtime:
            yield runtime


@asynccontextmanager
async def _bare(version: str) -> AsyncIterator[PlayedRuntime]:
    async with _played(version) as runtime:
        await runtime.open()
        yield runtime


@asynccontextmanager
async def _lane(contestant: Contestant, version: str, cri_socket: Path) -> AsyncIterator[Lane]:
    async with _played(version) as runtime:
        await runtime.listen(containers=0)
        async with contestant.service(_place(runtime, cri_socket)) as service:
            await runtime.synchronized()
            yield Lane(runtime, service)


def _place(runtime: PlayedRuntime, cri_socket: Path) -> Place:
    return Place(runtime.socket, cri_socket, runtime.socket.parent)
