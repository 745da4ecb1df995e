from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import attrs
import pytest
import pytest_asyncio
from fractioning_core.errors import FractioningError
from fractioning_core.kube.collections import Collection, Key
from fractioning_core.kube.errors import ApiOverloaded, ApiRejection, ApiUnreachable, BadAnswer, Expired, Forbidden
from fractioning_core.kube.mirror import Mirror
from fractioning_core.kube.transport import Request
from fractioning_core.testing.cluster import FakeCluster

pytestmark = pytest.mark.looptime

NODES = Collection("", "v1", "nodes")
GONE = ApiUnreachable("https://10.96.0.1:443", "Connect call failed")
FORBIDDEN = Forbidden("GET /api/v1/nodes", 403, "nodes is forbidden")
# Longer than any wait of a mirror that nothing has gone wrong with.
MOMENT = 1.0


def color(manifest: Mapping[str, Any]) -> str | None:
    value: str | None = manifest.get("color")
    return value


def node(name: str, value: str | None = None, **labels: str) -> Mapping[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "color": value}


def now() -> float:
    return asyncio.get_running_loop().time()


def always(error: FractioningError) -> Callable[[Request], FractioningError]:
    return lambda _: error


@attrs.define
class Scene:
    """
    A cluster with a red and a blue node, and what a mirror of its nodes says.
    """

    cluster: FakeCluster = attrs.field(factory=FakeCluster)
    changes: list[float] = attrs.field(factory=list)
    """
    When the mirror said that something changed.
    """

    def __attrs_post_init__(self) -> None:
        self.cluster.put(NODES, node("a", "red"))
        self.cluster.put(NODES, node("b", "blue"))

    @asynccontextmanager
    async def mirrored(self, **options: Any) -> AsyncIterator[Mirror[str]]:  # noqa: ANN401 - those of Mirror
        """
        Run a mirror for as long as it is needed.
        """
        mirror = Mirror(self.cluster, NODES, select=color, changed=lambda: self.changes.append(now()), **options)
        task = asyncio.create_task(mirror.run())
        try:
            await asyncio.sleep(MOMENT)
            yield mirror
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    @property
    def lists(self) -> list[str]:
        """
        How all that is there was asked for: in a stream, or in pages.
        """
        kinds = [
            "stream" if "sendInitialEvents" in asked.query else asked.query.get("watch", "page")
            for asked in self.cluster.asked
        ]
        return [kind for kind in kinds if kind != "true"]


@pytest_asyncio.fixture
async def scene() -> Scene:
    return Scene()


def named(mirror: Mirror[str]) -> dict[str, str]:
    return {key.name: value for key, value in mirror.items.items()}


class TestFollowing:
    """
    A collection as it is.
    """

    async def test_initial(self, scene: Scene) -> None:
        """
        All that is there is known at once, and told in one call.
        """
        async with scene.mirrored() as mirror:
            assert ({Key("", "a"): "red", Key("", "b"): "blue"}, True, False, "") == (
                mirror.items,
                mirror.is_synced,
                mirror.is_absent,
                mirror.problem,
            )
        assert [0.0] == scene.changes

    async def test_changes(self, scene: Scene) -> None:
        """
        What appears, changes and vanishes afterwards is followed, each told once, without another list.
        """
        async with scene.mirrored() as mirror:
            scene.cluster.put(NODES, node("c", "green"))
            scene.cluster.put(NODES, node("a", "black"))
            scene.cluster.remove(NODES, "b")
            await asyncio.sleep(MOMENT)

            assert {"a": "black", "c": "green"} == named(mirror)
        assert (4, ["stream"]) == (len(scene.changes), scene.lists)

    async def test_unimportant(self, scene: Scene) -> None:
        """
        A change of what is not kept is not told.
        """
        async with scene.mirrored():
            scene.cluster.put(NODES, node("a", "red", zone="z"))
            scene.cluster.put(NODES, node("c", None))
            await asyncio.sleep(MOMENT)

        assert [0.0] == scene.changes

    async def test_selector(self, scene: Scene) -> None:
        """
        An object that leaves what is selected is gone.
        """
        scene.cluster.put(NODES, node("c", "green", gpu="yes"))
        async with scene.mirrored(label_selector="gpu=yes") as mirror:
            before = named(mirror)
            scene.cluster.put(NODES, node("c", "green", gpu="no"))
            await asyncio.sleep(MOMENT)

            assert ({"c": "green"}, {}) == (before, named(mirror))

    async def test_idle(self, scene: Scene) -> None:
        """
        For half an hour of nothing there is no list, no news and no more than a bookmark keeps the watch alive.
        """
        async with scene.mirrored() as mirror:
            await asyncio.sleep(1800)

            assert "" == mirror.problem
        assert ([0.0], 1) == (scene.changes, len(scene.cluster.asked))


