"""
The objects of a cluster in memory: versions, generations, deletion with finalizers, and what happened lately.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import attrs

from fractioning_core.kube.collections import Key
from fractioning_core.testing.clusterpaths import Place

Manifest: TypeAlias = Mapping[str, Any]

_DELETED_AT = "2026-01-01T00:00:00Z"


@attrs.frozen
class Step:
    """
    What one write did to one object.
    """

    version: int
    kind: str
    before: Manifest | None
    after: Manifest | None

    def seen_through(self, place: Place) -> tuple[str, Manifest] | None:
        """
        Give the event, if any, for who watches there.
        """
        if self.kind != place.kind:
            return None
        was = self.before is not None and place.selects(self.before)
        if self.after is not None and place.selects(self.after):
            return ("MODIFIED" if was else "ADDED"), self.after
        if was:
            return "DELETED", merged(self.after or self.before or {}, _of_version(self.version))
        return None


@attrs.define(eq=False)
class Store:
    """
    All objects, by kind and name.
    """

    version: int = 1
    oldest: int = 0
    """
    The version before which nothing is remembered.
    """

    _objects: dict[str, dict[Key, Manifest]] = attrs.field(factory=dict, init=False)
    _steps: list[Step] = attrs.field(factory=list, init=False)
    _uids: int = attrs.field(default=0, init=False)

    def find(self, place: Place) -> Manifest | None:
        """
        Read an object.
        """
        return self._objects.get(place.kind, {}).get(place.key)

    def selected(self, place: Place) -> list[Manifest]:
        """
        Read the objects of a collection.
        """
        return [found for found in self._objects.get(place.kind, {}).values() if place.selects(found)]

    def steps_since(self, version: int) -> Iterator[Step]:
        """
        Tell what happened after a version.
        """
        return (step for step in self._steps if step.version > version)

    def write(self, place: Place, manifest: Manifest) -> Manifest:
        """
        Create or replace an object; nothing happens when nothing changes.
        """
        before = self.find(place)
        if before is not None and merged(before, _of_version(None)) == merged(manifest, _of_version(None)):
            return before
        after = self._numbered(before, place, manifest)
        metadata = after["metadata"]
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            self.erase(place)
            return after
        self._step(place, before, after)
        self._objects.setdefault(place.kind, {})[place.key] = after
        return after

    def delete(self, place: Place) -> None:
        """
        Delete an object, or mark it when it has finalizers.
        """
        found = self._objects[place.kind][place.key]
        if found["metadata"].get("finalizers"):
            self.write(place, merged(found, {"metadata": {"deletionTimestamp": _DELETED_AT}}))
        else:
            self.erase(place)

    def erase(self, place: Place) -> None:
        """
        Remove an object whatever its finalizers are.
        """
        self._step(place, self._objects[place.kind].pop(place.key), None)

    def compact(self) -> None:
        """
        Forget what happened until now.
        """
        self.oldest = self.version
        self._steps.clear()

    def _numbered(self, before: Manifest | None, place: Place, manifest: Manifest) -> Manifest:
        """
        Give the object with what the server counts: version, generation, and who it is.
        """
        metadata: dict[str, Any] = {"name": place.name, "resourceVersion": str(self.version + 1)}
        if place.namespace:
            metadata["namespace"] = place.namespace
        if before is None:
            self._uids += 1
            metadata |= {"uid": f"uid-{self._uids}", "generation": 1}
        else:
            is_other = before.get("spec") != manifest.get("spec")
            metadata |= {"uid": before["metadata"]["uid"], "generation": before["metadata"]["generation"] + is_other}
        return merged(copy.deepcopy(manifest), {"metadata": metadata})

    def _step(self, place: Place, before: Manifest | None, after: Manifest | None) -> None:
        self.version += 1
        self._steps.append(Step(self.version, place.kind, before, after))


def merged(manifest: Manifest, patch: Manifest) -> dict[str, Any]:
    """
    Apply a merge patch (RFC 7386).
    """
    result = dict(manifest)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            inner = result.get(name)
            result[name] = merged(inner if isinstance(inner, Mapping) else {}, value)
        else:
            result[name] = value
    return result


def _of_version(version: int | None) -> Manifest:
    return {"metadata": {"resourceVersion": None if version is None else str(version)}}
