"""
Keeps one control daemon running: starts it, waits, and starts it again.

An end that nobody asked for is a crash, whatever its status; what is charged and waited for after which end, `waits`
knows. The driver or a missing program keep it from starting without any charge; it is then looked at again, never in a
loop of crashes. A daemon that survives SIGKILL ends mpsd, since no other could run beside it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping

import attrs
import structlog
from fractioning_core.errors import Unavailable
from fractioning_core.service.backoff import RetryBudget

from mpsd import gate, lifecycle, steps
from mpsd.causes import Cause, DaemonFailed, NotRunning, Request, SurvivesKill
from mpsd.deathsig import EXIT_NOT_RUNNABLE
from mpsd.ending import Ending
from mpsd.gate import DriverVersions
from mpsd.launcher import Child, Launch
from mpsd.lifecycle import Event, State
from mpsd.waits import Waits

# For a step that reads /proc and a few files, and may have to end a stray daemon or two, at 6 s each.
STEP_SECONDS = 30.0


class Supervisor:
    """
    The loop, and what can be asked of it.

    Args:
        launch: Starts the daemon.
        driver: What is known of the driver.
        budget: What crashes are allowed.
        stop_delay_seconds: How long a daemon that was told to quit may take.
        clock: The loop's time.
    """

    def __init__(
        self,
        launch: Launch,
        *,
        driver: DriverVersions,
        budget: RetryBudget,
        stop_delay_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._launch = launch
        self._driver = driver
        self._waits = Waits.of(budget)
        # How often to look again at what keeps the daemon from starting.
        self._schedule = budget.schedule
        self._ending = Ending(launch, stop_delay_seconds=stop_delay_seconds)
        self._clock = clock
        self._log = structlog.get_logger()
        self._state = State.IDLE
        self._reason = ""
        self._child: Child | None = None
        self._started_at = 0.0
        self._runs = 0
        self._restarts: Counter[Cause] = Counter()
        self._request: Request | None = None
        self._is_stopping = False
        self._wake = asyncio.Event()

    @property
    def state(self) -> State:
        """
        Where the daemon stands.
        """
        return self._state

    @property
    def reason(self) -> str:
        """
        Why it stands there, one line; empty when there is nothing to say.
        """
        return self._reason

    @property
    def pid(self) -> int | None:
        """
        The daemon's process id; None while none runs.
        """
        return self._child.pid if self._child else None

    @property
    def uptime_seconds(self) -> float:
        """
        How long the daemon has run; 0 while none does.
        """
        return self._clock() - self._started_at if self._child else 0.0

    @property
    def runs(self) -> int:
        """
        How many times it was started; tells one run from the next.
        """
        return self._runs

    @property
    def restarts(self) -> Mapping[str, int]:
        """
        How many times a daemon that ran was replaced, by cause.
        """
        return {cause.value: self._restarts[cause] for cause in Cause}

    async def restart(self, reason: str, graceful: bool, cause: Cause = Cause.REQUESTED) -> None:  # noqa: FBT001  named at each call
        """
        Have the daemon replaced; returns before it is.

        A second request joins the first, but a hard one ends a graceful one's waiting at once.

        Raises:
            NotRunning: there is none to replace; nothing is left behind.
        """
        if self._child is None or self._state not in {State.RUNNING, State.RESTARTING}:
            raise NotRunning(self._state, self._reason)
        if self._request is None:
            self._request = Request(reason, graceful, cause)
            self._wake.set()
        elif self._request.is_graceful and not graceful:
            self._log.warning("restart_hardened", reason=reason)
            # Obeyed as it stands if nobody has yet, else by whoever waits for the daemon to quit.
            self._request = attrs.evolve(self._request, is_graceful=False)
            self._ending.harden()

    def stop(self) -> None:
        """
        Have the daemon ended and the loop return; returns before they have.
        """
        self._is_stopping = True
        self._wake.set()

    async def run(self) -> None:
        """
        Keep the daemon running until `stop`.

        Raises:
            DaemonFailed: the retry budget is spent.
            FractioningError: the node could not be set up.
        """
        try:
            await steps.within(STEP_SECONDS, self._launch.prepare(), doing="setting up the directories")
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(self._watch_driver(), name="driver-gate")
                await self._get_to_know_driver()
                while not self._is_stopping:
                    await self._rest(await self._run_once())
                watching.cancel()
        finally:
            if self._child is not None:
                # Only on an error elsewhere: nobody waits for clients then.
                self._child.kill()
                self._drop_child()
                await self._launch.kill_servers()
        if self._state is not State.STOPPED:
            self._move(Event.STOP_ASKED)

    async def _get_to_know_driver(self) -> None:
        """
        Give NVML a moment, so that an old driver is seen before a start.
        """
        deadline = self._clock() + gate.PATIENCE_SECONDS
        while not self._is_stopping and gate.is_unknown_yet(self._driver):
            left = deadline - self._clock()
            if left <= 0:
                return
            self._reason = self._driver.driver_reason()
            await self._rest(left)

    async def _run_once(self) -> float:
        """
        Start the daemon and see it end, or see what keeps it from starting.

        Returns: the seconds to wait before the next time.
        """
        verdict = gate.judge(self._driver)
        if verdict.reason:
            self._move(Event.DRIVER_REFUSED, verdict.reason)
            return self._schedule.cap
        looking = asyncio.to_thread(self._launch.obstacle)
        obstacle = await steps.within(STEP_SECONDS, looking, doing="looking for the program")
        if obstacle:
            self._move(Event.PROGRAM_MISSING, obstacle)
            return self._schedule.first
        child = await self._start()
        status = await self._serve(child)
        return self._after_survival(child) if status is None else self._after_run(status)

    async def _start(self) -> Child:
        self._move(Event.START)
        try:
            child = await steps.within(STEP_SECONDS, self._launch.start(), doing="starting the control daemon")
        except Unavailable as error:
            self._move(Event.GAVE_UP, str(error))
            raise
        self._child, self._started_at, self._request = child, self._clock(), None
        self._runs += 1
        self._move(Event.STARTED)
        # The driver may have become known while it was being started.
        self._judge_driver()
        return child

    async def _serve(self, child: Child) -> int | None:
        """
        Wait until the daemon ends, by itself or because somebody wants it to.

        Returns: its status; None for one that survives being killed.
        """
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(child.wait(), name="daemon-exit")
            waiting.add_done_callback(lambda _: self._wake.set())
            while not waiting.done():
                await self._wake.wait()
                self._wake.clear()
                # In any other state it was told before, and has just ended.
                if not waiting.done() and self._state is State.RUNNING and not await self._obey(child):
                    waiting.cancel()
                    return None
        return waiting.result()

    async def _obey(self, child: Child) -> bool:
        """
        End the daemon if that is what somebody wants.

        Returns: False when it survives that.
        """
        request = self._request
        if self._is_stopping:
            self._move(Event.STOP_ASKED, "told to stop")
            return await self._ending.quit(child)
        if request is not None:
            self._move(Event.RESTART_ASKED, request.reason)
            self._log.warning("restart_requested", reason=request.reason, graceful=request.is_graceful)
            return await (self._ending.quit(child) if request.is_graceful else self._ending.kill(child))
        return True

    def _after_survival(self, child: Child) -> float:
        if self._is_stopping:
            # Nothing is left to be done for it, and whoever told us to stop waits.
            self._drop_child()
            self._move(Event.ENDED)
            return 0.0
        error = SurvivesKill("the control daemon", child.pid)
        self._move(Event.GAVE_UP, str(error))
        raise error

    def _after_run(self, status: int) -> float:
        uptime, request = self.uptime_seconds, self._request
        self._drop_child()
        if self._is_stopping:
            self._log.info("daemon_stopped", status=status)
            # It may have crashed at the very moment.
            self._move(Event.CRASHED if self._state is State.RUNNING else Event.ENDED)
            return 0.0
        if request is not None and self._state is State.RESTARTING:
            self._restarts[request.cause] += 1
            delay = self._waits.after_restart(request.cause, uptime)
            self._move(Event.ENDED, f"{request.reason}; started again after {delay:g} s")
            return delay
        if status == EXIT_NOT_RUNNABLE:
            self._move(Event.PROGRAM_MISSING, "the system cannot run it (status 127); the log says why")
            return self._schedule.first
        return self._after_crash(status, uptime)

    def _after_crash(self, status: int, uptime: float) -> float:
        told = f"{_described(status)} after {uptime:.1f} s"
        self._move(Event.CRASHED, told)
        self._restarts[Cause.CRASHED] += 1
        delay = self._waits.after_crash(uptime)
        if delay is None:
            failure = DaemonFailed(self._waits.crashes.attempts, told)
            self._move(Event.GAVE_UP, str(failure))
            raise failure
        self._log.error("daemon_crashed", status=status, uptime_seconds=round(uptime, 3), restart_in=delay)
        return delay

    async def _watch_driver(self) -> None:
        """
        Wake whoever waits for another driver, and end a daemon that turns out to be of no use.
        """
        while True:
            await self._driver.changed()
            self._judge_driver()

    def _judge_driver(self) -> None:
        verdict = gate.judge(self._driver)
        if self._state is State.RUNNING and verdict.is_final and self._request is None:
            self._request = Request(verdict.reason, is_graceful=True, cause=Cause.DRIVER)
        self._wake.set()

    async def _rest(self, seconds: float) -> None:
        """
        Wait, unless told to stop or the driver changes meanwhile.
        """
        deadline = self._clock() + seconds
        while not self._is_stopping and (left := deadline - self._clock()) > 0:
            self._wake.clear()
            try:
                async with asyncio.timeout(left):
                    await self._wake.wait()
            except TimeoutError:
                return
            if self._state in {State.HELD, State.IDLE}:
                return

    def _drop_child(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.close()

    def _move(self, event: Event, reason: str = "") -> None:
        before = self._state
        self._state, self._reason = lifecycle.after(before, event), reason
        if self._state is not before and self._state in {State.HELD, State.PARKED}:
            self._log.warning("daemon_held_back", state=self._state.value, reason=reason)


def _described(status: int) -> str:
    return f"killed by signal {-status}" if status < 0 else f"ended with status {status}"
