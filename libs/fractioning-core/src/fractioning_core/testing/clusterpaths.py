"""
What a path and a query of the API server point at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

import attrs

from fractioning_core.kube.collections import Key


@attrs.frozen
class Place:
    """
    A collection, an object of it, or a part of one.

    Args:
        kind: Path of the collection in the whole cluster, which stands for the kind.
        namespace: The namespace, if the path names one.
        name: The object, if the path names one.
        subresource: The part, if the path names one.
        labels: The label selector, a list of `key=value`, `key` or `!key`.
        fields: The field selector, a list of `path=value`.
    """

    kind: str
    namespace: str
    name: str
    subresource: str
    labels: str = ""
    fields: str = ""

    @property
    def key(self) -> Key:
        """
        How the object is called.
        """
        return Key(self.namespace, self.name)

    def selects(self, manifest: Mapping[str, Any]) -> bool:
        """
        Say whether a list or a watch of this place shows an object of the kind.
        """
        metadata = manifest["metadata"]
        return (
            self.namespace in {"", metadata.get("namespace")}
            and all(_field(manifest, word) for word in self.fields.split(",") if word)
            and all(_has(metadata.get("labels", {}), word) for word in self.labels.split(",") if word)
        )


def parse(path: str, query: Mapping[str, str] | None = None) -> Place:
    """
    Read a path and a query.
    """
    query = query or {}
    parts = [unquote(part) for part in path.strip("/").split("/")]
    group = 3 if parts[0] == "apis" else 2
    root, rest = parts[:group], parts[group:]
    namespace = ""
    # `namespaces/a/pods` are pods, `namespaces/a` is a namespace, and `namespaces/a/status` is a part of it.
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in {"status", "finalize"}:
        namespace, rest = rest[1], rest[2:]
    kind, name, subresource = _three(iter(rest))
    return Place(
        kind="/" + "/".join([*root, kind]),
        namespace=namespace,
        name=name,
        subresource=subresource,
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
    )


def _three(parts: Iterator[str]) -> tuple[str, str, str]:
    return next(parts), next(parts, ""), next(parts, "")


def _has(labels: Mapping[str, str], word: str) -> bool:
    key, equals, value = word.partition("=")
    if key.startswith("!"):
        return key[1:] not in labels
    return key in labels and (not equals or labels[key] == value)


def _field(manifest: Mapping[str, Any], word: str) -> bool:
    path, _, wanted = word.partition("=")
    value: Any = manifest
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return bool(value == wanted)
