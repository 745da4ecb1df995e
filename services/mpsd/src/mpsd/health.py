"""
Checks the running control daemon, and has it restarted after so many failures.

The socket is looked at twice a second, since it is all that containers see: it has to be the very one that was there
first, when no other control daemon was near. A command is asked at the set interval, and more often only to see that a
fault has gone. Failures are counted by what failed, since that decides what they lead to: a daemon that does not answer
is killed, one that does is told to quit. A configuration that was once seen to be right is written back, because the
running daemon has the right one and a restart would cost every client its context; one that never was, is not known to
be what the daemon read.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Protocol

import attrs
import structlog
from fractioning_core.errors import Unavailable

from mpsd.causes import Cause, NotRunning
from mpsd.control import NoAnswer, NotRun
from mpsd.controlsocket import Identity
from mpsd.lifecycle import State
from mpsd.metrics import Metrics
from mpsd.truth import Probe, Problem, Truth

GLANCE_SECONDS = 0.5
# Until the first answer of a run, so that a start is seen at once.
STARTING_GLANCE_SECONDS = 0.1
# For the socket to appear: on a cold node the driver takes its time, and a restart would start that anew.
START_GRACE_SECONDS = 60.0

_CAUSES = {
    Problem.SOCKET_MISSING: Cause.SOCKET_MISSING,
    Problem.CONFIG_CHANGED: Cause.CONFIG_CHANGED,
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

    def socket(self) -> Identity | None:
        """Identify the control socket; None when there is none; blocks."""

    def has_opened_socket(self) -> bool:
        """Tell whether our daemon has made its control socket, be it there or not; blocks."""

    def other_daemons(self) -> tuple[int, ...]:
        """List the control daemons of the same directory that we did not start; blocks."""

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
    socket: Identity | None = None
    has_right_config: bool = False
    failures: Counter[Problem] = attrs.field(factory=Counter)
    next_question: float = 0.0

    @property
    def is_failing(self) -> bool:
        """
        Whether the last check failed.
        """
        return bool(self.failures)


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
        missing = await self._look_for_socket(run)
        if missing:
            return self._found(Problem.SOCKET_MISSING, missing)
        if run.socket is None or not self._is_time(run):
            return None
        run.next_question = self._clock() + self._terms.interval_seconds
        difference = await asyncio.to_thread(self._disk.config_difference)
        if difference:
            return self._found(Problem.CONFIG_CHANGED, f"the configuration file {difference}")
        run.has_right_config = True
        return await self._ask()

    async def _look_for_socket(self, run: _Run) -> str:
        """
        Say what is wrong with the control socket; empty when nothing is, or it may still come.
        """
        # In this order: one that was made by then and is not there is gone, though it was never seen.
        was_there = run.socket is not None or await asyncio.to_thread(self._disk.has_opened_socket)
        found = await asyncio.to_thread(self._disk.socket)
        if found is None:
            is_starting = not was_there and self._supervised.uptime_seconds < START_GRACE_SECONDS
            return "" if is_starting else "the control socket is gone"
        if run.socket is None:
            others = await asyncio.to_thread(self._disk.other_daemons)
            if others:
                return f"the control socket may be that of another control daemon, pid {others[0]}"
            run.socket = found
        return "" if found == run.socket else "the control socket is not the one that our daemon made"

    def _is_time(self, run: _Run) -> bool:
        if self._clock() >= run.next_question:
            return True
        # Good answers are asked for until they are enough; bad ones come at the interval, lest a moment be three.
        return self._truth.is_settling and not run.is_failing

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
            if run.is_failing:
                self._log.info("daemon_sound_again", failures=run.failures.total())
            run.failures.clear()
            return
        if probe.problem is Problem.SOCKET_MISSING:
            # Costs no question, and one that is back is to be asked at once.
            run.next_question = 0.0
        await self._count(run, probe.problem, probe.reason)

    async def _count(self, run: _Run, problem: Problem, reason: str) -> None:
        run.failures[problem] += 1
        self._metrics.failures[problem].inc()
        if run.failures[problem] == 1:
            self._log.warning("daemon_check_failed", problem=problem.value, reason=reason)
        if run.failures[problem] % self._terms.failures == 0:
            await self._remedy(run, problem, reason)

    async def _remedy(self, run: _Run, problem: Problem, reason: str) -> None:
        if problem is Problem.CONFIG_CHANGED and run.has_right_config:
            await self._restore_config(reason)
        elif problem in _CAUSES:
            try:
                await self._supervised.restart(reason, problem is not Problem.NO_ANSWER, _CAUSES[problem])
            except NotRunning:
                return

    async def _restore_config(self, reason: str) -> None:
        try:
            await self._disk.restore_config()
        except Unavailable as error:
            self._log.error("config_not_restored", error=str(error))
        else:
            self._log.warning("config_restored", reason=reason)