class TestLists:
    """
    Where the server cannot begin a watch with what is there.
    """

    async def test_refused(self, scene: Scene) -> None:
        """
        A server that refuses is asked for pages, from then on.
        """
        scene.cluster.lists_by_stream = False
        for number in range(250):
            scene.cluster.put(NODES, node(f"n{number}", "white"))
        async with scene.mirrored() as mirror:
            scene.cluster.put(NODES, node("n0", "green"))
            scene.cluster.remove(NODES, "n1")
            await asyncio.sleep(MOMENT)

            assert (251, "green", "") == (len(mirror.items), mirror.items[Key("", "n0")], mirror.problem)
        assert ["stream", *["page"] * 3] == scene.lists
        assert 3 == len(scene.changes)

    async def test_ignored(self, scene: Scene) -> None:
        """
        A server that does not mark the end of what is there is asked for pages as soon as that shows.
        """
        scene.cluster.marks_initial_events = False
        async with scene.mirrored() as mirror:
            early = mirror.is_synced
            await asyncio.sleep(60)

            assert (False, True, {"a": "red", "b": "blue"}) == (early, mirror.is_synced, named(mirror))
        assert ["stream", "page"] == scene.lists

    @pytest.mark.parametrize("spoil", [FakeCluster.cut_streams, FakeCluster.end_streams], ids=["cut", "ended"])
    async def test_broken_off(self, scene: Scene, spoil: Callable[[FakeCluster], None]) -> None:
        """
        A stream that breaks off before it marks the end leaves nothing half known, and pages are asked for.
        """
        scene.cluster.marks_initial_events = False
        async with scene.mirrored() as mirror:
            spoil(scene.cluster)
            await asyncio.sleep(MOMENT)

            assert (True, {"a": "red", "b": "blue"}) == (mirror.is_synced, named(mirror))
        assert ["stream", "page"] == scene.lists

    async def test_page_expired(self, scene: Scene) -> None:
        """
        When the next page is too old, the list begins anew and misses nothing.
        """
        scene.cluster.lists_by_stream = False
        for number in range(150):
            scene.cluster.put(NODES, node(f"n{number}", "white"))

        def compact_once(request: Request) -> None:
            if "continue" in request.query and len(scene.lists) == 3:
                scene.cluster.remove(NODES, "a")
                scene.cluster.compact()

        scene.cluster.refuse = compact_once
        async with scene.mirrored() as mirror:
            assert (151, False) == (len(mirror.items), Key("", "a") in mirror.items)
        assert ["stream", *["page"] * 4] == scene.lists


