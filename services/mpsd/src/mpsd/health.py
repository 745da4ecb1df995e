"""
Checks the running control daemon, and has it restarted after so many failures.

The socket is looked at twice a second, since it is all that containers see; a command is asked at the set interval,
and at every look while something is wrong. What a failure leads to depends on what failed: a daemon that does not
answer is killed, one that does is told to quit, a changed configuration is written back, because the running daemon
has the right one and a restart would cost every client its context.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import attrs
import structlog
from fractioning_core.errors import Unavailable

from mpsd.causes import Cause
from mpsd.control import NoAnswer, NotRun
from mpsd.lifecycle import State
from mpsd.metrics import Metrics
from mpsd.supervisor import NotRunning
from mpsd.truth import Probe, Problem, Truth

GLANCE_SECONDS = 0.5
# Until the first answer of a run, so that a start is seen at once.
STARTING_GLANCE_SECONDS = 0.1
# For the socket to appear; the daemon makes it before it touches a GPU.
START_GRACE_SECONDS = 5.0

_CAUSES = {
    Problem.SOCKET_MISSING: Cause.SOCKET_MISSING,
    Problem.NO_ANSWER: Cause.NO_ANSWER,
    Problem.ERROR_ANSWER: Cause.ERROR_ANSWER,
}


class Supervised(Protocol):
    """What is needed of the supervisor."""

    @property
    def state(self) -> State:
        """Where the daemon stands."""

    @property
    def runs(self) -> int:
        """How many times it was started."""

    @property
    def uptime_seconds(self) -> float:
        """How long it has run."""

    async def restart(self, reason: str, graceful: bool, cause: Cause) -> None:  # noqa: FBT001  as declared there
        """Have it replaced."""


class Asked(Protocol):
    """The one command that is asked."""

    async def list_clients(self, deadline_seconds: float) -> tuple[int, ...]:
        """List the attached clients."""


class Disk(Protocol):
    """What lies on disk; `launcher` knows."""

    def socket_exists(self) -> bool:
        """Tell whether the control socket is there; blocks."""

    def config_difference(self) -> str:
        """Say how the configuration differs from what the daemon was started with; blocks."""

    async def restore_config(self) -> None:
        """Write the configuration back."""


@attrs.frozen
class Terms:
    """
    How checks are done.
    """

    interval_seconds: float
    timeout_seconds: float
    failures: int


@attrs.define
class _Run:
    """
    What is known of one run of the daemon.
    """

    number: int
    has_socket: bool = False
    failures: int = 0
    next_question: float = 0.0


class Health:
    """
    The loop of checks.
    """

    def __init__(
        self,
        supervised: Supervised,
        *,
        asked: Asked,
        disk: Disk,
        truth: Truth,
        terms: Terms,
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self._supervised = supervised
        self._asked = asked
        self._disk = disk
        self._truth = truth
        self._terms = terms
        self._metrics = metrics
        self._clock = clock
        self._log = structlog.get_logger()
        self._run = _Run(0)

    async def run(self) -> None:
        """
        Check, for ever.
        """
        while True:
            await self._look()
            has_answered = self._truth.last_probe is not None
            await asyncio.sleep(GLANCE_SECONDS if has_answered else STARTING_GLANCE_SECONDS)

    async def _look(self) -> None:
        if self._supervised.state is not State.RUNNING:
            self._truth.forget()
            return
        if self._supervised.runs != self._run.number:
            self._truth.forget()
            self._run = _Run(self._supervised.runs)
        run = self._run
        probe = await self._check(run)
        if probe is not None and self._is_current(run):
            self._truth.note(probe)
            await self._judge(run, probe)

    def _is_current(self, run: _Run) -> bool:
        # The daemon may have ended while it was being asked; what the next one does is not its fault.
        return self._supervised.state is State.RUNNING and self._supervised.runs == run.number

    async def _check(self, run: _Run) -> Probe | None:
        """
        Look at the disk, and ask if it is time to; None when there is nothing new to say.
        """
        there = await asyncio.to_thread(self._disk.socket_exists)
        run.has_socket = run.has_socket or there
        if not there:
            is_starting = not run.has_socket and self._supervised.uptime_seconds < START_GRACE_SECONDS
            return None if is_starting else self._found(Problem.SOCKET_MISSING, "the control socket is gone")
        if self._clock() < run.next_question and not run.failures and not self._truth.is_settling:
            return None
        difference = await asyncio.to_thread(self._disk.config_difference)
        if difference:
            return self._found(Problem.CONFIG_CHANGED, f"the configuration file {difference}")
        return await self._ask()

    async def _ask(self) -> Probe:
        started = self._clock()
        try:
            clients = await self._asked.list_clients(self._terms.timeout_seconds)
        except NoAnswer as error:
            return self._found(Problem.NO_ANSWER, str(error), latency_seconds=self._clock() - started)
        except NotRun as error:
            return self._found(Problem.NOT_ASKED, str(error))
        except Unavailable as error:
            return self._found(Problem.ERROR_ANSWER, str(error), latency_seconds=self._clock() - started)
        return Probe(self._clock(), latency_seconds=self._clock() - started, clients=clients)

    def _found(self, problem: Problem, reason: str, *, latency_seconds: float | None = None) -> Probe:
        return Probe(self._clock(), problem, reason, latency_seconds)

    async def _judge(self, run: _Run, probe: Probe) -> None:
        if probe.latency_seconds is not None:
            self._metrics.command_seconds.observe(probe.latency_seconds)
        if probe.problem is None:
            if run.failures:
                self._log.info("daemon_sound_again", failures=run.failures)
            run.failures, run.next_question = 0, self._clock() + self._terms.interval_seconds
            return
        run.failures += 1
        self._metrics.failures[probe.problem].inc()
        if run.failures == 1:
            self._log.warning("daemon_check_failed", problem=probe.problem.value, reason=probe.reason)
        if run.failures % self._terms.failures == 0:
            await self._remedy(probe.problem, probe.reason)

    async def _remedy(self, problem: Problem, reason: str) -> None:
        try:
            if problem is Problem.CONFIG_CHANGED:
                await self._disk.restore_config()
                self._log.warning("config_restored", reason=reason)
            elif problem in _CAUSES:
                await self._supervised.restart(reason, problem is not Problem.NO_ANSWER, _CAUSES[problem])
        except NotRunning:
            return
        except Unavailable as error:
            self._log.error("config_not_restored", error=str(error))
