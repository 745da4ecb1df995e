from __future__ import annotations

import asyncio
from collections.abc import Mapping

import attrs
import pytest
from fractioning_core.rpc.errors import ClientStuck, DaemonUnavailable, NoSuchClient, NothingToRestart
from fractioning_core.rpc.mpsvalues import (
    ConfigurationStatus,
    DaemonStatus,
    DriverStatus,
    LabelStatus,
    MpsStatus,
    ProbeStatus,
    RestartKind,
)
from fractioning_core.service.http import Readiness
from mpsd.causes import NotRunning
from mpsd.control import NoAnswer, Refused
from mpsd.driverstate import DriverProblem, DriverState, LabelProblem
from mpsd.lifecycle import State
from mpsd.rpc import MpsService, Sources
from mpsd.truth import Probe, Problem

CONFIGURATION = ConfigurationStatus("/etc/mps.toml", "[servers.shared]\n")


@attrs.define
class FakeSupervisor:
    """
    Runs nothing, and keeps what it was asked.
    """

    state: State = State.RUNNING
    reason: str = ""
    pid: int | None = 42
    uptime_seconds: float = 9.0
    restarts: Mapping[str, int] = attrs.field(factory=lambda: {"crashed": 2})
    asked: list[tuple[str, bool]] = attrs.field(factory=list)

    async def restart(self, reason: str, graceful: bool) -> None:  # noqa: FBT001  as the supervisor has it
        """
        Note the call, or refuse it as the supervisor does.
        """
        if self.state is not State.RUNNING:
            raise NotRunning(self.state, self.reason)
        self.asked.append((reason, graceful))


@attrs.define
class FakeControl:
    """
    A control daemon with clients; terminating one takes until `work` is set.
    """

    clients: list[int] = attrs.field(factory=lambda: [7, 12])
    error: Exception | None = None
    leaves_on_error: bool = False
    work: asyncio.Event = attrs.field(factory=asyncio.Event)
    terminations: int = 0

    async def list_clients(self, deadline_seconds: float) -> tuple[int, ...]:
        """
        List them.
        """
        return tuple(self.clients)

    async def terminate(self, pid: int, deadline_seconds: float) -> None:
        """
        Take one off.
        """
        self.terminations += 1
        await self.work.wait()
        if self.error is None or self.leaves_on_error:
            self.clients.remove(pid)
        if self.error is not None:
            raise self.error


@attrs.define
class FakeTruth:
    """
    Says what it is told to.
    """

    last_probe: Probe | None = None
    answer: Readiness = attrs.field(factory=lambda: Readiness(ready=True))

    def readiness(self) -> Readiness:
        """
        Say it.
        """
        return self.answer


@attrs.define
class Scene:
    """
    A service and what is behind it, at loop time 100.
    """

    supervisor: FakeSupervisor = attrs.field(factory=FakeSupervisor)
    control: FakeControl = attrs.field(factory=FakeControl)
    truth: FakeTruth = attrs.field(factory=FakeTruth)
    driver: DriverState = attrs.field(factory=lambda: DriverState(lambda: 100.0))

    @property
    def service(self) -> MpsService:
        """
        The service.
        """
        sources = Sources(
            version="0.1.0",
            supervised=self.supervisor,
            told=self.truth,
            driver=self.driver,
            configuration=lambda: CONFIGURATION,
            clock=lambda: 100.0,
        )
        return MpsService(sources, commands=self.control)


@pytest.fixture
async def scene() -> Scene:
    """
    A daemon that runs, with two clients whose work is done.
    """
    made = Scene()
    made.control.work.set()
    return made


class TestStatus:
    async def test_all_is_well(self, scene: Scene) -> None:
        """
        What the parts know stands in one value, with ages instead of times.
        """
        scene.driver.learn("615.43.02", 615)
        scene.driver.labelled("615", "615.43.02")
        scene.truth.last_probe = Probe(98.5, latency_seconds=0.003, clients=(7, 12))

        assert scene.service.status() == MpsStatus(
            version="0.1.0",
            ready=True,
            reason="",
            daemon=DaemonStatus("running", "", 42, 9.0, {"crashed": 2}),
            configuration=CONFIGURATION,
            probe=ProbeStatus(1.5, latency_seconds=0.003, clients=(7, 12)),
            driver=DriverStatus("615.43.02", 615),
            label=LabelStatus("615", 0.0),
        )

    async def test_nothing_is_well(self, scene: Scene) -> None:
        """
        Problems are told by word and by reason.
        """
        scene.supervisor.state, scene.supervisor.reason, scene.supervisor.pid = State.HELD, "driver r580", None
        scene.truth.answer = Readiness(ready=False, reason="control daemon held: driver r580")
        scene.truth.last_probe = Probe(100.0, Problem.NO_ANSWER, "no answer within 3 s", 3.0)
        scene.driver.doubt(DriverProblem.FAILED, "NVML Init: UNKNOWN (999)")
        scene.driver.not_labelled(LabelProblem.FORBIDDEN, "403 from the API server")
        status = scene.service.status()

        assert (status.ready, status.reason) == (False, "control daemon held: driver r580")
        assert status.daemon == DaemonStatus("held", "driver r580", None, 9.0, {"crashed": 2})
        assert status.probe == ProbeStatus(0.0, "no_answer", "no answer within 3 s", 3.0)
        assert status.driver == DriverStatus("", None, "nvml_failed", "NVML Init: UNKNOWN (999)")
        assert status.label == LabelStatus("", None, "forbidden", "403 from the API server")