class TestEnds:
    """
    A watch that ends.
    """

    @pytest.mark.parametrize("end", [FakeCluster.cut_streams, FakeCluster.end_streams], ids=["cut", "ended"])
    async def test_resumed(self, scene: Scene, end: Callable[[FakeCluster], None]) -> None:
        """
        It is resumed where it ended, with all that happened meanwhile, without a list and without a word.
        """
        async with scene.mirrored() as mirror:
            end(scene.cluster)
            await asyncio.sleep(0.01)
            scene.cluster.put(NODES, node("a", "black"))
            scene.cluster.remove(NODES, "b")
            await asyncio.sleep(MOMENT)

            assert {"a": "black"} == named(mirror)
        assert (["stream"], 3) == (scene.lists, len(scene.changes))

    async def test_silence(self, scene: Scene) -> None:
        """
        A connection that has gone silent is given up after 90 s, and what happened meanwhile is caught up on.
        """
        async with scene.mirrored() as mirror:
            scene.cluster.silence_streams()
            scene.cluster.put(NODES, node("a", "black"))
            await asyncio.sleep(89)
            before = named(mirror)
            await asyncio.sleep(2)

            assert ("red", "black", "") == (before["a"], named(mirror)["a"], mirror.problem)
        assert ["stream"] == scene.lists

    @pytest.mark.parametrize(
        "is_answer", [pytest.param(False, id="as an event"), pytest.param(True, id="as an answer")]
    )
    async def test_expired(self, scene: Scene, *, is_answer: bool) -> None:
        """
        A version that is too old is listed again, what vanished meanwhile is noticed, and the old items stay till then.
        """
        async with scene.mirrored() as mirror:
            scene.cluster.refuse = always(GONE)
            scene.cluster.cut_streams()
            await asyncio.sleep(MOMENT)
            before = named(mirror)
            scene.cluster.remove(NODES, "b")
            scene.cluster.put(NODES, node("c", "green"))
            scene.cluster.compact()
            scene.cluster.refuse = expired if is_answer else (lambda _: None)
            await asyncio.sleep(10)

            assert ({"a": "red", "b": "blue"}, {"a": "red", "c": "green"}, "") == (
                before,
                named(mirror),
                mirror.problem,
            )
        assert ["stream"] * 2 == scene.lists

    async def test_bookmarks_count(self, scene: Scene) -> None:
        """
        What happened to objects outside the selection does not make the version old.
        """
        async with scene.mirrored(label_selector="gpu=yes"):
            scene.cluster.put(NODES, node("a", "black"))
            await asyncio.sleep(61)
            scene.cluster.compact()
            scene.cluster.end_streams()
            await asyncio.sleep(MOMENT)

        assert ["stream"] == scene.lists

    async def test_ends_at_once(self, scene: Scene) -> None:
        """
        Watches that end at once are asked for ever more rarely, and that is told.
        """
        async with scene.mirrored() as mirror:
            task = asyncio.create_task(end_for_ever(scene.cluster))
            await asyncio.sleep(120)
            task.cancel()

            assert "cannot watch nodes: each watch ends at once" == mirror.problem
        assert len(scene.cluster.asked) < 20


