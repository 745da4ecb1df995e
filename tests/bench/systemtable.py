"""
What was measured of the whole system as the tables of the README: starts of pods, rollouts, memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import median

import attrs
import machine

INSTALL_BAR_SECONDS = 60.0
_PICKS = (50, 99)
_WHOLE = "created to the first line"


@attrs.frozen
class Effort:
    """
    How much is measured.

    Args:
        blocks: How often the product is installed and taken away again.
        singly: Pods started one at a time, in each block of either side.
        batches: Batches of pods started at once, the same.
        batch: Pods of a batch.
        loaded: Pods that run while memory is read.
    """

    blocks: int
    singly: int
    batches: int
    batch: int
    loaded: int


@attrs.frozen
class Start:
    """
    One pod's moments, in seconds after the call that created it.
    """

    placed: float
    first_line: float
    shown: float


@attrs.frozen
class Block:
    """
    The pods of one side between two changes of sides.
    """

    singly: tuple[Start, ...]
    at_once: tuple[Start, ...]


@attrs.frozen
class Rollout:
    """
    How long the product took to come, to change, and to go; seconds.

    Args:
        install: Of helm itself.
        ready: From the call of helm until everything is Ready, daemons and conditions on every worker.
        change: From a change of both templates until both daemons run so on every worker, and are ready.
        uninstall: From the call of helm until daemons, controller and conditions are gone.
    """

    install: float
    ready: float
    change: float
    uninstall: float


@attrs.frozen
class Usage:
    """
    The memory of a component's container.
    """

    name: str
    peak_rss_mib: float
    working_set_mib: float
    limit_mib: float

    @property
    def share_percent(self) -> float:
        """
        How much of the limit its processes have had.
        """
        return self.peak_rss_mib / self.limit_mib * 100

    def larger(self, other: Usage) -> Usage:
        """
        Give the larger figures of two readings.
        """
        return attrs.evolve(
            self,
            peak_rss_mib=max(self.peak_rss_mib, other.peak_rss_mib),
            working_set_mib=max(self.working_set_mib, other.working_set_mib),
        )


@attrs.frozen
class Figures:
    """
    All that was measured; sides took turns, block by block.
    """

    without: tuple[Block, ...]
    product: tuple[Block, ...]
    rollouts: tuple[Rollout, ...]
    memory: tuple[Usage, ...]


def render(figures: Figures, effort: Effort, *, load: float) -> str:
    """
    Write the tables, and below them how and where it was measured.
    """
    return "\n\n".join(
        [
            _table(("", "without", "with the product", "difference"), _starts(figures, effort)),
            _table(("seconds: median / worst", "", "bar"), _rollouts(figures.rollouts)),
            _table(("memory", "peak RSS, MiB", "working set, MiB", "limit, MiB", "RSS of the limit"), _memory(figures)),
            _text(figures, effort, load=load),
        ]
    )


def holds(figures: Figures) -> bool:
    """
    Say whether every bar is met.
    """
    return all(each.ready < INSTALL_BAR_SECONDS for each in figures.rollouts) and all(
        each.peak_rss_mib <= each.limit_mib for each in figures.memory
    )


def percentile(values: Sequence[float], percent: int) -> float:
    """
    Give the least value that so many percent do not exceed.
    """
    return sorted(values)[max(1, math.ceil(len(values) * percent / 100)) - 1]


def _starts(figures: Figures, effort: Effort) -> Iterator[tuple[str, ...]]:
    for how, pods in ((f"{effort.batch} at once", _at_once), ("one at a time", _singly)):
        for what, moment in _MOMENTS:
            sides = [[moment(each) for block in side for each in pods(block)] for side in _sides(figures)]
            yield (f"{what}, {how}: p50 / p99, s", *map(_both, sides), _difference(*sides))
        medians = [[median(each.first_line for each in pods(block)) for block in side] for side in _sides(figures)]
        yield (f"the medians of each block, {_WHOLE}, {how}, s", *map(_range, medians), "")


def _sides(figures: Figures) -> tuple[tuple[Block, ...], tuple[Block, ...]]:
    return figures.without, figures.product


def _singly(block: Block) -> tuple[Start, ...]:
    return block.singly


def _at_once(block: Block) -> tuple[Start, ...]:
    return block.at_once


_MOMENTS: Sequence[tuple[str, Callable[[Start], float]]] = (
    ("created to placed", lambda each: each.placed),
    ("placed to the first line", lambda each: each.first_line - each.placed),
    (_WHOLE, lambda each: each.first_line),
    ("created to shown as running", lambda each: each.shown),
)


def _both(values: Sequence[float]) -> str:
    return " / ".join(f"{percentile(values, percent):.2f}" for percent in _PICKS)


def _difference(without: Sequence[float], product: Sequence[float]) -> str:
    return " / ".join(f"{percentile(product, percent) - percentile(without, percent):+.2f}" for percent in _PICKS)


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def _rollouts(rollouts: Sequence[Rollout]) -> Iterator[tuple[str, ...]]:
    bar = f"< {INSTALL_BAR_SECONDS:g} s: {_verdict(all(each.ready < INSTALL_BAR_SECONDS for each in rollouts))}"
    yield "`helm install` itself, hooks included", _worst([each.install for each in rollouts]), ""
    yield "`helm install` to Ready, both daemons on both workers", _worst([each.ready for each in rollouts]), bar
    yield "a change of both daemons' templates to all updated", _worst([each.change for each in rollouts]), ""
    yield "`helm uninstall` to nothing left of pods and conditions", _worst([each.uninstall for each in rollouts]), ""


def _worst(values: Sequence[float]) -> str:
    return f"{median(values):.1f} / {max(values):.1f}"


def _memory(figures: Figures) -> Iterator[tuple[str, ...]]:
    for each in figures.memory:
        share = f"{each.share_percent:.0f} %, ≤ 100 %: {_verdict(each.peak_rss_mib <= each.limit_mib)}"
        yield each.name, f"{each.peak_rss_mib:.0f}", f"{each.working_set_mib:.0f}", f"{each.limit_mib:.0f}", share


def _verdict(is_met: bool) -> str:  # noqa: FBT001 - the one thing it says
    return "met" if is_met else "**missed**"


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))


def _text(figures: Figures, effort: Effort, *, load: float) -> str:
    at_once, singly = (sum(len(pods(each)) for each in figures.product) for pods in (_at_once, _singly))
    return (
        f"{machine.here()}; load at the start {load:.1f}. A control plane and three workers share the machine; GPUs, "
        "driver, NVIDIA's runtime and its hook are simulated, the scheduler is a stand-in. "
        f"{at_once} annotated pods on each side, {effort.batch} at a time, and {singly} alone; the sides took turns, "
        f"{effort.blocks} each. "
        "Without the product the same stand-in places the same pods: the nodes' condition was set by hand, and the "
        "pods' own environment names GPU and limit, so that runtime and hook do the same work; there is no pipe "
        "directory to mount. With it, what the daemons do on the same cores meanwhile is in the times. The first line "
        "of a container is dated by the runtime in the container's log; *shown* is when a watch of the API has the "
        "container running, and the kubelet looks for that once a second. RSS is the sum of the peaks of a container's "
        "processes, for mpsd with the control daemon; the working set is what its memory cgroup uses, less inactive "
        "files; of two workers the larger, and the most of all blocks, with "
        f"{effort.loaded} such pods running, each a process on its GPU. Images were loaded before; every installation "
        "is the first of its cluster, without namespace or definition. `scripts/bench system` measures again."
    )