class TestListClients:
    async def test_asked_now(self, scene: Scene) -> None:
        """
        The control daemon itself is asked.
        """
        assert await scene.service.list_clients() == (7, 12)

    async def test_no_daemon(self, scene: Scene) -> None:
        """
        Without a running daemon nobody is asked, and the answer says why there is none.
        """
        scene.supervisor.state, scene.supervisor.reason = State.PARKED, "/nope is not there"

        with pytest.raises(DaemonUnavailable, match=r"parked.*: /nope is not there"):
            await scene.service.list_clients()


class TestTerminateClient:
    async def test_one_attached(self, scene: Scene) -> None:
        """
        An attached client is terminated.
        """
        await scene.service.terminate_client(7, 5.0)

        assert scene.control.clients == [12]

    async def test_a_stranger(self, scene: Scene) -> None:
        """
        A process that is no client is not handed to the daemon.
        """
        with pytest.raises(NoSuchClient, match="pid 8"):
            await scene.service.terminate_client(8, 5.0)
        assert scene.control.terminations == 0

    async def test_work_that_does_not_end(self, scene: Scene) -> None:
        """
        A client whose work outlasts the deadline is told as stuck.
        """
        scene.control.error = NoAnswer("client terminate 7", 5.0)

        with pytest.raises(ClientStuck, match="within 5 s"):
            await scene.service.terminate_client(7, 5.0)

    async def test_a_refusal(self, scene: Scene) -> None:
        """
        A daemon that refuses while the client stays is told with its words.
        """
        scene.control.error = Refused("client terminate 7", 1, "busy")

        with pytest.raises(DaemonUnavailable, match="busy"):
            await scene.service.terminate_client(7, 5.0)

    async def test_one_that_leaves_by_itself(self, scene: Scene) -> None:
        """
        A client that left while it was being terminated is what was wanted.
        """
        scene.control.error, scene.control.leaves_on_error = Refused("client terminate 7", 1, "Invalid process"), True
        await scene.service.terminate_client(7, 5.0)

        assert scene.control.clients == [12]

    @pytest.mark.looptime
    async def test_two_callers(self, scene: Scene) -> None:
        """
        Of two callers for one client only the first terminates it; another client does not wait for them.
        """
        scene.control.work.clear()
        service = scene.service
        async with asyncio.TaskGroup() as group:
            first, second, other = (group.create_task(_terminate(service, pid)) for pid in (7, 7, 12))
            await asyncio.sleep(1)
            assert scene.control.terminations == 2
            scene.control.work.set()

        assert [first.result(), second.result(), other.result()] == ["done", "gone", "done"]


class TestRestart:
    @pytest.mark.parametrize(
        ("kind", "reason", "asked"),
        [
            pytest.param(RestartKind.GRACEFUL, "drained", ("drained", True), id="graceful"),
            pytest.param(RestartKind.HARD, "", ("asked for over mps.v1", False), id="hard, no reason given"),
        ],
    )
    async def test_a_running_daemon(
        self, scene: Scene, kind: RestartKind, reason: str, asked: tuple[str, bool]
    ) -> None:
        """
        The supervisor is told kind and reason.
        """
        await scene.service.restart(kind, reason)

        assert scene.supervisor.asked == [asked]

    async def test_no_daemon(self, scene: Scene) -> None:
        """
        Without a running daemon there is nothing to restart.
        """
        scene.supervisor.state = State.BACKING_OFF

        with pytest.raises(NothingToRestart, match="backing-off"):
            await scene.service.restart(RestartKind.HARD, "")


async def _terminate(service: MpsService, pid: int) -> str:
    try:
        await service.terminate_client(pid, 5.0)
    except NoSuchClient:
        return "gone"
    return "done"
