"""
Keeps what we need of a collection, as it is on the API server now.

First everything that is there, then what happens to it. The server sends the first part as events of the watch where
it can (WatchList), and in pages where it cannot; no whole list is ever held, because Python does not give back the
memory that one costs. Each object goes through `select` at once, and the rest of it is dropped.

A watch that ends is normal, however it ends: servers drop slow readers without a word and every watch after some
minutes, balancers cut or forget connections. It is resumed from the last version seen, and only what the server itself
calls too old is listed again. Readers keep the old items until the new list is complete.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Generic, TypeVar

import attrs

from fractioning_core.errors import FractioningError, InvalidInput, ProtocolViolation, Unavailable
from fractioning_core.kube import watchevents
from fractioning_core.kube.collections import Collection, Key
from fractioning_core.kube.errors import (
    ApiOverloaded,
    ApiRejection,
    ApiUnreachable,
    BadAnswer,
    Expired,
    Forbidden,
    NotFound,
)
from fractioning_core.kube.pace import Pace
from fractioning_core.kube.reflection import Reflection
from fractioning_core.kube.transport import Request, StreamingApi
from fractioning_core.kube.watchevents import Bookmark, Event
from fractioning_core.kube.watchqueries import WatchQueries
from fractioning_core.kube.watchstream import WatchStream

T = TypeVar("T")

# As client-go: each watch ends some time within these, not all at once.
_WATCH_SECONDS = (300, 600)
# One watch that ends at once is an accident, three in a row are not.
_TOLD_FAILURES = 3


@attrs.frozen
class Times:
    """
    How patient a mirror is.

    Args:
        silence_seconds: After how long without a byte a watch is dead. A server sends a bookmark every minute.
        again_seconds: When to ask again for what is forbidden or does not exist.
        first_wait_seconds: The wait after a watch that ended.
        longest_wait_seconds: What the wait grows to while nothing works.
    """

    silence_seconds: float = 90.0
    again_seconds: float = 30.0
    first_wait_seconds: float = 0.1
    longest_wait_seconds: float = 30.0


TIMES = Times()


class Mirror(Generic[T]):
    """
    What is kept of the objects of a collection, while it runs.

    Args:
        transport: The API server.
        collection: Which objects.
        select: Takes of an object what is needed, without keeping a hold on the rest; None keeps nothing of it.
            Objects of a list lack `kind` and `apiVersion`.
        changed: Called after an item changed, appeared or vanished, and after any other property here changed.
        label_selector: Only objects with such labels.
        field_selector: Only objects with such fields.
        metadata_only: Whether the server sends the metadata alone.
        times: How patient it is.
    """

    def __init__(
        self,
        transport: StreamingApi,
        collection: Collection,
        *,
        select: Callable[[Mapping[str, Any]], T | None],
        changed: Callable[[], None],
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        times: Times = TIMES,
    ) -> None:
        self.collection = collection
        self._api = transport
        self._changed = changed
        self._queries = WatchQueries(
            collection, label_selector=label_selector, field_selector=field_selector, metadata_only=metadata_only
        )
        self._times = times
        self._known = Reflection(select)
        self._lists_by_stream = True
        self._pace = Pace(times.first_wait_seconds, times.longest_wait_seconds)
        self._has_moved = False

    @property
    def items(self) -> Mapping[Key, T]:
        """
        What was selected, by name; whole at any time, and the same until the caller waits for something.
        """
        return self._known.items

    @property
    def is_synced(self) -> bool:
        """
        Whether the items are, or were at some time, all there are.
        """
        return self._known.is_synced

    @property
    def is_absent(self) -> bool:
        """
        Whether the API server does not know such objects at all; there are no items then, and it is not synced.
        """
        return self._known.is_absent

    @property
    def problem(self) -> str:
        """
        Why the items may be old by now; empty when they are not.
        """
        return self._known.problem

    async def run(self) -> None:
        """
        Keep it up to date, for ever.
        """
        loop = asyncio.get_running_loop()
        while True:
            started, self._has_moved = loop.time(), False
            error = await self._followed()
            await asyncio.sleep(self._wait_seconds(error, loop.time() - started))

    async def _followed(self) -> FractioningError | None:
        """
        Follow the collection for as long as it works, and give what ended that.
        """
        try:
            await self._follow()
        except Expired:
            self._known.expire()
        except NotFound as error:
            self._announce(self._known.forget())
            return error
        except (Unavailable, InvalidInput, ProtocolViolation) as error:
            self._tell(str(error))
            if isinstance(error, ApiRejection):
                # What the server finds wrong may be the version, of another etcd say.
                self._known.expire()
            return error
        return None

    async def _follow(self) -> None:
        if not self._known.version and self._lists_by_stream:
            await self._list_and_watch()
            return
        if not self._known.version:
            await self._list()
        await self._watch(self._queries.watch(self._known.version, timeout_seconds=_watch_seconds()))

    async def _list(self) -> None:
        self._known.begin_list()
        token = ""
        while True:
            request = self._queries.page(token)
            page = watchevents.page(str(request), await self._api.ask(request))
            for item in page.objects():
                self._known.collect(item)
            token = page.continue_token
            if not token:
                break
        self._announce(self._known.end_list(page.version))

    async def _list_and_watch(self) -> None:
        self._known.begin_list()
        try:
            await self._watch(self._queries.initial_events(timeout_seconds=_watch_seconds()))
        except ApiRejection:
            # A server that does not know the parameters. Should anything else be wrong, the pages will tell.
            self._lists_by_stream = False

    async def _watch(self, request: Request) -> None:
        stream = WatchStream(str(request))
        async with self._api.stream(request, silence_seconds=self._times.silence_seconds) as chunks:
            if self._known.is_listing:
                # Until it has come to its end: a list that breaks off is taken in pages from then on.
                self._lists_by_stream = False
            else:
                self._tell("")
            # A watch that breaks off is resumed, as one that ends.
            with suppress(ApiUnreachable):
                async for chunk in chunks:
                    stream.receive_data(chunk)
                    for event in stream.events():
                        self._take(event, request)

    def _take(self, event: Event, request: Request) -> None:
        if not self._known.is_listing:
            self._has_moved = True
            self._announce(self._known.take(event))
        elif not isinstance(event, Bookmark):
            self._known.collect(event)
        elif event.ends_initial_events:
            self._lists_by_stream = True
            self._announce(self._known.end_list(event.version))
        else:
            raise BadAnswer(str(request), "does not mark the end of the initial events")

    def _wait_seconds(self, error: FractioningError | None, uptime_seconds: float) -> float:
        if isinstance(error, Forbidden | NotFound):
            return self._times.again_seconds
        self._pace = self._pace.after_run(uptime_seconds, has_worked=self._has_moved)
        if error is None and self._pace.failures >= _TOLD_FAILURES:
            self._tell("each watch ends at once")
        patience = error.retry_after_seconds if isinstance(error, ApiOverloaded) else 0.0
        return max(patience, self._pace.wait_seconds * random.uniform(0.75, 1.0))  # noqa: S311 - not a secret

    def _tell(self, problem: str) -> None:
        verb = "watch" if self._known.version or self._lists_by_stream else "list"
        self._announce(self._known.tell(f"cannot {verb} {self.collection}: {problem}" if problem else ""))

    def _announce(self, is_other: bool) -> None:  # noqa: FBT001 - the one thing it decides by
        if is_other:
            self._changed()


def _watch_seconds() -> int:
    return random.randint(*_WATCH_SECONDS)  # noqa: S311 - not a secret
