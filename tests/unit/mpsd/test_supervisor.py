"""The loop around the control daemon, in virtual time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import structlog
from fractioning_core.errors import FileUnavailable, FractioningError
from fractioning_core.service.backoff import RetryBudget, Schedule
from mpsd.causes import Cause, DaemonFailed, NotRunning, SurvivesKill
from mpsd.driverstate import DriverProblem, DriverState
from mpsd.ending import KILL_PATIENCE_SECONDS
from mpsd.lifecycle import State
from mpsd.steps import Overdue
from mpsd.supervisor import STEP_SECONDS, Supervisor

pytestmark = pytest.mark.looptime

LogLines = list[MutableMapping[str, Any]]
FOREVER = 1e9


def now() -> float:
    return asyncio.get_running_loop().time()


@attrs.define
class Script:
    """How one run of the daemon goes: how long, with which status, and how long `quit` takes."""

    seconds: float = FOREVER
    status: int = 0
    quit_seconds: float = 0.0
    survives: bool = False


@attrs.define(eq=False)
class FakeChild:
    """A daemon that lives by its script."""

    pid: int
    script: Script
    killed: bool = False
    quits: int = 0
    closed: bool = False
    _status: int | None = None
    _has_waiter: bool = False
    _ended: asyncio.Event = attrs.field(factory=asyncio.Event)

    def begin(self) -> None:
        """Let it live."""
        asyncio.get_running_loop().call_later(self.script.seconds, self._end, self.script.status)

    async def wait(self) -> int:
        """Wait for its end, of which whoever waits first hears last: nothing promises an order."""
        is_first, self._has_waiter = not self._has_waiter, True
        await self._ended.wait()
        for _ in range(3 if is_first else 0):
            await asyncio.sleep(0)
        assert self._status is not None
        return self._status

    def ask_quit(self) -> bool:
        """Quit, as slowly as the script says."""
        self.quits += 1
        asyncio.get_running_loop().call_later(self.script.quit_seconds, self._end, 0)
        return True

    def kill(self) -> None:
        """Die at once, unless it hangs in the kernel."""
        self.killed = True
        if not self.script.survives:
            self._end(-9)

    def close(self) -> None:
        """Note that nobody holds it any more."""
        self.closed = True

    def _end(self, status: int) -> None:
        if self._status is None:
            self._status = status
            self._ended.set()


@attrs.define(eq=False)
class Node:
    """A node on which daemons are started by scripts, the last of which is played again and again."""

    driver: DriverState = attrs.field(factory=lambda: DriverState(lambda: 0.0))
    scripts: deque[Script] = attrs.field(factory=deque)
    children: list[FakeChild] = attrs.field(factory=list)
    starts: list[float] = attrs.field(factory=list)
    problem: str = ""
    start_seconds: float = 0.0
    prepare_seconds: float = 0.0
    refusal: FractioningError | None = None
    unprepared: FractioningError | None = None
    servers_killed: int = 0

    async def prepare(self) -> None:
        """Refuse or hang if told to."""
        await asyncio.sleep(self.prepare_seconds)
        if self.unprepared:
            raise self.unprepared

    def obstacle(self) -> str:
        """Say what the test says."""
        return self.problem

    async def start(self) -> FakeChild:
        """Play the next script."""
        await asyncio.sleep(self.start_seconds)
        if self.refusal:
            raise self.refusal
        script = self.scripts.popleft() if len(self.scripts) > 1 else (self.scripts[0] if self.scripts else Script())
        child = FakeChild(1000 + len(self.children), script)
        child.begin()
        self.starts.append(now())
        self.children.append(child)
        return child

    async def kill_servers(self) -> None:
        """Count it."""
        self.servers_killed += 1

    def supervisor(self, *, max_retries: int = 5, stop_delay_seconds: float = 60.0) -> Supervisor:
        """Make a supervisor of this node."""
        budget = RetryBudget(max_retries, 300.0, Schedule(first=5.0, cap=60.0))
        return Supervisor(self, driver=self.driver, budget=budget, stop_delay_seconds=stop_delay_seconds, clock=now)

    @property
    def last(self) -> FakeChild:
        """The newest daemon."""
        return self.children[-1]


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def log() -> Iterator[LogLines]:
    with structlog.testing.capture_logs() as lines:
        yield lines


def plays(node: Node, *scripts: Script) -> Node:
    node.driver.learn("615.43.02", 615)
    node.scripts.extend(scripts)
    return node


@asynccontextmanager
async def running(supervisor: Supervisor) -> AsyncIterator[asyncio.Task[None]]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(supervisor.run())
        await until(lambda: supervisor.state is State.RUNNING)
        yield task
        supervisor.stop()


async def until(holds: Callable[[], bool], *, every_seconds: float = 0.1) -> None:
    for _ in range(100_000):
        if holds():
            return
        await asyncio.sleep(every_seconds)
    raise AssertionError("it never came")


async def failed(supervisor: Supervisor) -> FractioningError:
    with pytest.raises(ExceptionGroup) as caught:
        await supervisor.run()
    (error,) = caught.value.exceptions
    assert isinstance(error, FractioningError)
    return error


class TestCrashes:
    async def test_waits_double_up_to_a_minute(self, node: Node) -> None:
        """The first wait is the back-off, each further one twice as long, none over a minute."""
        plays(node, Script(seconds=0.0, status=1))
        supervisor = node.supervisor(max_retries=7)
        await failed(supervisor)

        waits = [round(later - earlier) for earlier, later in zip(node.starts, node.starts[1:], strict=False)]
        assert [5, 10, 20, 40, 60, 60] == waits

    @pytest.mark.parametrize("attempts", [1, 3])
    async def test_a_spent_budget_is_told(self, node: Node, attempts: int) -> None:
        """With so many retries the crash of that number ends it, with how the daemon ended."""
        plays(node, Script(seconds=2.0, status=-11))
        supervisor = node.supervisor(max_retries=attempts)
        error = await failed(supervisor)

        assert DaemonFailed(attempts, "killed by signal 11 after 2.0 s") == error
        assert str(error).startswith(f"MPS daemon failed after {attempts} attempts; last: ")
        assert (attempts, State.FAILED) == (len(node.starts), supervisor.state)

    async def test_an_end_with_status_0_is_a_crash(self, node: Node) -> None:
        """Nobody asked it to end, so its word that all is well does not count."""
        plays(node, Script(seconds=1.0, status=0))

        assert "ended with status 0" in str(await failed(node.supervisor(max_retries=1)))

    async def test_stable_runs_never_spend_the_budget(self, node: Node) -> None:
        """A run of five minutes clears what was charged."""
        plays(node, *[Script(seconds=300.0)] * 20, Script())
        async with running(node.supervisor(max_retries=1)):
            await until(lambda: len(node.starts) == 21, every_seconds=10.0)

        assert 21 == len(node.starts)

    async def test_without_a_limit_it_never_gives_up(self, node: Node) -> None:
        """Zero retries means any number."""
        plays(node, *[Script(seconds=0.5)] * 30, Script())
        supervisor = node.supervisor(max_retries=0)
        async with running(supervisor):
            await until(lambda: len(node.starts) == 31, every_seconds=10.0)

        assert 30 == supervisor.restarts["crashed"]

    async def test_the_state_says_that_it_waits(self, node: Node) -> None:
        """While it waits after a crash there is no process, and the reason is how the last one ended."""
        plays(node, Script(seconds=3.0, status=2), Script())
        supervisor = node.supervisor()
        async with running(supervisor):
            await until(lambda: supervisor.state is not State.RUNNING)
            seen = (supervisor.state, supervisor.reason, supervisor.pid, supervisor.uptime_seconds)

        assert (State.BACKING_OFF, "ended with status 2 after 3.0 s", None, 0.0) == seen

    async def test_a_stop_is_obeyed_while_waiting(self, node: Node) -> None:
        """The back-off does not hold up the end."""
        plays(node, Script(seconds=0.5))
        supervisor = node.supervisor(max_retries=0)
        async with running(supervisor):
            await until(lambda: supervisor.state is State.BACKING_OFF)
            begun = now()

        assert (begun, State.STOPPED) == (now(), supervisor.state)


class TestStop:
    async def test_quit_is_asked_for_and_waited_for(self, node: Node) -> None:
        """A daemon that waits for its clients is given the time."""
        plays(node, Script(quit_seconds=30.0))
        supervisor = node.supervisor()
        async with running(supervisor):
            begun = now()

        assert (30.0, 1, False) == (now() - begun, node.last.quits, node.last.killed)
        assert (State.STOPPED, True, 0) == (supervisor.state, node.last.closed, node.servers_killed)

    async def test_killed_after_the_delay_and_not_before(self, node: Node) -> None:
        """One that does not quit is killed with its servers, exactly after the delay."""
        plays(node, Script(quit_seconds=FOREVER))
        async with running(node.supervisor(stop_delay_seconds=60.0)):
            begun = now()

        assert (60.0, True, 1) == (now() - begun, node.last.killed, node.servers_killed)

    async def test_a_cancellation_leaves_no_daemon(self, node: Node) -> None:
        """When another part fails, the daemon is killed at once."""
        plays(node, Script(quit_seconds=FOREVER))
        supervisor = node.supervisor()
        task = asyncio.create_task(supervisor.run())
        await until(lambda: supervisor.state is State.RUNNING)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert (True, True, 1) == (node.last.killed, node.last.closed, node.servers_killed)

    async def test_one_that_survives_a_kill_is_not_waited_for(self, node: Node) -> None:
        """A stop ends though the daemon hangs in the kernel, after the delay and the patience for a kill."""
        plays(node, Script(quit_seconds=FOREVER, survives=True))
        supervisor = node.supervisor()
        async with running(supervisor):
            begun = now()

        assert (60.0 + KILL_PATIENCE_SECONDS, State.STOPPED) == (now() - begun, supervisor.state)

    async def test_before_the_first_start(self, node: Node) -> None:
        """A stop during the wait for the driver starts nothing."""
        supervisor = node.supervisor()
        async with asyncio.TaskGroup() as group:
            group.create_task(supervisor.run())
            await asyncio.sleep(1.0)
            supervisor.stop()

        assert ([], State.STOPPED) == (node.starts, supervisor.state)


class TestRestart:
    async def test_graceful(self, node: Node) -> None:
        """It is told to quit, and the next one starts a second after its end."""
        plays(node, Script(quit_seconds=2.0), Script())
        supervisor = node.supervisor()
        async with running(supervisor):
            begun = now()
            await supervisor.restart("recycle", graceful=True)
            await until(lambda: len(node.starts) == 2)
            seen = (node.children[0].killed, supervisor.restarts["requested"])

        assert (3.0, False, 1) == (node.starts[1] - begun, *seen)

    async def test_hard(self, node: Node) -> None:
        """Daemon and servers are killed at once."""
        plays(node, Script(quit_seconds=FOREVER), Script())
        supervisor = node.supervisor()
        async with running(supervisor):
            begun = now()
            await supervisor.restart("wedged", graceful=False)
            await until(lambda: len(node.starts) == 2)
            seen = (node.children[0].killed, node.children[0].quits, node.servers_killed)

        assert (1.0, True, 0, 1) == (node.starts[1] - begun, *seen)

    async def test_a_graceful_one_hardens_after_the_delay(self, node: Node) -> None:
        """Clients that do not leave do not keep it from being replaced."""
        plays(node, Script(quit_seconds=FOREVER), Script())
        supervisor = node.supervisor(stop_delay_seconds=10.0)
        async with running(supervisor):
            begun = now()
            await supervisor.restart("recycle", graceful=True)
            await until(lambda: len(node.starts) == 2)

        assert (11.0, True) == (node.starts[1] - begun, node.children[0].killed)

    async def test_a_hard_request_ends_a_graceful_wait(self, node: Node) -> None:
        """Who finds it wedged does not wait for who wanted it gently."""
        plays(node, Script(quit_seconds=FOREVER), Script())
        supervisor = node.supervisor()
        async with running(supervisor):
            await supervisor.restart("recycle", graceful=True)
            await asyncio.sleep(3.0)
            begun = now()
            await supervisor.restart("wedged", graceful=False)
            await until(lambda: len(node.starts) == 2)

        assert 1.0 == pytest.approx(node.starts[1] - begun)

    async def test_a_hard_request_right_after_a_graceful_one(self, node: Node) -> None:
        """It counts, though nobody has obeyed the first one yet."""
        plays(node, Script(quit_seconds=FOREVER), Script())
        supervisor = node.supervisor()
        async with running(supervisor):
            begun = now()
            await supervisor.restart("recycle", graceful=True)
            await supervisor.restart("wedged", graceful=False)
            await until(lambda: len(node.starts) == 2)

        assert (1.0, 0) == (node.starts[1] - begun, node.children[0].quits)

    async def test_one_that_survives_a_kill_ends_mpsd(self, node: Node) -> None:
        """Nothing is started beside a daemon that hangs in the kernel, whatever else happens, and it is named."""
        plays(node, Script(survives=True))
        supervisor = node.supervisor()

        async def restart() -> None:
            await until(lambda: supervisor.state is State.RUNNING)
            await supervisor.restart("no answer", graceful=False, cause=Cause.NO_ANSWER)
            await asyncio.sleep(1.0)
            node.driver.doubt(DriverProblem.SILENT, "no answer")

        task = asyncio.create_task(restart())
        error = await failed(supervisor)
        await task

        assert (SurvivesKill("the control daemon", 1000), State.FAILED) == (error, supervisor.state)
        assert (1, True) == (
            len(node.starts),
            str(error).startswith("the control daemon with pid 1000 survives SIGKILL"),
        )

    async def test_another_wish_while_it_ends(self, node: Node) -> None:
        """What wakes the loop while a daemon quits does not tell it to end twice."""
        plays(node, Script(quit_seconds=30.0), Script())
        supervisor = node.supervisor()
        async with running(supervisor):
            await supervisor.restart("recycle", graceful=True)
            await asyncio.sleep(10.0)
            node.driver.doubt(DriverProblem.SILENT, "no answer")
            await until(lambda: len(node.starts) == 2)

        assert 1 == node.children[0].quits

    async def test_findings_wait_longer_each_time_and_end_nothing(self, node: Node) -> None:
        """Checks that fail again and again restart it ever more rarely, and never spend the budget."""
        plays(node, Script())
        supervisor = node.supervisor(max_retries=2)
        async with running(supervisor):
            for number in range(1, 7):
                await until(lambda: supervisor.state is State.RUNNING)
                await supervisor.restart("busy", graceful=True, cause=Cause.ERROR_ANSWER)
                await until(lambda: supervisor.state is State.RESTARTING and supervisor.pid is None)
                told = supervisor.reason
                await until(lambda count=number: len(node.starts) == count + 1)  # type: ignore[misc]

        waits = [round(later - earlier) for earlier, later in zip(node.starts, node.starts[1:], strict=False)]
        assert [5, 10, 20, 40, 60, 60] == waits
        assert ("busy; started again after 60 s", 6) == (told, supervisor.restarts["error_answer"])

    async def test_is_never_charged_and_clears_what_was(self, node: Node) -> None:
        """Twice the budget of restarts and crashes in turn start the daemon each time, with the first wait."""
        plays(node, Script(seconds=100.0))
        supervisor = node.supervisor(max_retries=2)
        async with running(supervisor):
            for round_ in range(4):
                await until(lambda: supervisor.state is State.RUNNING)
                await until(lambda: supervisor.state is State.BACKING_OFF)
                await until(lambda: supervisor.state is State.RUNNING)
                await supervisor.restart(f"round {round_}", graceful=False)
                await until(lambda: supervisor.state is State.RESTARTING)

        assert (4, 4) == (supervisor.restarts["requested"], supervisor.restarts["crashed"])

    async def test_with_one_retry_it_is_back_in_under_three_seconds(self, node: Node) -> None:
        """The back-off of crashes has no part in it."""
        plays(node, Script(), Script())
        supervisor = node.supervisor(max_retries=1)
        async with running(supervisor):
            begun = now()
            await supervisor.restart("", graceful=False)
            await until(lambda: len(node.starts) == 2)

        assert node.starts[1] - begun < 3.0

    async def test_eight_at_once_are_one(self, node: Node) -> None:
        """Requests that come together are served together, and none is left behind."""
        plays(node, Script(), Script())
        supervisor = node.supervisor()
        async with running(supervisor):
            async with asyncio.TaskGroup() as group:
                for number in range(8):
                    group.create_task(supervisor.restart(f"number {number}", graceful=number % 2 == 0))
            await asyncio.sleep(120.0)

        assert (2, 1) == (len(node.starts), supervisor.restarts["requested"])

    @pytest.mark.parametrize("graceful", [True, False])
    async def test_with_nothing_running(self, node: Node, graceful: bool) -> None:  # noqa: FBT001  both kinds
        """It is refused with the state, and the next daemon is left alone."""
        plays(node, Script(seconds=1.0), Script())
        supervisor = node.supervisor()
        async with running(supervisor):
            await until(lambda: supervisor.state is State.BACKING_OFF)
            with pytest.raises(NotRunning) as caught:
                await supervisor.restart("x", graceful)
            await asyncio.sleep(120.0)

        assert "no control daemon runs (backing-off): ended with status 0" in str(caught.value)
        assert 2 == len(node.starts)

    async def test_is_counted_by_its_cause(self, node: Node) -> None:
        """Every cause has a number from the start, and only the one that counts changes."""
        plays(node, Script(), Script())
        supervisor = node.supervisor()
        async with running(supervisor):
            before = dict(supervisor.restarts)
            await supervisor.restart("no answer", graceful=False, cause=Cause.NO_ANSWER)
            await until(lambda: len(node.starts) == 2)

        assert dict.fromkeys((cause.value for cause in Cause), 0) == before
        assert before | {"no_answer": 1} == supervisor.restarts


class TestTheDriver:
    async def test_it_waits_a_moment_to_know_it(self, node: Node) -> None:
        """A driver told within five seconds is judged before a start."""
        supervisor = node.supervisor()
        async with asyncio.TaskGroup() as group:
            group.create_task(supervisor.run())
            await asyncio.sleep(3.0)
            node.driver.learn("580.1", 580)
            await asyncio.sleep(600.0)
            seen = (supervisor.state, len(node.starts))
            supervisor.stop()

        assert (State.HELD, 0) == seen

    async def test_one_that_stays_silent_does_not_keep_it_from_starting(self, node: Node) -> None:
        """After five seconds MPS starts without NVML's word."""
        async with running(node.supervisor()):
            pass

        assert [5.0] == node.starts

    async def test_one_that_fails_costs_no_wait(self, node: Node) -> None:
        """A reason for having no version is an answer."""
        node.driver.doubt(DriverProblem.LIBRARY_MISSING, "no library")
        async with running(node.supervisor()):
            pass

        assert [0.0] == node.starts

    async def test_a_newer_one_starts_it_at_once(self, node: Node) -> None:
        """What was held starts by itself when the driver allows."""
        node.driver.learn("580.1", 580)
        supervisor = node.supervisor()
        async with asyncio.TaskGroup() as group:
            group.create_task(supervisor.run())
            await asyncio.sleep(1000.5)
            node.driver.learn("615.43.02", 615)
            await until(lambda: supervisor.state is State.RUNNING)
            supervisor.stop()

        assert [1000.5] == node.starts

    async def test_an_old_one_known_late_ends_what_runs(self, node: Node) -> None:
        """A daemon started before the driver was known is told to quit, and nothing is charged."""
        supervisor = node.supervisor(max_retries=1)
        async with running(supervisor):
            node.driver.learn("580.1", 580)
            await until(lambda: supervisor.state is State.HELD)
            seen = (node.last.quits, node.last.killed, len(node.starts), supervisor.restarts["driver"])

        assert (1, False, 1, 1) == seen

    async def test_an_old_one_known_while_it_starts_ends_it(self, node: Node) -> None:
        """What was told during a start is not told again, and counts all the same."""
        node.driver.doubt(DriverProblem.FAILED, "NVML Init: UNKNOWN (999)")
        node.start_seconds = 6.0
        supervisor = node.supervisor()
        async with asyncio.TaskGroup() as group:
            group.create_task(supervisor.run())
            await asyncio.sleep(3.0)
            node.driver.learn("580.95.05", 580)
            await asyncio.sleep(60.0)
            seen = (supervisor.state, node.last.quits, len(node.starts))
            supervisor.stop()

        assert (State.HELD, 1, 1) == seen

    async def test_a_half_upgrade_leaves_alone_what_runs(self, node: Node) -> None:
        """It holds back the next start only."""
        plays(node, Script(seconds=100.0))
        supervisor = node.supervisor()
        async with running(supervisor):
            node.driver.doubt(DriverProblem.MISMATCH, "mismatch")
            await asyncio.sleep(50.0)
            during = (supervisor.state, node.last.quits)
            await asyncio.sleep(500.0)
            after = (supervisor.state, supervisor.reason, len(node.starts))

        assert (State.RUNNING, 0) == during
        assert (State.HELD, "mismatch", 1) == after


