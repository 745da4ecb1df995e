from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest
import pytest_asyncio
from fractioning_core.errors import FractioningError
from fractioning_core.kube.election import LEASE_SECONDS, RENEW_SECONDS, RETRY_SECONDS, WRITE_SECONDS, Election
from fractioning_core.kube.errors import ApiUnreachable, Forbidden, LeaseLost
from fractioning_core.kube.lease import LEASES, Pod
from fractioning_core.kube.transport import DEADLINE_SECONDS, Request
from fractioning_core.testing.cluster import FakeCluster

pytestmark = pytest.mark.looptime

LEASES_HERE = LEASES.within("ns")
PATH = LEASES_HERE.item_path("controller")
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
GONE = ApiUnreachable("https://10.96.0.1:443", "Connect call failed")


def now() -> float:
    return asyncio.get_running_loop().time()


@attrs.define(eq=False)
class Line:
    """
    One candidate's way to the cluster, which may be slow or broken while those of the others are not.
    """

    cluster: FakeCluster
    error: FractioningError | None = None
    delay_seconds: float = 0.0
    loses_answers: bool = False
    """
    Whether what is asked is done, and the answer gets lost.
    """

    async def ask(self, request: Request) -> Mapping[str, Any]:
        """
        Pass a request on.
        """
        await asyncio.sleep(self.delay_seconds)
        if self.error:
            raise self.error
        answer = await self.cluster.ask(request)
        if self.loses_answers:
            await asyncio.sleep(3600)
        return answer


@attrs.define(eq=False)
class Candidate:
    """
    An election that runs, and what became of it.
    """

    election: Election
    line: Line
    changes: list[float]
    task: asyncio.Task[None]

    async def leave(self) -> None:
        """
        End it in order.
        """
        self.task.cancel()
        await asyncio.wait([self.task])
        await self.election.__aexit__(None, None, None)

    @property
    def lost(self) -> str | None:
        """
        Why it gave up; None while it has not.
        """
        error = self.task.exception() if self.task.done() and not self.task.cancelled() else None
        return error.cause if isinstance(error, LeaseLost) else None


@attrs.define
class Scene:
    """
    A cluster and candidates for one lease in it.
    """

    cluster: FakeCluster = attrs.field(factory=FakeCluster)
    _candidates: list[Candidate] = attrs.field(factory=list)

    def candidate(self, identity: str, *, clock_ahead: timedelta = timedelta(0), pod: Pod | None = None) -> Candidate:
        """
        Let one more stand.
        """
        line, changes = Line(self.cluster), list[float]()
        election = Election(
            line,
            namespace="ns",
            name="controller",
            identity=identity,
            changed=lambda: changes.append(now()),
            utcnow=lambda: EPOCH + clock_ahead + timedelta(seconds=now()),
            pod=pod,
        )
        candidate = Candidate(election, line, changes, asyncio.create_task(election.run()))
        self._candidates.append(candidate)
        return candidate

    @property
    def leaders(self) -> list[str]:
        """
        Name those who believe that they lead.
        """
        return [each.election.identity for each in self._candidates if each.election.is_leader]

    @property
    def manifest(self) -> Mapping[str, Any]:
        """
        The Lease.
        """
        lease = self.cluster.get(LEASES_HERE, "controller")
        assert lease is not None
        return lease

    @property
    def record(self) -> Mapping[str, Any]:
        """
        What the Lease says.
        """
        spec: Mapping[str, Any] = self.manifest["spec"]
        return spec

    async def end(self) -> None:
        """
        End them all.
        """
        for candidate in self._candidates:
            candidate.task.cancel()
            await asyncio.wait([candidate.task])


@pytest_asyncio.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    await scene.end()


class TestSpans:
    """
    The figures.
    """

    def test_no_overlap(self) -> None:
        """
        A write that begins as late as it may has ended before the lease has.
        """
        assert WRITE_SECONDS + DEADLINE_SECONDS < LEASE_SECONDS

    def test_slow_server(self) -> None:
        """
        Two renewals that take as long as a request may are possible before a leader gives up, which is soon enough.
        """
        assert 2 * DEADLINE_SECONDS <= RENEW_SECONDS < LEASE_SECONDS - RETRY_SECONDS


