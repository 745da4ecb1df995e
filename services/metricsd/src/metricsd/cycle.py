"""
The loop: read the world, decide, put the figures on the page.

Each cycle reads NVML first, then records and processes, then the limits in force; what it decides from is one `World`.
A cycle that cannot read something changes nothing on the page but what `health` makes of it, and is tried again, sooner
than the next one would have come. Nothing here ends the service: no restart mends a driver or a directory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeVar

import attrs
import structlog
from fractioning_core.errors import Unavailable
from fractioning_core.nvml.errors import DriverMismatch, NvmlError, NvmlUnavailable
from fractioning_core.nvml.samples import CallTime, LimitsQuery, MemoryLimits, Sample
from fractioning_core.nvml.worker import Overdue
from fractioning_core.service.backoff import Schedule

from metricsd import engine
from metricsd.engine import Memory
from metricsd.health import Health, Outcome
from metricsd.metrics import Metrics
from metricsd.node import Sight
from metricsd.page import Page
from metricsd.snapshot import SilentGpu, Snapshot
from metricsd.world import ContainerOnGpu, World

T = TypeVar("T")

# Reading a thousand small files takes tens of milliseconds; a disk that is gone takes for ever.
DEADLINE_SECONDS = 10.0
FIRST_RETRY_SECONDS = 1.0
# After a cycle that took longer than the interval.
LEAST_PAUSE_SECONDS = 0.5


class Nvml(Protocol):
    """
    Who reads NVML, each time within a deadline; raises NvmlError.
    """

    async def sample(self) -> Sample:
        """
        Read all GPUs.
        """

    async def memory_limits(self, queries: Sequence[LimitsQuery]) -> tuple[MemoryLimits | NvmlUnavailable, ...]:
        """
        Read the limits of cgroups, in the order of the questions.
        """

    def take_calls(self) -> tuple[CallTime, ...]:
        """
        Give how long its calls took since this was asked last.
        """


class Place(Protocol):
    """
    Who reads the rest of the node; blocks, raises Unavailable.
    """

    def look(self, sample: Sample, *, sampled_at: float, met: Collection[ContainerOnGpu]) -> Sight:
        """
        Look at what belongs to a sample.
        """

    def mismatch(self) -> str:
        """
        Tell of which versions a driver's library and kernel module are, and what mends it when they do not match.
        """


class Thread(Protocol):
    """
    Where blocking jobs are done, one at a time.

    Not the loop's many threads: a directory that hangs costs this one, and the next cycle is told so at once.
    """

    async def do(self, job: Callable[[], T], *, deadline_seconds: float) -> T:
        """
        Do one; raises Overdue when it, or the one before it, has not returned in time.
        """


@attrs.frozen
class Rhythm:
    """
    How often.

    Args:
        interval_seconds: From the start of a cycle to the start of the next.
        window: Over how many cycles SM use is averaged.
    """

    interval_seconds: float
    window: int = 1

    @property
    def retries(self) -> Schedule:
        """
        The waits after cycles that failed; no slower than the healthy rhythm, so that a healed driver shows as soon.
        """
        return Schedule(first=FIRST_RETRY_SECONDS, cap=self.interval_seconds)


@attrs.frozen
class Output:
    """
    Who learns what cycles find.

    Args:
        render: Makes the page's figures of a snapshot; called in the thread of the cycle.
        page: Shows them.
        health: Learns how each cycle ended.
        metrics: The same, in numbers.
    """

    render: Callable[[Snapshot], bytes]
    page: Page
    health: Health
    metrics: Metrics


@attrs.frozen
class Clocks:
    """
    What the time is.

    Args:
        elapsed: For durations, in seconds; the one that health goes by.
        boot: Seconds since the machine has started, which the starts of processes are told by.
    """

    elapsed: Callable[[], float]
    boot: Callable[[], float]


class Cycle:
    """
    The loop.

    Args:
        nvml: Where GPUs, processes and limits come from.
        node: Where the rest comes from.
        thread: Where that is read, and the figures are made.
        output: Where everything goes.
        rhythm: How often.
        clocks: What the time is.
    """

    def __init__(
        self, nvml: Nvml, *, node: Place, thread: Thread, output: Output, rhythm: Rhythm, clocks: Clocks
    ) -> None:
        self._nvml = nvml
        self._node = node
        self._thread = thread
        self._output = output
        self._rhythm = rhythm
        self._clocks = clocks
        self._memory = Memory()
        self._silent: dict[str, SilentGpu] = {}
        self._log = structlog.get_logger()

    async def run(self) -> None:
        """
        Go round, for ever.
        """
        failures = 0
        while True:
            started = self._clocks.elapsed()
            outcome = await self._go_round(started)
            took = self._clocks.elapsed() - started
            self._output.metrics.cycle_seconds.observe(took)
            failures = 0 if outcome is Outcome.COMPLETE else failures + 1
            await asyncio.sleep(self._pause(failures, took))

    def _pause(self, failures: int, took: float) -> float:
        if failures:
            return self._rhythm.retries.delay(failures - 1)
        return max(LEAST_PAUSE_SECONDS, self._rhythm.interval_seconds - took)

    async def _go_round(self, started: float) -> Outcome:
        """
        Do one cycle, and tell everybody how it ended.
        """
        health, metrics = self._output.health, self._output.metrics
        before = health.state
        snapshot = None
        try:
            snapshot = await self._refresh()
        except NvmlError as error:
            outcome = health.nvml_failed(error, explanation=await self._explanation(error))
        except Unavailable as error:
            outcome = health.node_unreadable(str(error))
        except Overdue:
            outcome = health.node_unreadable(f"records and processes not read within {DEADLINE_SECONDS:.0f} s")
        else:
            outcome = health.completed(began=started)
            metrics.found(snapshot)
            self._tell_of_gpus(snapshot.silent)
        metrics.called(self._nvml.take_calls())
        metrics.cycles[outcome].inc()
        if (before.outcome, before.reason) != (outcome, health.state.reason):
            self._tell(outcome, snapshot)
        return outcome

    async def _refresh(self) -> Snapshot:
        """
        Read the world, decide, and show what was found.

        Raises:
            NvmlError: NVML did not answer, or with an error.
            Unavailable: Records or processes could not be read.
            Overdue: They did not answer in time.
        """
        began = self._clocks.boot()
        sample = await self._nvml.sample()
        met = self._memory.met
        sight = await self._in_thread(lambda: self._node.look(sample, sampled_at=began, met=met))
        answers = await self._nvml.memory_limits(sight.plan.queries)
        world = World(sample, sight.records, sight.unreadable, sight.origins, sight.plan.answered(answers))
        self._memory, snapshot, figures = await self._in_thread(lambda: self._decide(world))
        self._output.page.show(figures)
        return snapshot

    async def _explanation(self, error: NvmlError) -> str:
        if not isinstance(error, DriverMismatch):
            return ""
        try:
            return await self._in_thread(self._node.mismatch)
        except Overdue:
            return ""

    def _decide(self, world: World) -> tuple[Memory, Snapshot, bytes]:
        memory, snapshot = engine.step(self._memory, world, window=self._rhythm.window)
        return memory, snapshot, self._output.render(snapshot)

    async def _in_thread(self, job: Callable[[], T]) -> T:
        return await self._thread.do(job, deadline_seconds=DEADLINE_SECONDS)

    def _tell(self, outcome: Outcome, snapshot: Snapshot | None) -> None:
        if snapshot is None:
            self._log.warning("node_not_read", kind=outcome.value, error=self._output.health.state.reason)
            return
        self._log.info(
            "node_read", driver=snapshot.driver_version, gpus=len(snapshot.gpus), containers=snapshot.records
        )

    def _tell_of_gpus(self, silent: Sequence[SilentGpu]) -> None:
        """
        Log which GPUs do not tell who uses them, and which do so again; each once.
        """
        # One that was lost before it told its UUID is known by its index.
        now = {gpu.uuid or f"{gpu.index}": gpu for gpu in silent}
        for name in now.keys() - self._silent.keys():
            gpu = now[name]
            self._log.warning("gpu_silent", index=gpu.index, gpu_uuid=gpu.uuid, error=gpu.reason)
        for name in self._silent.keys() - now.keys():
            gpu = self._silent[name]
            self._log.info("gpu_not_silent", index=gpu.index, gpu_uuid=gpu.uuid)
        self._silent = now
