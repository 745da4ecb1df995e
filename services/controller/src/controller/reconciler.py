"""
The loop: read the world, plan, apply the plan; again when something has changed, or after a while.

Changes that come together are planned for together: during a rollout thousands come within seconds, and each plan is
about all of them. A plan that failed in part is tried again, with growing waits while nothing else happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

import attrs
import structlog
from fractioning_core.kube import timestamps
from fractioning_core.kube.events import WARNING
from fractioning_core.service.backoff import Schedule

from controller import plan as planning
from controller.actions import Action, EmitEvent, Figures, Plan
from controller.applier import Applier
from controller.conditions import RECONCILE_ERROR
from controller.configreading import ConfigReading
from controller.latest import Latest
from controller.memory import Memory
from controller.metrics import Metrics, Outcome
from controller.report import Report
from controller.sources import Sources
from controller.world import World

GAP_SECONDS = 0.2
"""
Between two passes, so that changes gather.
"""

PLANNING_SHARE = 0.2
"""
Of the time while changes come without end; a plan for 5,000 nodes takes 0.1 s, in which nothing else is done.
"""

LONGEST_PLANNING_REST_SECONDS = 1.0
"""
However long a plan took: on a busy machine it takes ten times as long, and a change is to be seen within two seconds.
"""

NODES_GAP_SECONDS = 1.0
"""
After a pass that wrote on nodes, until the news of it has come; what is planned before would be written twice.
"""

RETRIES = Schedule(first=1.0, cap=30.0)


@attrs.frozen
class Ending:
    """
    How a pass ended, and what comes then.

    Args:
        outcome: How.
        rest_seconds: How long nothing is done, whatever happens.
        wait_seconds: When the next pass begins if nothing happens; None for never.
    """

    outcome: Outcome
    rest_seconds: float
    wait_seconds: float | None


class Wakeup:
    """
    Remembers that something has changed.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        """
        Something has changed.
        """
        self._event.set()

    async def wait(self, seconds: float | None) -> None:
        """
        Wait until something has changed since the last time, but no longer than so many seconds; None for ever.
        """
        await _within(seconds, self._event)
        self._event.clear()


