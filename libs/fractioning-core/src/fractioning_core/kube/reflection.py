"""
What is known of a collection, and what each event makes of it.

Pure: the mirror does the asking. A list is collected apart and takes the place of the old items when it is complete,
so that readers never see half of it and what vanished meanwhile is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from fractioning_core.kube.collections import Key
from fractioning_core.kube.watchevents import Bookmark, Changed, Deleted, Event

T = TypeVar("T")


class Reflection(Generic[T]):
    """
    Items, and how far they can be trusted. The methods say whether anything is other than before.

    Args:
        select: Takes of an object what is needed; None keeps nothing of it.
    """

    def __init__(self, select: Callable[[Mapping[str, Any]], T | None]) -> None:
        self.items: dict[Key, T] = {}
        self.version = ""
        """
        What to resume from; empty when all has to be listed.
        """
        self.is_synced = False
        self.is_absent = False
        self.problem = ""
        self._select = select
        self._listing: dict[Key, T] | None = None

    @property
    def is_listing(self) -> bool:
        """
        Whether a list has begun and not ended.
        """
        return self._listing is not None

    def begin_list(self) -> None:
        """
        Begin to collect all that is there; what an earlier list that broke off has left is dropped.
        """
        self.version = ""
        self._listing = {}

    def end_list(self, version: str) -> bool:
        """
        Let what was collected take the place of what was there.
        """
        items, self._listing = self._listing or {}, None
        return self._become(items, version=version, is_synced=True, is_absent=False)

    def forget(self) -> bool:
        """
        There is no such collection.
        """
        return self._become({}, version="", is_synced=False, is_absent=True)

    def expire(self) -> None:
        """
        What happened since the version cannot be told any more; the items stay until they are listed again.
        """
        self.version = ""

    def tell(self, problem: str) -> bool:
        """
        Note why the items may be old; empty for no reason.
        """
        before, self.problem = self.problem, problem
        return before != problem

    def take(self, event: Event) -> bool:
        """
        Take what happened since the version.
        """
        self.version = event.version
        return not isinstance(event, Bookmark) and self._put(self.items, event)

    def collect(self, event: Changed | Deleted) -> None:
        """
        Take one more object of a list, in whatever order they come.
        """
        assert self._listing is not None, "begun"  # noqa: S101 - a slip here would lose objects without a word
        self._put(self._listing, event)

    def _put(self, items: dict[Key, T], event: Changed | Deleted) -> bool:
        kept = self._select(event.manifest) if isinstance(event, Changed) else None
        if kept is None:
            return items.pop(event.key, None) is not None
        if items.get(event.key) == kept:
            return False
        items[event.key] = kept
        return True

    def _become(self, items: dict[Key, T], *, version: str, is_synced: bool, is_absent: bool) -> bool:
        before = (self.items, self.is_synced, self.is_absent, self.problem)
        after = (items, is_synced, is_absent, "")
        self.items, self.is_synced, self.is_absent, self.problem = after
        self.version = version
        return before != after