class TestTheNode:
    async def test_a_missing_program_parks_it(self, node: Node, log: LogLines) -> None:
        """It is looked for once in a back-off, told once, never charged, and started when it is there."""
        plays(node).problem = "/b is not there"
        supervisor = node.supervisor(max_retries=1)
        async with asyncio.TaskGroup() as group:
            group.create_task(supervisor.run())
            await asyncio.sleep(600.0)
            seen = (supervisor.state, supervisor.reason)
            node.problem = ""
            begun = now()
            await until(lambda: supervisor.state is State.RUNNING)
            supervisor.stop()

        assert (State.PARKED, "/b is not there") == seen
        assert node.starts[0] - begun <= 5.0
        assert 1 == len([line for line in log if line["event"] == "daemon_held_back"])

    async def test_a_program_that_is_none_parks_it(self, node: Node) -> None:
        """What the system does not take for a program is looked at again like one that is missing, without a charge."""
        plays(node, *[Script(seconds=0.5, status=127)] * 4, Script())
        supervisor = node.supervisor(max_retries=1)
        async with running(supervisor):
            await until(lambda: supervisor.state is State.PARKED)
            told = supervisor.reason
            await until(lambda: len(node.starts) == 5)

        assert "the system cannot run it (status 127); the log says why" == told
        assert (5.5, 0) == (node.starts[1] - node.starts[0], supervisor.restarts["crashed"])

    @pytest.mark.parametrize("step", ["prepare_seconds", "start_seconds"])
    async def test_a_step_that_hangs_ends_mpsd(self, node: Node, step: str) -> None:
        """A dead mount keeps nobody from hearing why."""
        plays(node)
        setattr(node, step, FOREVER)
        with pytest.raises((Overdue, ExceptionGroup)) as caught:
            await node.supervisor().run()

        assert STEP_SECONDS == now()
        assert isinstance(caught.value, Overdue) or caught.group_contains(Overdue)

    async def test_what_cannot_be_set_up_is_raised(self, node: Node) -> None:
        """An unwritable directory is the caller's to tell."""
        node.unprepared = FileUnavailable("write to", "/pipe", "Read-only file system")

        with pytest.raises(FileUnavailable):
            await node.supervisor().run()

    async def test_a_configuration_that_cannot_be_written_is_final(self, node: Node) -> None:
        """Without its configuration the daemon is not started at all."""
        plays(node).refusal = FileUnavailable("write", "/c.toml", "No space left on device")
        supervisor = node.supervisor()
        error = await failed(supervisor)

        assert (node.refusal, State.FAILED, []) == (error, supervisor.state, node.starts)


class TestReadings:
    async def test_pid_and_uptime(self, node: Node) -> None:
        """Both are those of the daemon that runs."""
        plays(node)
        supervisor = node.supervisor()
        async with running(supervisor):
            await asyncio.sleep(42.0)
            seen = (supervisor.pid, round(supervisor.uptime_seconds), supervisor.runs)

        assert (1000, 42, 1) == seen
