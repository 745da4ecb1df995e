"""The checks of the running daemon, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import attrs
import pytest
from fractioning_core.errors import FileUnavailable, Unavailable
from mpsd.causes import Cause, NotRunning
from mpsd.control import NoAnswer, NotRun, Refused
from mpsd.controlsocket import Identity
from mpsd.health import START_GRACE_SECONDS, Health, Terms
from mpsd.lifecycle import State
from mpsd.metrics import PREFIX, Metrics
from mpsd.truth import Problem, Truth
from prometheus_client import CollectorRegistry

# Sleeps take no time of anybody's: the clock is turned on to their end.
pytestmark = pytest.mark.looptime


def now() -> float:
    return asyncio.get_running_loop().time()


@attrs.define(eq=False)
class World:
    """A supervisor, a control daemon and a disk, as a test has them."""

    state: State = State.RUNNING
    runs: int = 1
    reason: str = ""
    started_at: float = 0.0
    has_socket: bool = True
    has_opened: bool = False
    identity: Identity = attrs.field(factory=lambda: Identity(1, 1, 1))
    others: tuple[int, ...] = ()
    difference: str = ""
    error: Unavailable | None = None
    answer_seconds: float = 0.01
    clients: tuple[int, ...] = ()
    restore_error: Unavailable | None = None
    restart_error: NotRunning | None = None
    asked: list[float] = attrs.field(factory=list)
    restarts: list[tuple[Cause, bool]] = attrs.field(factory=list)
    restored: int = 0

    @property
    def uptime_seconds(self) -> float:
        """Since its start."""
        return now() - self.started_at

    async def restart(self, reason: str, graceful: bool, cause: Cause) -> None:  # noqa: FBT001  as declared there
        """Note it, and refuse if told to."""
        assert reason
        self.restarts.append((cause, graceful))
        if self.restart_error:
            raise self.restart_error

    def begin_another_run(self) -> None:
        """Put the next daemon in place."""
        self.runs += 1
        self.state, self.started_at = State.RUNNING, now()

    async def list_clients(self, deadline_seconds: float) -> tuple[int, ...]:
        """Answer as the test says."""
        self.asked.append(now())
        if self.answer_seconds > deadline_seconds:
            await asyncio.sleep(deadline_seconds)
            raise NoAnswer("client list", deadline_seconds)
        await asyncio.sleep(self.answer_seconds)
        if self.error:
            raise self.error
        return self.clients

    def socket(self) -> Identity | None:
        """Say what the test says."""
        return self.identity if self.has_socket else None

    def has_opened_socket(self) -> bool:
        """Say what the test says."""
        return self.has_opened

    def other_daemons(self) -> tuple[int, ...]:
        """Say what the test says."""
        return self.others

    def config_difference(self) -> str:
        """Say what the test says."""
        return self.difference

    async def restore_config(self) -> None:
        """Mend it, or refuse if told to."""
        if self.restore_error:
            raise self.restore_error
        self.restored += 1
        self.difference = ""


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def truth(world: World) -> Truth:
    return Truth(world, complaint=str, max_age_seconds=10.0, clock=now)


@pytest.fixture
def health(world: World, truth: Truth, registry: CollectorRegistry) -> Health:
    terms = Terms(interval_seconds=5.0, timeout_seconds=3.0, failures=3)
    return Health(world, asked=world, disk=world, truth=truth, terms=terms, metrics=Metrics(registry), clock=now)


@asynccontextmanager
async def running(health: Health) -> AsyncIterator[None]:
    task = asyncio.create_task(health.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(holds: Callable[[], bool]) -> float:
    for _ in range(100_000):
        if holds():
            return now()
        await asyncio.sleep(0.01)
    raise AssertionError("it never came")


class TestAsking:
    async def test_at_the_interval(self, world: World, health: Health, truth: Truth) -> None:
        """A daemon that answers is asked once in the interval, give or take a glance."""
        world.clients = (7, 8)
        async with running(health):
            await asyncio.sleep(60.0)

        assert 11 <= len(world.asked) <= 13
        probe = truth.last_probe
        assert probe is not None
        assert (None, (7, 8), 0.01) == (probe.problem, probe.clients, round(probe.latency_seconds or 0, 3))

    async def test_nothing_while_no_daemon_runs(self, world: World, health: Health, truth: Truth) -> None:
        """Nobody is asked, and what was known is forgotten."""
        async with running(health):
            await until(lambda: truth.is_up)
            world.state = State.BACKING_OFF
            await asyncio.sleep(1.0)
            before = len(world.asked)
            await asyncio.sleep(60.0)

        assert (before, None) == (len(world.asked), truth.last_probe)

    async def test_a_new_daemon_is_asked_at_once(self, world: World, health: Health, truth: Truth) -> None:
        """The answer of the one before says nothing about it."""
        async with running(health):
            await until(lambda: truth.is_up)
            world.begin_another_run()
            world.answer_seconds = 2.0
            await asyncio.sleep(1.0)
            before = truth.last_probe
            await until(lambda: truth.last_probe is not None)

        assert before is None
        assert now() < 5.0

    async def test_an_answer_of_the_former_daemon_is_dropped(self, world: World, health: Health, truth: Truth) -> None:
        """A daemon that was replaced while it was asked fails for nobody."""
        world.answer_seconds = 3.5
        async with running(health):
            await asyncio.sleep(1.0)
            world.begin_another_run()
            world.answer_seconds = 0.01
            await asyncio.sleep(10.0)

        probe = truth.last_probe
        assert probe is not None
        assert (None, []) == (probe.problem, world.restarts)


class TestFaults:
    @pytest.mark.parametrize(
        ("change", "problem", "cause", "graceful"),
        [
            pytest.param({"answer_seconds": 3.1}, Problem.NO_ANSWER, Cause.NO_ANSWER, False, id="slow or silent"),
            pytest.param(
                {"error": Refused("client list", 1, "busy")}, Problem.ERROR_ANSWER, Cause.ERROR_ANSWER, True, id="error"
            ),
            pytest.param({"has_socket": False}, Problem.SOCKET_MISSING, Cause.SOCKET_MISSING, True, id="no socket"),
        ],
    )
    async def test_not_ready_at_once_and_restarted_after_three(
        self,
        world: World,
        health: Health,
        truth: Truth,
        change: dict[str, object],
        problem: Problem,
        cause: Cause,
        graceful: bool,  # noqa: FBT001  a row of the table
    ) -> None:
        """One failed check is told; so many in a row have the daemon replaced, gently if it still answers."""
        async with running(health):
            await until(lambda: truth.is_up)
            for name, value in change.items():
                setattr(world, name, value)
            await until(lambda: not truth.readiness().ready)
            told = truth.last_probe
            early = list(world.restarts)
            await until(lambda: bool(world.restarts))

        assert told is not None
        assert (problem, []) == (told.problem, early)
        assert (cause, graceful) == world.restarts[0]

    async def test_a_stopped_daemon_is_told_within_ten_seconds(
        self, world: World, health: Health, truth: Truth
    ) -> None:
        """Interval, glance and deadline together stay below what is promised."""
        async with running(health):
            await until(lambda: truth.is_up)
            world.answer_seconds = 1e9
            begun = now()
            told = await until(lambda: not truth.readiness().ready)

        assert told - begun < 10.0

    async def test_failures_come_at_the_interval(self, world: World, health: Health, truth: Truth) -> None:
        """Three answers in a row are not three moments: a restart takes twice the interval from the first failure."""
        async with running(health):
            await until(lambda: truth.is_up)
            world.error = Refused("client list", 1, "busy")
            begun = await until(lambda: not truth.readiness().ready)
            ended = await until(lambda: bool(world.restarts))

        assert 10.0 <= ended - begun < 11.5

    async def test_what_failed_before_does_not_choose_the_remedy(
        self, world: World, health: Health, truth: Truth
    ) -> None:
        """Two looks at a changed configuration and one slow answer kill nobody."""
        async with running(health):
            await until(lambda: truth.is_up)
            world.difference = "was changed since the control daemon started"
            await until(lambda: not truth.readiness().ready)
            await asyncio.sleep(6.0)
            world.difference, world.answer_seconds = "", 3.1
            await until(lambda: "did not answer" in truth.readiness().reason)
            world.answer_seconds = 0.01
            await until(lambda: truth.readiness().ready)

        assert ([], 0) == (world.restarts, world.restored)

    async def test_failures_in_turn_add_up(self, world: World, health: Health, truth: Truth) -> None:
        """A daemon that is now slow, now wrong is replaced once it was either three times."""
        async with running(health):
            await until(lambda: truth.is_up)
            world.error = Refused("client list", 1, "busy")
            while not world.restarts:
                asked = len(world.asked)
                await until(lambda count=asked: len(world.asked) > count)  # type: ignore[misc]
                world.answer_seconds = 3.1 if world.answer_seconds < 3 else 0.01

        assert len(world.asked) <= 8

    async def test_two_failures_and_an_answer_restart_nothing(
        self, world: World, health: Health, truth: Truth, registry: CollectorRegistry
    ) -> None:
        """Only failures in a row count."""
        async with running(health):
            for _ in range(4):
                world.error = Refused("client list", 1, "busy")
                failures = registry.get_sample_value(f"{PREFIX}_check_failures_total", {"problem": "error_answer"}) or 0

                def has_failed_twice(since: float = failures) -> bool:
                    count = registry.get_sample_value(f"{PREFIX}_check_failures_total", {"problem": "error_answer"})
                    return (count or 0) >= since + 2

                await until(has_failed_twice)
                world.error = None
                await until(lambda: truth.readiness().ready)

        assert [] == world.restarts

    async def test_a_client_that_cannot_be_run_restarts_nothing(
        self, world: World, health: Health, truth: Truth
    ) -> None:
        """That the program is gone from the disk is told, and says nothing about the daemon."""
        async with running(health):
            await until(lambda: truth.is_up)
            world.error = NotRun("client list", "No such file or directory")
            await asyncio.sleep(60.0)

        assert ([], False) == (world.restarts, truth.readiness().ready)

    async def test_a_changed_configuration_is_written_back(self, world: World, health: Health, truth: Truth) -> None:
        """It is told first and mended after three checks; the daemon, which has the right one, goes on."""
        async with running(health):
            await until(lambda: truth.is_up)
            world.difference = "was changed since the control daemon started"
            await until(lambda: not truth.readiness().ready)
            told = truth.readiness().reason
            await until(lambda: truth.readiness().ready)

        assert told.startswith("the configuration file was changed since the control daemon started")
        assert (1, []) == (world.restored, world.restarts)

    async def test_one_that_never_was_right_is_no_proof(self, world: World, health: Health, truth: Truth) -> None:
        """What the daemon read is not known then: it is told to quit and started with ours, and nothing is mended."""
        world.difference = "was changed since the control daemon started"
        async with running(health):
            await until(lambda: bool(world.restarts))
            ready = truth.readiness().ready

        assert ([(Cause.CONFIG_CHANGED, True)], 0, False) == (world.restarts, world.restored, ready)

    async def test_one_that_cannot_be_written_back_stays_told(self, world: World, health: Health, truth: Truth) -> None:
        """A read-only disk ends neither the checks nor the daemon."""
        world.restore_error = FileUnavailable("write", "/c.toml", "Read-only file system")
        async with running(health):
            await until(lambda: truth.is_up)
            world.difference = "is gone"
            await asyncio.sleep(60.0)

        assert ([], False) == (world.restarts, truth.readiness().ready)

    async def test_a_daemon_that_ended_meanwhile_needs_no_restart(self, world: World, health: Health) -> None:
        """A refusal to restart what does not run ends nothing."""
        world.has_socket, world.restart_error = False, NotRunning(State.BACKING_OFF, "")
        async with running(health):
            await asyncio.sleep(START_GRACE_SECONDS + 5.0)

        assert world.restarts


class TestStarting:
    async def test_a_socket_that_is_not_there_yet_is_no_fault(self, world: World, health: Health, truth: Truth) -> None:
        """For a moment after a start the daemon may take to make it."""
        world.has_socket = False
        async with running(health):
            await asyncio.sleep(START_GRACE_SECONDS - 0.5)
            before = truth.readiness()
            world.has_socket = True
            ready = await until(lambda: truth.readiness().ready)

        assert (False, []) == (before.ready, world.restarts)
        assert "has not answered yet" in before.reason
        assert ready < START_GRACE_SECONDS - 0.2

    async def test_one_that_never_comes_is(self, world: World, health: Health) -> None:
        """After that moment its absence counts."""
        world.has_socket = False
        async with running(health):
            first = await until(lambda: bool(world.restarts))

        assert START_GRACE_SECONDS < first < START_GRACE_SECONDS + 5.0

    async def test_one_that_went_unseen_is(self, world: World, health: Health, truth: Truth) -> None:
        """What the daemon has made and is not there is gone, however young the daemon is."""
        world.has_socket, world.has_opened = False, True
        async with running(health):
            first = await until(lambda: bool(world.restarts))
            said = truth.readiness().reason

        assert first < 2.0
        assert said.startswith("the control socket is gone")
        assert (Cause.SOCKET_MISSING, True) == world.restarts[0]

    async def test_one_that_was_there_has_no_such_moment(self, world: World, health: Health, truth: Truth) -> None:
        """A socket that goes right after the start is gone."""
        async with running(health):
            await until(lambda: truth.is_up)
            world.has_socket = False
            told = await until(lambda: not truth.readiness().ready)

        assert told < 1.5


class TestASocketOfSomebodyElse:
    async def test_in_place_of_ours(self, world: World, health: Health, truth: Truth) -> None:
        """One that took the place of the first is told, and our daemon is replaced."""
        async with running(health):
            await until(lambda: truth.is_up)
            world.identity = Identity(1, 1, 2)
            told = await until(lambda: not truth.readiness().ready)
            said = truth.readiness().reason
            await until(lambda: bool(world.restarts))

        assert told < 1.0
        assert said.startswith("the control socket is not the one that our daemon made")
        assert (Cause.SOCKET_MISSING, True) == world.restarts[0]

    async def test_from_the_beginning(self, world: World, health: Health, truth: Truth) -> None:
        """While another daemon is on the directory, nobody knows whose socket it is."""
        world.others = (4711,)
        async with running(health):
            await until(lambda: bool(world.restarts))
            said = truth.readiness().reason

        assert said.startswith("the control socket may be that of another control daemon, pid 4711")
        assert [] == world.asked

    async def test_of_the_next_daemon(self, world: World, health: Health, truth: Truth) -> None:
        """Each run has a socket of its own."""
        async with running(health):
            await until(lambda: truth.is_up)
            world.begin_another_run()
            world.identity = Identity(1, 1, 2)
            await asyncio.sleep(60.0)

        assert ([], True) == (world.restarts, truth.readiness().ready)


class TestASocketThatIsDeletedAgainAndAgain:
    async def test_is_not_ready_in_between(self, world: World, health: Health, truth: Truth) -> None:
        """Restarts bring it back each time, for half a second, which is not ready."""
        seen: set[bool] = set()
        async with running(health):
            await until(lambda: truth.is_up)
            world.has_socket = False
            await until(lambda: not truth.readiness().ready)
            for _ in range(20):
                world.begin_another_run()
                world.has_socket = True
                for _ in range(49):
                    await asyncio.sleep(0.01)
                    seen.add(truth.readiness().ready)
                world.has_socket = False
                await asyncio.sleep(0.6)
            world.begin_another_run()
            world.has_socket = True
            begun = now()
            ready = await until(lambda: truth.readiness().ready)

        assert {False} == seen
        assert ready - begun < 10.0


class TestMetrics:
    async def test_latency_is_observed(self, health: Health, registry: CollectorRegistry, truth: Truth) -> None:
        """Each answer's time is on the page."""
        async with running(health):
            await until(lambda: truth.is_up)

        assert 1.0 == registry.get_sample_value(f"{PREFIX}_command_seconds_count")
