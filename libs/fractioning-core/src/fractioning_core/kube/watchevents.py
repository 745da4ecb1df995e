"""
What a watch and a list tell, read out of JSON and checked: who an object is, and of which version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import attrs

from fractioning_core.kube.collections import Key
from fractioning_core.kube.errors import BadAnswer

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""
Annotation of the bookmark that ends what was there when the watch began.
"""


@attrs.frozen
class Changed:
    """
    An object is there, new or other than before.
    """

    key: Key
    version: str
    manifest: Mapping[str, Any]


@attrs.frozen
class Deleted:
    """
    An object is gone, or no longer one of those selected.
    """

    key: Key
    version: str


@attrs.frozen
class Bookmark:
    """
    Nothing else happened up to a version.

    Args:
        version: That version.
        ends_initial_events: Whether everything that was there when the watch began has been sent now.
    """

    version: str
    ends_initial_events: bool


Event: TypeAlias = Changed | Deleted | Bookmark


@attrs.frozen
class Page:
    """
    Some of the objects of a list.

    Args:
        version: The version of the whole list.
        continue_token: Where the next page begins; empty on the last.
    """

    version: str
    continue_token: str
    _items: list[Any] = attrs.field(repr=False)
    _request: str = attrs.field(repr=False)

    def objects(self) -> Iterator[Changed]:
        """
        Give its objects; raises BadAnswer.
        """
        return (changed(self._request, item) for item in self._items)


def changed(request: str, manifest: object) -> Changed:
    """
    Read an object.

    Raises:
        BadAnswer: It does not say who it is or of which version.
    """
    match manifest:
        case dict({"metadata": {"name": str(name), "resourceVersion": str(version), **more}} as whole) if (
            name and version
        ):
            return Changed(Key(str(more.get("namespace", "")), name), version, whole)
        case _:
            raise BadAnswer(request, "has an object without name or version")


def deleted(request: str, manifest: object) -> Deleted:
    """
    Read an object that is gone; raises BadAnswer.
    """
    last = changed(request, manifest)
    return Deleted(last.key, last.version)


def bookmark(request: str, manifest: object) -> Bookmark:
    """
    Read a bookmark; raises BadAnswer.
    """
    match manifest:
        case {"metadata": {"resourceVersion": str(version), **more}} if version:
            annotations = more.get("annotations")
            return Bookmark(version, isinstance(annotations, dict) and INITIAL_EVENTS_END in annotations)
        case _:
            raise BadAnswer(request, "has a bookmark without a version")


def page(request: str, answer: Mapping[str, Any]) -> Page:
    """
    Read the answer to a list; raises BadAnswer.
    """
    match answer:
        case {"items": list() | None, "metadata": {"resourceVersion": str(version), **more}} if version:
            return Page(version, str(more.get("continue") or ""), answer["items"] or [], request)
        case _:
            raise BadAnswer(request, "is not a list")
