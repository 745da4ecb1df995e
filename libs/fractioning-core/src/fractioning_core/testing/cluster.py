"""
A cluster in memory, which stands in for the transport where time is virtual: objects, watches, and all that goes wrong.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

import attrs

from fractioning_core.errors import FractioningError
from fractioning_core.kube import errors
from fractioning_core.kube.collections import Collection
from fractioning_core.kube.errors import ApiUnreachable
from fractioning_core.kube.transport import Request
from fractioning_core.kube.watchevents import INITIAL_EVENTS_END
from fractioning_core.testing import clusterpaths, clusterverbs
from fractioning_core.testing.clusterpaths import Place
from fractioning_core.testing.clusterstore import Manifest, Store

BOOKMARK_SECONDS = 60.0
"""
How often one who watches hears that nothing happened.
"""

SERVER = "https://10.96.0.1:443"


@attrs.define(eq=False)
class Stream:
    """
    One open watch.
    """

    request: Request
    is_ended: bool = False
    is_cut: bool = False
    is_silent: bool = False


@attrs.define(eq=False)
class FakeCluster:
    """
    Answers requests as an API server.
    """

    refuse: Callable[[Request], FractioningError | None] = attrs.field(default=lambda _: None)
    """
    Gives the error for a request, or None to answer it.
    """

    lists_by_stream: bool = True
    """
    Whether a watch may begin with what is there.
    """

    marks_initial_events: bool = True
    """
    Whether such a watch tells where that ends.
    """

    absent: set[str] = attrs.field(factory=set)
    """
    Paths of collections that it does not know.
    """

    delay_seconds: float = 0.0
    """
    How long each answer takes.
    """

    asked: list[Request] = attrs.field(factory=list)
    streams: list[Stream] = attrs.field(factory=list)
    """
    Those that are open.
    """

    _store: Store = attrs.field(factory=Store, init=False)
    _moved: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)

    def put(self, collection: Collection, manifest: Manifest) -> Manifest:
        """
        Create or replace an object, as somebody else.
        """
        metadata = manifest["metadata"]
        kind = collection.within(metadata.get("namespace", collection.namespace))
        written = self._store.write(clusterpaths.parse(kind.item_path(metadata["name"])), manifest)
        self._wake()
        return written

    def remove(self, collection: Collection, name: str) -> None:
        """
        Remove an object, as somebody else and whatever its finalizers are.
        """
        self._store.erase(clusterpaths.parse(collection.item_path(name)))
        self._wake()

    def get(self, collection: Collection, name: str) -> Manifest | None:
        """
        Look at an object.
        """
        return self._store.find(clusterpaths.parse(collection.item_path(name)))

    def all(self, collection: Collection) -> list[Manifest]:
        """
        Look at all objects of a collection.
        """
        return self._store.selected(clusterpaths.parse(collection.path))

    def compact(self) -> None:
        """
        Forget what happened until now.
        """
        self._store.compact()

    def end_streams(self) -> None:
        """
        End all watches, as a server does after some minutes or when a reader is slow.
        """
        for stream in self.streams:
            stream.is_ended = True
        self._wake()

    def cut_streams(self) -> None:
        """
        Break off the connections of all watches.
        """
        for stream in self.streams:
            stream.is_cut = True
        self._wake()

    def silence_streams(self) -> None:
        """
        Let nothing more through to those who watch, and do not tell them.
        """
        for stream in self.streams:
            stream.is_silent = True
        self._wake()

    async def ask(self, request: Request) -> Mapping[str, Any]:
        """
        Answer one request.
        """
        place = await self._arrived(request)
        answer = clusterverbs.answer(self._store, request, place)
        self._wake()
        return copy.deepcopy(dict(answer))

    @asynccontextmanager
    async def stream(self, request: Request, *, silence_seconds: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """
        Answer a watch.
        """
        place = await self._arrived(request)
        if "sendInitialEvents" in request.query and not self.lists_by_stream:
            raise errors.of_code(str(request), 422, "sendInitialEvents: Forbidden: not in this version")
        stream = Stream(request)
        self.streams.append(stream)
        try:
            async with aclosing(self._lines(stream, place, silence_seconds)) as lines:
                yield lines
        finally:
            self.streams.remove(stream)

    async def _arrived(self, request: Request) -> Place:
        self.asked.append(request)
        await asyncio.sleep(self.delay_seconds)
        if error := self.refuse(request):
            raise error
        place = clusterpaths.parse(request.path, request.query)
        if place.kind in self.absent:
            raise errors.of_code(str(request), 404, "the server could not find the requested resource")
        return place

    async def _lines(self, stream: Stream, place: Place, silence_seconds: float) -> AsyncGenerator[bytes, None]:
        at = int(stream.request.query["resourceVersion"] or self._store.version)
        if at < self._store.oldest:
            yield _line("ERROR", {"kind": "Status", "code": 410, "message": f"too old resource version: {at}"})
            return
        for line in self._initial_events(stream, place):
            yield line
        while True:
            moved = self._moved
            if stream.is_silent:
                await asyncio.sleep(silence_seconds)
            if stream.is_cut or stream.is_silent:
                raise ApiUnreachable(SERVER, "the connection is gone")
            for step in list(self._store.steps_since(at)):
                at = step.version
                if event := step.seen_through(place):
                    yield _line(*event)
            if stream.is_ended:
                return
            if moved is self._moved and not await _set_within(BOOKMARK_SECONDS, moved):
                at = self._store.version
                yield _bookmark(at, {})

    def _initial_events(self, stream: Stream, place: Place) -> list[bytes]:
        if "sendInitialEvents" not in stream.request.query:
            return []
        lines = [_line("ADDED", manifest) for manifest in self._store.selected(place)]
        if self.marks_initial_events:
            lines.append(_bookmark(self._store.version, {INITIAL_EVENTS_END: "true"}))
        return lines

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()


async def _set_within(seconds: float, event: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


def _bookmark(version: int, annotations: Mapping[str, str]) -> bytes:
    return _line("BOOKMARK", {"metadata": {"resourceVersion": str(version), "annotations": annotations}})


def _line(kind: str, manifest: Manifest) -> bytes:
    return json.dumps({"type": kind, "object": manifest}).encode() + b"\n"
