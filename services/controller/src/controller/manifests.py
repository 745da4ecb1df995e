"""
Looking into manifests that somebody else wrote: what is not there, or of another type, counts as absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_NOTHING: Mapping[str, Any] = {}


def mapping(value: object, *path: str) -> Mapping[str, Any]:
    """
    Give the object at a path; an empty one where there is none.
    """
    found = _at(value, path)
    return found if isinstance(found, Mapping) else _NOTHING


def text(value: object, *path: str) -> str:
    """
    Give the text at a path; empty where there is none.
    """
    found = _at(value, path)
    return found if isinstance(found, str) else ""


def number(value: object, *path: str) -> int:
    """
    Give the whole number at a path; 0 where there is none.
    """
    found = _at(value, path)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def iter_objects(value: object, *path: str) -> Iterator[Mapping[str, Any]]:
    """
    Yield the objects of the list at a path.
    """
    found = _at(value, path)
    if isinstance(found, list | tuple):
        yield from (item for item in found if isinstance(item, Mapping))


def condition(manifest: object, kind: str) -> Mapping[str, Any]:
    """
    Give the condition of one type from an object's status; empty where it has none.
    """
    found = (item for item in iter_objects(manifest, "status", "conditions") if item.get("type") == kind)
    return next(found, _NOTHING)


def _at(value: object, path: tuple[str, ...]) -> object:
    for step in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(step)
    return value
