from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import attrs
import pytest
import pytest_asyncio
from fractioning_core.errors import FractioningError
from fractioning_core.kube.errors import ApiOverloaded, ApiRejection, ApiUnreachable, Forbidden
from fractioning_core.kube.eventbook import EVENTS, QUEUE_LIMIT, ObjectReference
from fractioning_core.kube.events import WARNING, Recorder
from fractioning_core.testing.cluster import FakeCluster

pytestmark = pytest.mark.looptime

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
CONFIG = ObjectReference("example.test/v1", "Config", "default", uid="u")
REQUEST = "POST /api/v1/namespaces/default/events"


@attrs.define
class Scene:
    """
    A cluster, and a recorder that runs.
    """

    cluster: FakeCluster
    recorder: Recorder
    problems: list[str]
    """What the recorder called its problem, each time that it changed."""

    def emit(self, message: str) -> None:
        """
        Emit something.
        """
        self.recorder.emit(CONFIG, WARNING, "Broken", message)

    @property
    def events(self) -> list[tuple[str, int, str]]:
        """
        What people see: the message, how often, and when last.
        """
        return [(event["message"], event["count"], event["lastTimestamp"]) for event in self.cluster.all(EVENTS)]


@pytest_asyncio.fixture
async def scene() -> AsyncIterator[Scene]:
    cluster = FakeCluster()
    loop = asyncio.get_running_loop()
    problems: list[str] = []
    recorder = Recorder(
        cluster,
        component="tests",
        changed=lambda: problems.append(recorder.problem),
        utcnow=lambda: EPOCH + timedelta(seconds=loop.time()),
    )
    task = asyncio.create_task(recorder.run())
    yield Scene(cluster, recorder, problems)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


class TestTelling:
    """
    What people see.
    """

    async def test_one(self, scene: Scene) -> None:
        """
        What is emitted becomes an event, without the emitter waiting.
        """
        scene.emit("a")
        before = scene.events
        await asyncio.sleep(1)

        assert ([], [("a", 1, "2026-01-01T00:00:00Z")]) == (before, scene.events)

    async def test_again(self, scene: Scene) -> None:
        """
        The same within ten minutes is counted at the same event, whatever came between.
        """
        for message in ("a", "b", "a"):
            scene.emit(message)
            await asyncio.sleep(60)

        assert [("a", 2, "2026-01-01T00:02:00Z"), ("b", 1, "2026-01-01T00:01:00Z")] == scene.events

    async def test_burst(self, scene: Scene) -> None:
        """
        The same many times at once is one request.
        """
        for _ in range(1000):
            scene.emit("a")
        await asyncio.sleep(1)

        assert (1, [("a", 1000, "2026-01-01T00:00:00Z")]) == (len(scene.cluster.asked), scene.events)

    async def test_much_later(self, scene: Scene) -> None:
        """
        The same after ten minutes is another event.
        """
        scene.emit("a")
        await asyncio.sleep(600)
        scene.emit("a")
        await asyncio.sleep(1)

        assert [("a", 1, "2026-01-01T00:00:00Z"), ("a", 1, "2026-01-01T00:10:00Z")] == scene.events

    async def test_expired(self, scene: Scene) -> None:
        """
        An event that the server has forgotten is told anew.
        """
        scene.emit("a")
        await asyncio.sleep(60)
        (event,) = scene.cluster.all(EVENTS)
        scene.cluster.remove(EVENTS.within("default"), event["metadata"]["name"])
        scene.emit("a")
        await asyncio.sleep(1)

        assert [("a", 1, "2026-01-01T00:01:00Z")] == scene.events


class TestTrouble:
    """
    What happens when it cannot be told.
    """

    @pytest.mark.parametrize(
        "error",
        [
            pytest.param(ApiUnreachable("https://10.96.0.1:443", "Connect call failed"), id="nobody there"),
            pytest.param(Forbidden(REQUEST, 403, "no right"), id="forbidden"),
            pytest.param(ApiOverloaded(REQUEST, 429, "slow", 20.0), id="overloaded"),
        ],
    )
    async def test_outage(self, scene: Scene, error: FractioningError) -> None:
        """
        What cannot be told now is told later, in order, and is not asked for in a loop.
        """
        scene.cluster.refuse = lambda _: error
        scene.emit("a")
        await asyncio.sleep(60)
        scene.emit("b")
        scene.emit("a")
        asked = len(scene.cluster.asked)
        scene.cluster.refuse = lambda _: None
        await asyncio.sleep(40)

        assert [("a", 2, "2026-01-01T00:01:00Z"), ("b", 1, "2026-01-01T00:01:00Z")] == scene.events
        assert (0, True) == (scene.recorder.dropped, asked < 10)

    async def test_problem(self, scene: Scene) -> None:
        """
        Why nothing can be told is known once for an outage, and so is its end.
        """
        error = Forbidden(REQUEST, 403, "no right")
        scene.cluster.refuse = lambda _: error
        scene.emit("a")
        await asyncio.sleep(60)
        scene.cluster.refuse = lambda _: None
        await asyncio.sleep(40)

        assert [str(error), ""] == scene.problems

    async def test_rejected(self, scene: Scene) -> None:
        """
        What the server will never take is dropped and counted, and the next is told.
        """
        scene.cluster.refuse = lambda _: ApiRejection(REQUEST, 422, "invalid")
        scene.emit("a")
        await asyncio.sleep(1)
        scene.cluster.refuse = lambda _: None
        scene.emit("b")
        await asyncio.sleep(1)

        assert (1, [("b", 1, "2026-01-01T00:00:01Z")]) == (scene.recorder.dropped, scene.events)

    async def test_bound(self, scene: Scene) -> None:
        """
        During a long outage only the newest wait.
        """
        scene.cluster.refuse = lambda _: ApiUnreachable("https://10.96.0.1:443", "Connect call failed")
        for number in range(QUEUE_LIMIT + 50):
            scene.emit(str(number))
        await asyncio.sleep(60)
        scene.cluster.refuse = lambda _: None
        await asyncio.sleep(60)

        assert (50, QUEUE_LIMIT, "50") == (scene.recorder.dropped, len(scene.events), scene.events[0][0])