class TestTaking:
    """
    Who becomes the leader.
    """

    async def test_first(self, scene: Scene) -> None:
        """
        The first candidate makes the Lease and leads at once.
        """
        first = scene.candidate("first")
        await asyncio.sleep(1)

        assert (True, True, "first", 1) == (
            first.election.is_leader,
            first.election.may_write(),
            first.election.holder,
            len(first.changes),
        )
        assert {
            "holderIdentity": "first",
            "leaseDurationSeconds": 30,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:00.000000Z",
            "leaseTransitions": 0,
        } == scene.record

    async def test_second(self, scene: Scene) -> None:
        """
        While one leads and renews, another waits, for however long.
        """
        scene.candidate("first")
        await asyncio.sleep(1)
        second = scene.candidate("second")
        await asyncio.sleep(600)

        assert (["first"], "first", False) == (scene.leaders, second.election.holder, second.election.may_write())

    async def test_at_once(self, scene: Scene) -> None:
        """
        Of two who want it at the same moment, one gets it.
        """
        for name in ("first", "second", "third"):
            scene.candidate(name)
        await asyncio.sleep(60)

        assert 1 == len(scene.leaders)

    async def test_takeover(self, scene: Scene) -> None:
        """
        Of a leader that is gone without a word, the lease is over after 30 s, and one takeover is counted.
        """
        first = scene.candidate("first")
        await asyncio.sleep(1)
        scene.candidate("second")
        await asyncio.sleep(1)
        first.task.cancel()
        await asyncio.sleep(29)
        early = scene.record["holderIdentity"]
        await asyncio.sleep(4)

        assert ("first", "second", 1) == (early, scene.record["holderIdentity"], scene.record["leaseTransitions"])

    @pytest.mark.parametrize("minutes", [pytest.param(10, id="ahead"), pytest.param(-10, id="behind")])
    async def test_wall_clock(self, scene: Scene, minutes: int) -> None:
        """
        A candidate whose wall clock is wrong does not take a live lease.
        """
        scene.candidate("first")
        await asyncio.sleep(1)
        scene.candidate("second", clock_ahead=timedelta(minutes=minutes))
        await asyncio.sleep(120)

        assert ["first"] == scene.leaders

    async def test_same_pod(self, scene: Scene) -> None:
        """
        A process that follows another of the same name leads at once.
        """
        first = scene.candidate("pod")
        await asyncio.sleep(1)
        first.task.cancel()
        second = scene.candidate("pod")
        await asyncio.sleep(0.1)

        assert (True, 0) == (second.election.is_leader, scene.record["leaseTransitions"])

    async def test_no_right(self, scene: Scene) -> None:
        """
        A candidate that may not read the Lease says so, and leads once it may.
        """
        first = scene.candidate("first")
        first.line.error = Forbidden(f"GET {PATH}", 403, "no right")
        await asyncio.sleep(10)
        during = first.election.problem
        first.line.error = None
        await asyncio.sleep(2)

        assert (f"GET {PATH}: 403 from the API server: no right", "", True) == (
            during,
            first.election.problem,
            first.election.is_leader,
        )
        assert 3 == len(first.changes)

    async def test_gone_with_a_pod(self, scene: Scene) -> None:
        """
        A lease that was given back, and goes with its holder's pod while it is being taken, is made anew in silence.
        """
        first = scene.candidate("first")
        await asyncio.sleep(1)
        second = scene.candidate("second")
        await asyncio.sleep(1.5)
        second.line.delay_seconds = 1.0
        await first.leave()
        # Between the answer that it is free and the request that takes it.
        await asyncio.sleep(1.8)
        scene.cluster.remove(LEASES_HERE, "controller")
        await asyncio.sleep(6)

        assert (["second"], "second", 1) == (scene.leaders, scene.record["holderIdentity"], len(second.changes))


