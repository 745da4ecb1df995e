"""
Tells people what happened to an object, by Events.

Whoever emits never waits and never fails: news waits in a bounded queue and is told when the API server is there. What
is never told is counted, and nothing else hangs on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

from fractioning_core.errors import InvalidInput, ProtocolViolation, Unavailable
from fractioning_core.kube import eventbook
from fractioning_core.kube.errors import ApiOverloaded, Conflict, NotFound
from fractioning_core.kube.eventbook import EVENTS, EventBook, Heard, ObjectReference, Telling, Told
from fractioning_core.kube.objects import Objects
from fractioning_core.kube.pace import Pace
from fractioning_core.kube.transport import Api

NORMAL = "Normal"
WARNING = "Warning"

_FIRST_WAIT_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 30.0


class Recorder:
    """
    Tells what is emitted, while it runs.

    Args:
        transport: The API server.
        component: Who tells it.
        changed: Called when `problem` changes.
        utcnow: Tells the time.
    """

    def __init__(
        self, transport: Api, *, component: str, changed: Callable[[], None], utcnow: Callable[[], datetime]
    ) -> None:
        self.problem = ""
        """
        Why the last thing could not be told; empty when it could.
        """
        self._objects = Objects(transport, field_manager=component)
        self._component = component
        self._changed = changed
        self._utcnow = utcnow
        self._book = EventBook()
        self._has_news = asyncio.Event()

    @property
    def dropped(self) -> int:
        """
        How much was never told.
        """
        return self._book.dropped

    def emit(self, regarding: ObjectReference, type: str, reason: str, message: str) -> None:  # noqa: A002 - its name
        """
        Let something be told of an object.

        Args:
            regarding: The object.
            type: `NORMAL` or `WARNING`.
            reason: One word for programs.
            message: A sentence for people.
        """
        self._book.hear(Telling(regarding, type, reason, message), self._utcnow())
        self._has_news.set()

    async def run(self) -> None:
        """
        Tell what was emitted, for ever.
        """
        pace = Pace(_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS)
        while True:
            await self._has_news.wait()
            if (news := self._book.next()) is None:
                self._has_news.clear()
                continue
            patience = await self._told(*news)
            pace = pace.after_run(0.0, has_worked=patience is None)
            if patience is not None:
                await asyncio.sleep(max(patience, pace.wait_seconds))

    async def _told(self, telling: Telling, heard: Heard) -> float | None:
        """
        Tell one thing; give the least seconds to wait when that did not work now.
        """
        try:
            self._book.tell(telling, await self._tell(telling, heard))
        except (Conflict, InvalidInput, ProtocolViolation) as error:
            # It would not be taken a second time either.
            self._book.drop()
            self._note(str(error))
        except Unavailable as error:
            self._book.put_back(telling, heard)
            self._note(str(error))
            return error.retry_after_seconds if isinstance(error, ApiOverloaded) else 0.0
        else:
            self._note("")
        return None

    def _note(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            self._changed()

    async def _tell(self, telling: Telling, heard: Heard) -> Told:
        collection = EVENTS.within(telling.namespace)
        if told := self._book.told_before(telling, heard.last):
            both = told.heard.again(heard.count, heard.last)
            try:
                await self._objects.merge_patch(collection.item_path(told.name), eventbook.patch_of(both))
            except NotFound:
                # Events live for an hour, or shorter.
                self._book.forget(telling)
            else:
                return Told(told.name, both)
        manifest = eventbook.manifest_of(telling, heard, component=self._component)
        await self._objects.create(collection.path, manifest)
        return Told(manifest["metadata"]["name"], heard)