class TestProblems:
    """
    What stands in the way.
    """

    async def test_forbidden(self, scene: Scene) -> None:
        """
        A missing right is told in the server's words, and asked for again after 30 s; the items stay.
        """
        async with scene.mirrored() as mirror:
            scene.cluster.refuse = always(FORBIDDEN)
            scene.cluster.end_streams()
            await asyncio.sleep(MOMENT)
            during = (named(mirror), mirror.is_synced, mirror.problem)
            scene.cluster.refuse = lambda _: None
            scene.cluster.put(NODES, node("a", "black"))
            await asyncio.sleep(28)
            early = named(mirror)["a"]
            await asyncio.sleep(2)

            assert ("red", "black", "") == (early, named(mirror)["a"], mirror.problem)
        assert (
            {"a": "red", "b": "blue"},
            True,
            "cannot watch nodes: GET /api/v1/nodes: 403 from the API server: nodes is forbidden",
        ) == during

    async def test_absent(self, scene: Scene) -> None:
        """
        A collection that does not exist is no problem, and is watched within 30 s of its appearance.
        """
        scene.cluster.absent.add(NODES.path)
        async with scene.mirrored() as mirror:
            await asyncio.sleep(300)
            before = (mirror.is_absent, mirror.is_synced, mirror.problem, named(mirror))
            asked = len(scene.cluster.asked)
            scene.cluster.absent.clear()
            await asyncio.sleep(30)

            assert (False, True, {"a": "red", "b": "blue"}) == (mirror.is_absent, mirror.is_synced, named(mirror))
        assert ((True, False, "", {}), 11) == (before, asked)
        assert 2 == len(scene.changes)

    async def test_vanished(self, scene: Scene) -> None:
        """
        When the collection itself is removed, its items are gone.
        """
        async with scene.mirrored() as mirror:
            scene.cluster.absent.add(NODES.path)
            scene.cluster.end_streams()
            await asyncio.sleep(MOMENT)

            assert (True, False, {}) == (mirror.is_absent, mirror.is_synced, named(mirror))

    async def test_unreachable(self, scene: Scene) -> None:
        """
        While nobody answers the waits grow to 30 s and no further; afterwards all is caught up on.
        """
        async with scene.mirrored() as mirror:
            scene.cluster.refuse = always(GONE)
            scene.cluster.cut_streams()
            await asyncio.sleep(300)
            during, asked = mirror.problem, len(scene.cluster.asked)
            scene.cluster.refuse = lambda _: None
            scene.cluster.put(NODES, node("a", "black"))
            await asyncio.sleep(30)

            assert ("black", "") == (named(mirror)["a"], mirror.problem)
        assert f"cannot watch nodes: {GONE}" == during
        assert 10 < asked < 25
        # The first list, the problem, the problem's end, and the change.
        assert 4 == len(scene.changes)

    async def test_retry_after(self, scene: Scene) -> None:
        """
        A server that asks for patience is left alone for as long.
        """
        async with scene.mirrored():
            before = len(scene.cluster.asked)
            scene.cluster.refuse = always(ApiOverloaded("GET /api/v1/nodes", 429, "slow", 20.0))
            scene.cluster.end_streams()
            await asyncio.sleep(65)

            assert 4 == len(scene.cluster.asked) - before

    async def test_rejected_version(self, scene: Scene) -> None:
        """
        A version that the server finds wrong is told and not insisted on.
        """
        async with scene.mirrored() as mirror:
            scene.cluster.refuse = rejects_versions
            scene.cluster.end_streams()
            await asyncio.sleep(MOMENT)

            assert ("", ["stream"] * 2) == (mirror.problem, scene.lists)

    async def test_garbage(self, scene: Scene) -> None:
        """
        A stream that is not one is told, and tried again from the same version.
        """
        async with scene.mirrored() as mirror:
            scene.cluster.refuse = always(BadAnswer("GET /api/v1/nodes", "has a line that is not JSON"))
            scene.cluster.end_streams()
            await asyncio.sleep(MOMENT)
            during = mirror.problem
            scene.cluster.refuse = lambda _: None
            await asyncio.sleep(10)

            assert "" == mirror.problem
        assert "cannot watch nodes: GET /api/v1/nodes: the API server's answer has a line that is not JSON" == during
        assert ["stream"] == scene.lists

    async def test_select_fails(self, scene: Scene) -> None:
        """
        An error in what selects is ours and ends the mirror.
        """

        def fail(_: Mapping[str, Any]) -> str:
            raise RuntimeError("ours")

        with pytest.raises(RuntimeError, match="ours"):
            await Mirror(scene.cluster, NODES, select=fail, changed=lambda: None).run()


def expired(request: Request) -> FractioningError | None:
    """
    Find every version too old.
    """
    return Expired(str(request), 410, "too old") if request.query.get("resourceVersion") else None


def rejects_versions(request: Request) -> FractioningError | None:
    """
    Find every version wrong.
    """
    return ApiRejection(str(request), 400, "invalid resource version") if request.query.get("resourceVersion") else None


async def end_for_ever(cluster: FakeCluster) -> None:
    """
    End each watch as soon as it begins.
    """
    while True:
        cluster.end_streams()
        await asyncio.sleep(0.01)