class TestKeeping:
    """
    What a leader does with its lease.
    """

    async def test_pod(self, scene: Scene) -> None:
        """
        The lease is owned by the leader's pod, from its first moment through renewals until it is given back.
        """
        first = scene.candidate("first", pod=Pod("first", "uid"))
        owners = []
        for _ in range(3):
            await asyncio.sleep(3)
            owners.append(scene.manifest["metadata"]["ownerReferences"])
        await first.leave()
        owners.append(scene.manifest["metadata"]["ownerReferences"])

        assert [[{"apiVersion": "v1", "kind": "Pod", "name": "first", "uid": "uid"}]] * 4 == owners

    async def test_renewed(self, scene: Scene) -> None:
        """
        It renews every two seconds by one request, keeps the time since when it leads, and may write all the time.
        """
        first = scene.candidate("first")
        await asyncio.sleep(1)
        asked = len(scene.cluster.asked)
        may = []
        for _ in range(100):
            await asyncio.sleep(0.2)
            may.append(first.election.may_write())

        assert (10, {True}) == (len(scene.cluster.asked) - asked, set(may))
        assert ("2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:20.000000Z") == (
            scene.record["acquireTime"],
            scene.record["renewTime"],
        )

    async def test_unreachable(self, scene: Scene) -> None:
        """
        A leader that cannot renew stops writing first, gives up next, and both before another leads.
        """
        first = scene.candidate("first")
        await asyncio.sleep(1)
        second = scene.candidate("second")
        # The last renewal is sent now, at 2 s.
        await asyncio.sleep(1.5)
        first.line.error = GONE
        moments: dict[str, float] = {}
        for step in range(400):
            await asyncio.sleep(0.1)
            for what, has_come in (
                ("no writes", not first.election.may_write()),
                ("gave up", first.task.done()),
                ("other leads", second.election.is_leader),
            ):
                if has_come:
                    moments.setdefault(what, 2.5 + 0.1 * (step + 1))

        assert {
            "no writes": 2 + WRITE_SECONDS,
            "gave up": 2 + RENEW_SECONDS,
        } == pytest.approx({name: moments[name] for name in ("no writes", "gave up")}, abs=0.11)
        assert moments["other leads"] >= 2 + LEASE_SECONDS
        assert f"not renewed for 24 s: {GONE}" == first.lost

    async def test_healed(self, scene: Scene) -> None:
        """
        An outage shorter than that ends nothing.
        """
        first = scene.candidate("first")
        await asyncio.sleep(1)
        first.line.error = GONE
        await asyncio.sleep(15)
        first.line.error = None
        await asyncio.sleep(2)

        assert (True, "", True) == (first.election.may_write(), first.election.problem, first.election.is_leader)

    async def test_slow(self, scene: Scene) -> None:
        """
        A leader whose every call takes 5 s goes on leading, and may write all the time.
        """
        first = scene.candidate("first")
        await asyncio.sleep(1)
        second = scene.candidate("second")
        first.line.delay_seconds = second.line.delay_seconds = 5.0
        may = []
        for _ in range(600):
            await asyncio.sleep(0.2)
            may.append(first.election.may_write())

        assert ({True}, ["first"]) == (set(may), scene.leaders)

    async def test_slow_from_the_start(self, scene: Scene) -> None:
        """
        Where every call takes 5 s, a candidate leads after two of them.
        """
        first = scene.candidate("first")
        first.line.delay_seconds = 5.0
        await asyncio.sleep(10.1)

        assert (True, "") == (first.election.may_write(), first.election.problem)

    async def test_too_slow(self, scene: Scene) -> None:
        """
        A leader whose every call takes 12 s gives up, and never may write when another leads.
        """
        first = scene.candidate("first")
        await asyncio.sleep(1)
        second = scene.candidate("second")
        await asyncio.sleep(1)
        first.line.delay_seconds = 12.0
        for _ in range(400):
            await asyncio.sleep(0.1)
            assert not (first.election.may_write() and second.election.is_leader)

        assert (["second"], f"not renewed for 24 s: no answer from the API server {PATH}: nothing within 10 s") == (
            scene.leaders,
            first.lost,
        )

    async def test_hanging(self, scene: Scene) -> None:
        """
        A renewal that hangs does not put off the moment at which a leader gives up.
        """
        first = scene.candidate("first")
        await asyncio.sleep(1)
        first.line.delay_seconds = 9.0
        first.line.error = GONE
        await asyncio.sleep(23.1)

        assert f"not renewed for 24 s: {GONE}" == first.lost

    async def test_lost_answers(self, scene: Scene) -> None:
        """
        A renewal that was made though its answer got lost is found to be ours, and the leader goes on.
        """
        first = scene.candidate("first")
        await asyncio.sleep(1)
        first.line.loses_answers = True
        await asyncio.sleep(4)
        first.line.loses_answers = False
        await asyncio.sleep(4)

        assert (True, 0) == (first.election.may_write(), scene.record["leaseTransitions"])

    async def test_taken_away(self, scene: Scene) -> None:
        """
        A leader that finds another's name in the Lease gives up.
        """
        first = scene.candidate("first")
        await asyncio.sleep(1)
        scene.cluster.put(LEASES_HERE, {"metadata": {"name": "controller"}, "spec": {"holderIdentity": "intruder"}})
        await asyncio.sleep(2)

        assert ("intruder has it", False, False) == (
            first.lost,
            first.election.may_write(),
            first.election.is_leader,
        )

    async def test_deleted(self, scene: Scene) -> None:
        """
        A Lease that somebody deletes is made again by the leader.
        """
        scene.candidate("first")
        await asyncio.sleep(1)
        scene.cluster.remove(LEASES_HERE, "controller")
        await asyncio.sleep(2)

        assert (["first"], "first") == (scene.leaders, scene.record["holderIdentity"])

    @pytest.mark.parametrize("seconds", [0.1, 0.5, 0.9, 1.3, 1.7])
    async def test_deleted_with_a_standby(self, scene: Scene, seconds: float) -> None:
        """
        Whenever a Lease is deleted, one that stood by leaves its making to the leader, which may not know yet.
        """
        first = scene.candidate("first")
        await asyncio.sleep(1.2)
        second = scene.candidate("second")
        await asyncio.sleep(9 + seconds)
        scene.cluster.remove(LEASES_HERE, "controller")
        await asyncio.sleep(10)

        assert ["first"] == scene.leaders
        assert (True, False) == (first.election.may_write(), second.election.may_write())

    async def test_deleted_after_its_leader(self, scene: Scene) -> None:
        """
        When a Lease is deleted whose leader is gone, another leads once the leader would have given up.
        """
        first = scene.candidate("first")
        await asyncio.sleep(1)
        second = scene.candidate("second")
        await asyncio.sleep(1)
        first.task.cancel()
        scene.cluster.remove(LEASES_HERE, "controller")
        await asyncio.sleep(LEASE_SECONDS - 1)
        early = second.election.is_leader
        await asyncio.sleep(5)

        assert (False, ["second"]) == (early, [name for name in scene.leaders if name != "first"])


