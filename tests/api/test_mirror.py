"""A mirror of a collection on a real API server."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import pytest_asyncio
from apilab import definitions, objects
from apilab.controlplane import ControlPlane
from apilab.front import Front
from apilab.gate import Gate
from apilab.pod import Pod
from fractioning_core.kube.collections import Collection
from fractioning_core.kube.errors import Conflict
from fractioning_core.kube.mirror import Mirror, Times
from fractioning_core.kube.transport import Request, Transport
from lab import waiting

# Sharper than in a cluster, so that what is asked for again is seen in a test.
TIMES = Times(silence_seconds=5.0, again_seconds=0.2, first_wait_seconds=0.05, longest_wait_seconds=0.5)
SECONDS = 20.0

_numbers = itertools.count()


def datum(manifest: Mapping[str, Any]) -> str | None:
    value: str | None = (manifest.get("data") or {}).get("color")
    return value


@attrs.frozen
class Scene:
    """
    A namespace with config maps, and a gate to the server.
    """

    plane: ControlPlane
    admin: Transport
    namespace: str
    gate: Gate

    @property
    def maps(self) -> Collection:
        """
        The config maps here.
        """
        return Collection("", "v1", "configmaps", self.namespace)

    async def put(self, name: str, color: str, *, gpu: str = "yes") -> None:
        """
        Create or change a config map.
        """
        body = {"metadata": {"name": name, "labels": {"gpu": gpu}}, "data": {"color": color}}
        try:
            await self.admin.ask(Request("POST", self.maps.path, body=body))
        except Conflict:
            await self.admin.ask(Request("PUT", self.maps.item_path(name), body=body))

    async def remove(self, name: str) -> None:
        """
        Delete a config map.
        """
        await self.admin.ask(Request("DELETE", self.maps.item_path(name)))

    @property
    def lists(self) -> list[str]:
        """
        How all that is there was asked for: in a stream, or in pages.
        """
        return ["stream" if seen.is_watch else "page" for seen in self.gate.seen if seen.is_list]


@pytest_asyncio.fixture
async def scene(plane: ControlPlane, admin: Transport) -> AsyncIterator[Scene]:
    namespace = f"mirror-{next(_numbers)}"
    await admin.ask(Request("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}}))
    async with Gate(plane) as gate:
        scene = Scene(plane, admin, namespace, gate)
        await scene.put("a", "red")
        await scene.put("b", "blue")
        yield scene


@asynccontextmanager
async def mirrored(
    api: Transport,
    collection: Collection,
    *,
    select: Callable[[Mapping[str, Any]], str | None] = datum,
    **more: Any,  # noqa: ANN401 - those of Mirror
) -> AsyncIterator[Mirror[str]]:
    """
    Run a mirror.
    """
    options: dict[str, Any] = {"label_selector": "gpu=yes", "times": TIMES, **more}
    mirror = Mirror(api, collection, select=select, changed=lambda: None, **options)
    task = asyncio.create_task(mirror.run())
    try:
        yield mirror
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(mirror: Mirror[str], ask: Callable[[], bool], what: str) -> None:
    def state() -> str:
        return repr((mirror.items, mirror.is_synced, mirror.is_absent, mirror.problem))

    await waiting.until(ask, what=what, timeout_seconds=SECONDS, details=state)


async def says(mirror: Mirror[str], **colors: str) -> None:
    """
    Wait until exactly these are kept.
    """
    await until(mirror, lambda: colors == {key.name: value for key, value in mirror.items.items()}, repr(colors))


class TestFollowing:
    """
    A collection as it is.
    """

    async def test_changes(self, scene: Scene) -> None:
        """
        Objects are there from the first, and followed as they appear, change, vanish and leave the selection.
        """
        async with scene.plane.admin(url=scene.gate.url) as api, mirrored(api, scene.maps) as mirror:
            await says(mirror, a="red", b="blue")
            await scene.put("c", "green")
            await scene.put("a", "black")
            await scene.remove("b")
            await says(mirror, a="black", c="green")
            await scene.put("c", "green", gpu="no")
            await says(mirror, a="black")

        assert ["stream"] == scene.lists

    async def test_pages(self, scene: Scene) -> None:
        """
        A server that cannot begin a watch with what is there is asked for pages, and watched from their version.
        """
        for number in range(150):
            await scene.put(f"n{number}", "white")
        scene.gate.refuse(422, path="sendInitialEvents")
        async with scene.plane.admin(url=scene.gate.url) as api, mirrored(api, scene.maps) as mirror:
            await until(mirror, lambda: mirror.is_synced, "the list")
            count = len(mirror.items)
            await scene.remove("n7")
            await until(mirror, lambda: len(mirror.items) == 151, "the deletion")

        assert (152, ["stream", "page", "page"]) == (count, scene.lists)

    async def test_metadata_only(self, scene: Scene) -> None:
        """
        Where metadata is enough the server sends nothing else, in watches and in pages.
        """

        def told(manifest: Mapping[str, Any]) -> str:
            return f"{manifest['metadata']['labels']['gpu']} {sorted(manifest.keys() - {'kind', 'apiVersion'})}"

        expected = {"a": "yes ['metadata']", "b": "yes ['metadata']"}
        async with scene.plane.admin(url=scene.gate.url) as api:
            async with mirrored(api, scene.maps, select=told, metadata_only=True) as mirror:
                await says(mirror, **expected)
                await scene.put("c", "green")
                await says(mirror, **expected, c="yes ['metadata']")
            scene.gate.refuse(422, path="sendInitialEvents")
            async with mirrored(api, scene.maps, select=told, metadata_only=True) as mirror:
                await says(mirror, **expected, c="yes ['metadata']")


class TestEnds:
    """
    A watch that ends.
    """

    async def test_cut(self, scene: Scene) -> None:
        """
        A connection that is cut again and again loses nothing and costs no list.
        """
        async with scene.plane.admin(url=scene.gate.url) as api, mirrored(api, scene.maps) as mirror:
            await says(mirror, a="red", b="blue")
            for number in range(10):
                await until(mirror, lambda: scene.gate.watches > 0, "a watch")
                scene.gate.cut_watches()
                await scene.put("a", f"red-{number}")
            await says(mirror, a="red-9", b="blue")

        assert ["stream"] == scene.lists

    async def test_swallowed(self, scene: Scene) -> None:
        """
        A connection that has gone silent is given up, and what happened meanwhile is caught up on.
        """
        async with scene.plane.admin(url=scene.gate.url) as api, mirrored(api, scene.maps) as mirror:
            await says(mirror, a="red", b="blue")
            scene.gate.swallow_watches()
            await scene.put("a", "black")
            await says(mirror, a="black", b="blue")

            assert "" == mirror.problem
        assert ["stream"] == scene.lists

    async def test_restart(self, scene: Scene) -> None:
        """
        A server that is away is missed, and followed again when it is back.
        """
        async with scene.plane.admin(url=scene.gate.url) as api, mirrored(api, scene.maps) as mirror:
            await says(mirror, a="red", b="blue")
            await scene.plane.stop()
            try:
                await until(mirror, lambda: mirror.problem != "", "the problem")
                during = len(mirror.items)
            finally:
                await scene.plane.start()
            await scene.put("a", "black")
            await says(mirror, a="black", b="blue")
            await until(mirror, lambda: mirror.problem == "", "the problem's end")

        assert 2 == during

    async def test_expired(self, scene: Scene) -> None:
        """
        What happened while nobody watched, and is forgotten by the server, is found by a list.
        """
        async with scene.plane.admin(url=scene.gate.url) as api, mirrored(api, scene.maps) as mirror:
            await says(mirror, a="red", b="blue")
            scene.gate.refuse(503)
            scene.gate.cut_watches()
            await scene.remove("b")
            await scene.put("c", "green")
            # A server that has just started remembers nothing of what was before.
            await scene.plane.stop()
            await scene.plane.start()
            scene.gate.relent()
            await says(mirror, a="red", c="green")

        assert ["stream", "stream"] == scene.lists


class TestRights:
    """
    What the server lets us see.
    """

    @asynccontextmanager
    async def account(self, scene: Scene, directory: Path, *, url: str) -> AsyncIterator[tuple[Pod, Transport]]:
        """
        Give an account that may see config maps, and its way in.
        """
        account = await objects.create_account(scene.admin, f"{scene.namespace}-reader", "reader")
        rule = objects.Rule(verbs=("list", "watch"), resources=("configmaps",))
        await objects.grant(scene.admin, account, rule)
        token = await objects.issue_token(scene.admin, account)
        pod = Pod(directory / "account", url=url, ca=scene.plane.certificates.ca, token=token)
        way = attrs.evolve(scene.plane.account, url=url, token_file=pod.directory / "token")
        async with Transport.of_account(way, user_agent="tests") as api:
            yield pod, api

    async def test_taken_away(self, scene: Scene, tmp_path: Path) -> None:
        """
        A right that is taken away is told in the server's words; given back, it is used again.
        """
        binding = f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{scene.namespace}-reader"
        async with self.account(scene, tmp_path, url=scene.gate.url) as (_, api), mirrored(api, scene.maps) as mirror:
            await says(mirror, a="red", b="blue")
            given = await scene.admin.ask(Request("GET", binding))
            await scene.admin.ask(Request("DELETE", binding))
            # The server asks for rights when a watch begins, so nothing happens until the next one.
            scene.gate.cut_watches()
            await until(mirror, lambda: "403" in mirror.problem, "the refusal")
            told, during = mirror.problem, len(mirror.items)
            await scene.put("a", "black")
            body = {"metadata": {"name": given["metadata"]["name"]}, **{k: given[k] for k in ("roleRef", "subjects")}}
            await scene.admin.ask(Request("POST", binding.rpartition("/")[0], body=body))
            await says(mirror, a="black", b="blue")

            assert "" == mirror.problem
        assert 2 == during
        assert told.startswith(f"cannot watch configmaps in {scene.namespace}: GET {scene.maps.path}: 403")
        assert 'cannot watch resource \\"configmaps\\" in API group' in told

    async def test_token_rotates(self, scene: Scene, tmp_path: Path) -> None:
        """
        After each rotation a watch is opened with the new token, at the price of one refusal.
        """
        account = objects.ServiceAccount(f"{scene.namespace}-reader", "reader")
        tokens = [""]
        async with Front(scene.plane, newest=lambda: tokens[-1]) as front:
            async with self.account(scene, tmp_path, url=front.url) as (pod, api):
                tokens.append(pod.token)
                async with mirrored(api, scene.maps) as mirror:
                    await says(mirror, a="red", b="blue")
                    for color in ("green", "white", "black"):
                        tokens.append(await objects.issue_token(scene.admin, account))
                        pod.swap(tokens[-1])
                        await scene.put("a", color)
                        await says(mirror, a=color, b="blue")

                    assert "" == mirror.problem
        assert 3 == front.refused["GET"]


class TestKinds:
    """
    A kind that the server does not know.
    """

    async def test_appears_later(self, scene: Scene) -> None:
        """
        It is absent, watched from when it appears, and absent again when it is removed.
        """
        widgets = Collection("mirror.example.test", "v1", "widgets")
        names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        version = {"name": "v1", "served": True, "storage": True, "schema": schema}
        name = f"{widgets.plural}.{widgets.group}"
        definition = {
            "metadata": {"name": name},
            "spec": {"group": widgets.group, "scope": "Cluster", "names": names, "versions": [version]},
        }
        widget = {
            "apiVersion": f"{widgets.group}/v1",
            "kind": "Widget",
            "metadata": {"name": "w"},
            "data": {"color": "red"},
        }
        async with scene.plane.admin(url=scene.gate.url) as api:
            async with mirrored(api, widgets, label_selector="") as mirror:
                await until(mirror, lambda: mirror.is_absent, "absence")
                before = (mirror.is_synced, mirror.problem)
                await definitions.install(scene.admin, definition)
                await scene.admin.ask(Request("POST", widgets.path, body=widget))
                await says(mirror, w="red")
                present = (mirror.is_synced, mirror.is_absent)
                await definitions.remove(scene.admin, name)
                await until(mirror, lambda: mirror.is_absent and not mirror.items, "absence again")

        assert ((False, ""), (True, False)) == (before, present)
