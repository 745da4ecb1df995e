"""What a real API server makes of our writes and our events."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

import pytest
import pytest_asyncio
from fractioning_core.kube import timestamps
from fractioning_core.kube.collections import Collection
from fractioning_core.kube.errors import Conflict
from fractioning_core.kube.eventbook import EVENTS, ObjectReference
from fractioning_core.kube.events import WARNING, Recorder
from fractioning_core.kube.objects import Objects
from fractioning_core.kube.transport import Request, Transport
from lab import waiting

SECONDS = 20.0

_numbers = itertools.count()


@pytest.fixture
def objects(admin: Transport) -> Objects:
    return Objects(admin, field_manager="tests")


@pytest_asyncio.fixture
async def maps(admin: Transport) -> Collection:
    """
    The config maps of a namespace of their own.
    """
    namespace = f"objects-{next(_numbers)}"
    await admin.ask(Request("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}}))
    return Collection("", "v1", "configmaps", namespace)


@pytest_asyncio.fixture
async def recorder(admin: Transport) -> AsyncIterator[Recorder]:
    recorder = Recorder(admin, component="tests", changed=lambda: None, utcnow=timestamps.utcnow)
    task = asyncio.create_task(recorder.run())
    yield recorder
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def manifest(**data: str) -> Mapping[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data}


def version(found: Mapping[str, Any] | None) -> str:
    assert found is not None
    text: str = found["metadata"]["resourceVersion"]
    return text


class TestWrites:
    """
    Objects.
    """

    async def test_apply(self, objects: Objects, maps: Collection) -> None:
        """
        The first apply creates, the same again changes nothing, and a field that is left out is removed; those of
        others stay.
        """
        path = maps.item_path("m")
        first = await objects.apply(path, manifest(a="1", b="2"))
        same = await objects.apply(path, manifest(a="1", b="2"))
        await objects.merge_patch(path, {"data": {"c": "3"}})
        others = Objects(objects._transport, field_manager="others")
        await others.merge_patch(path, {"data": {"d": "4"}})
        last = await objects.apply(path, manifest(a="1"))

        assert version(first) == version(same)
        # What a merge patch wrote belongs to another kind of writing, and stays.
        assert {"a": "1", "c": "3", "d": "4"} == last["data"]

    async def test_apply_what_others_own(self, objects: Objects, maps: Collection) -> None:
        """
        A field of another is a conflict, unless it is taken by force.
        """
        path = maps.item_path("m")
        await Objects(objects._transport, field_manager="others").apply(path, manifest(a="1"))

        with pytest.raises(Conflict):
            await objects.apply(path, manifest(a="2"), force=False)
        assert {"a": "2"} == (await objects.apply(path, manifest(a="2")))["data"]

    async def test_replace_old(self, objects: Objects, maps: Collection) -> None:
        """
        An object that changed since it was read is not replaced.
        """
        path = maps.item_path("m")
        old = await objects.create(maps.path, manifest(a="1"))
        new = await objects.replace(path, {**old, "data": {"a": "2"}})

        with pytest.raises(Conflict):
            await objects.replace(path, {**old, "data": {"a": "3"}})
        assert version(new) == version(await objects.get(path))

    async def test_delete(self, objects: Objects, maps: Collection) -> None:
        """
        Deleting says whether there was one, and spares another object of the same name.
        """
        path = maps.item_path("m")
        found = await objects.create(maps.path, manifest())
        with pytest.raises(Conflict):
            await objects.delete(path, uid="another")

        assert [True, False] == [await objects.delete(path, uid=found["metadata"]["uid"]), await objects.delete(path)]
        assert await objects.get(path) is None

    async def test_strategic_patch(self, objects: Objects, admin: Transport) -> None:
        """
        A condition of a node is merged by its type; the others stay.
        """
        name = f"objects-{next(_numbers)}"
        conditions = [{"type": "Ready", "status": "True"}, {"type": "Ours", "status": "False"}]
        await admin.ask(Request("POST", "/api/v1/nodes", body={"metadata": {"name": name}}))
        path = Collection("", "v1", "nodes").subresource(name, "status")
        await objects.strategic_patch(path, {"status": {"conditions": conditions}})
        patched = await objects.strategic_patch(path, {"status": {"conditions": [{"type": "Ours", "status": "True"}]}})

        assert {"Ready": "True", "Ours": "True"} == {
            condition["type"]: condition["status"] for condition in patched["status"]["conditions"]
        }


class TestEvents:
    """
    Events.
    """

    @pytest.mark.parametrize("is_namespaced", [True, False], ids=["in a namespace", "of the cluster"])
    async def test_counted(
        self, recorder: Recorder, objects: Objects, maps: Collection, *, is_namespaced: bool
    ) -> None:
        """
        The server takes an event, and the same again is counted at it.
        """
        namespace = maps.namespace if is_namespaced else ""
        about = ObjectReference("v1", "Anything", maps.namespace, namespace=namespace)
        path = EVENTS.within(namespace or "default").path
        query = {"fieldSelector": f"involvedObject.name={maps.namespace}", "limit": "10"}

        async def seen(count: int) -> Mapping[str, Any] | None:
            listed = await objects._transport.ask(Request("GET", path, query=query))
            return next((event for event in listed["items"] if event["count"] == count), None)

        async def told(count: int) -> Mapping[str, Any]:
            recorder.emit(about, WARNING, "Broken", "it is broken")
            return await waiting.until_awaited(
                lambda: seen(count), what=f"{count} at the event", timeout_seconds=SECONDS
            )

        first, event = await told(1), await told(2)

        assert first["metadata"]["uid"] == event["metadata"]["uid"]
        assert ("Warning", "Broken", "it is broken", "tests") == (
            *(event[name] for name in ("type", "reason", "message")),
            event["source"]["component"],
        )
        assert 0 == recorder.dropped