class TestLeaving:
    """
    The end of a candidate.
    """

    async def test_released(self, scene: Scene) -> None:
        """
        A leader that leaves in order gives the lease back, and the next leads within 3 s.
        """
        first = scene.candidate("first")
        await asyncio.sleep(1)
        scene.candidate("second")
        await asyncio.sleep(1)
        await first.leave()
        released = dict(scene.record)
        await asyncio.sleep(2.5)

        assert ("", 1) == (released["holderIdentity"], released["leaseDurationSeconds"])
        assert (["second"], 1) == (scene.leaders, scene.record["leaseTransitions"])
        assert not first.election.may_write()

    async def test_broken_off_renewal(self, scene: Scene) -> None:
        """
        A renewal that was made after we stopped waiting for it does not keep the lease from being given back.
        """
        first = scene.candidate("first")
        await asyncio.sleep(1)
        first.line.loses_answers = True
        await asyncio.sleep(1.5)
        first.line.loses_answers = False
        await first.leave()

        assert "" == scene.record["holderIdentity"]

    async def test_standby(self, scene: Scene) -> None:
        """
        A candidate that does not lead leaves the Lease alone.
        """
        scene.candidate("first")
        await asyncio.sleep(1)
        second = scene.candidate("second")
        await asyncio.sleep(1)
        await second.leave()

        assert "first" == scene.record["holderIdentity"]

    async def test_server_gone(self, scene: Scene) -> None:
        """
        A server that does not answer does not hold up the end.
        """
        first = scene.candidate("first")
        await asyncio.sleep(1)
        first.line.delay_seconds = 3600.0
        started = now()
        await first.leave()

        assert now() - started <= 2.0

    async def test_lost(self, scene: Scene) -> None:
        """
        A leader that gave up does not give the lease back: a slow server may still have a write of it.
        """
        first = scene.candidate("first")
        await asyncio.sleep(1)
        first.line.error = GONE
        await asyncio.sleep(26)
        first.line.error = None
        await first.leave()

        assert ("first", True) == (scene.record["holderIdentity"], first.lost is not None)