class Reconciler:
    """
    Runs passes.

    Args:
        sources: What is read.
        applier: What writes.
        latest: What was written and may not have been read again yet.
        wakeup: Tells that something has changed.
        metrics: Learns what each pass found and did.
        clock: Seconds, monotonic.
        utcnow: Tells the time.
    """

    def __init__(
        self,
        sources: Sources,
        *,
        applier: Applier,
        latest: Latest,
        wakeup: Wakeup,
        metrics: Metrics,
        clock: Callable[[], float],
        utcnow: Callable[[], datetime],
    ) -> None:
        self.complaint = ""
        """
        What went wrong in the last pass that is a fault of ours, or why we stand by; empty for nothing.
        """
        self._sources = sources
        self._applier = applier
        self._latest = latest
        self._wakeup = wakeup
        self._metrics = metrics
        self._clock = clock
        self._utcnow = utcnow
        self._memory = Memory()
        self._failed_passes = 0
        self._stopping = asyncio.Event()
        self._told = ""
        self._log = structlog.get_logger()

    def stop(self) -> None:
        """
        End after what is being written now.
        """
        self._stopping.set()
        self._wakeup.wake()

    async def run(self) -> None:
        """
        Run passes until it is stopped.
        """
        while not self._stopping.is_set():
            started = self._clock()
            ending = await self._pass_safely()
            self._metrics.passes[ending.outcome].inc()
            self._metrics.pass_seconds.observe(self._clock() - started)
            await _within(ending.rest_seconds, self._stopping)
            await self._wakeup.wait(ending.wait_seconds)

    async def _pass_safely(self) -> Ending:
        """
        Run a pass; a fault of ours ends the pass and not the controller, which would meet it again at once.
        """
        try:
            ending = await self._pass()
        except Exception as error:  # noqa: BLE001 - logged with its traceback, and told in readiness
            self.complaint = f"a pass ended with {type(error).__name__}"
            self._log.exception("reconcile_crashed")
            return Ending(Outcome.CRASHED, GAP_SECONDS, self._retry_seconds())
        self.complaint = self._memory.stands_by
        return ending

    async def _pass(self) -> Ending:
        now = timestamps.seconds(self._utcnow())
        config = self._latest.of(self._sources.config())
        world = self._sources.world(config, now=now)
        problem = self._tell_incomplete()
        if world is not None:
            return await self._carry_out(world, config)
        actions: list[Action] = [EmitEvent(WARNING, RECONCILE_ERROR, problem)] if problem else []
        if config is not None and (outage := self._sources.outage()):
            actions += planning.plan_blind(config.config, outage, namespace=self._sources.namespace, now=now)
        planned = Plan(tuple(actions), self._memory)
        report = await self._applier.apply(planned, config)
        return Ending(Outcome.WAITING, GAP_SECONDS, self._wait_seconds(planned, report))

    async def _carry_out(self, world: World, config: ConfigReading | None) -> Ending:
        begun = self._clock()
        planned = planning.plan(world, self._memory)
        started = self._clock()
        self._show(planned.figures)
        report = await self._applier.apply(planned, config)
        is_news = report.memory.errors != self._memory.errors
        self._memory = report.memory
        self._tell(planned, report, self._clock() - started)
        if is_news:
            # What became of a DaemonSet belongs on the conditions.
            self._wakeup.wake()
        rest = max(rest_seconds(started - begun, on_nodes=report.on_nodes > 0), report.retry_after_seconds)
        return Ending(_outcome(report), rest, self._wait_seconds(planned, report))

    def _wait_seconds(self, planned: Plan, report: Report) -> float | None:
        if not report.failures:
            self._failed_passes = 0
        waits = [planned.requeue_seconds, self._sources.patience_seconds()]
        if report.is_stopped:
            # A lease that was renewed late is ours again the next moment, or never.
            waits.append(RETRIES.first)
        if report.is_cut:
            waits.append(0.0)
        if report.failures:
            waits.append(self._retry_seconds())
        return min((wait for wait in waits if wait is not None), default=None)

    def _retry_seconds(self) -> float:
        self._failed_passes += 1
        return RETRIES.delay(self._failed_passes - 1)

    def _tell_incomplete(self) -> str:
        """
        Log what is not read, once; give it where it cannot be read.
        """
        complaint, problem = self._sources.complaint(), self._sources.problem()
        if complaint == self._told:
            return ""
        self._told = complaint
        if problem:
            self._log.warning("sources_failing", reason=problem)
        elif complaint:
            self._log.info("sources_incomplete", reason=complaint)
        else:
            self._log.info("sources_complete")
        return problem

    def _tell(self, planned: Plan, report: Report, seconds: float) -> None:
        if planned.actions:
            kinds = [type(action).__name__ for action in planned.actions]
            counts = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
            self._log.info(
                "reconciled",
                actions=counts,
                failures=report.failures,
                stopped=report.is_stopped,
                seconds=round(seconds, 3),
                **({"problems": report.problems} if report.problems else {}),
            )

    def _show(self, figures: Figures) -> None:
        for component, rollup in figures.daemons.items():
            self._metrics.ready_nodes[component].set(rollup.ready)
            self._metrics.desired_nodes[component].set(rollup.desired)
        self._metrics.nodes_ready.set(figures.nodes_ready)
        self._metrics.nodes_degraded.set(figures.nodes_degraded)


async def _within(seconds: float | None, event: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def rest_seconds(planning_seconds: float, *, on_nodes: bool) -> float:
    """
    Say how long to do nothing after a pass.

    Args:
        planning_seconds: How long its plan took.
        on_nodes: Whether it wrote on nodes.
    """
    gap = NODES_GAP_SECONDS if on_nodes else GAP_SECONDS
    return max(gap, min(planning_seconds / PLANNING_SHARE, LONGEST_PLANNING_REST_SECONDS))


def _outcome(report: Report) -> Outcome:
    if report.is_stopped:
        return Outcome.STOPPED
    return Outcome.FAILED if report.failures else Outcome.DONE
