"""
Everything that is in a cluster, of every kind that its API server lists.

What lives by itself is left out: events, and the times at which nodes' own leases were renewed.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from clusterlab.client import Client, Object

_EVENTS = "events"


async def take(api: Client) -> dict[str, Object]:
    """
    Give all objects, each by kind, namespace and name.
    """
    found: dict[str, Object] = {}
    async for group_version, kind in _kinds(api):
        for each in await api.list(f"{_root(group_version)}/{kind}"):
            found[f"{kind} {_name(each['metadata'])}"] = each
    return found


def mentions(found: Mapping[str, Object], word: str) -> set[str]:
    """
    Name the objects that have a word anywhere: in names, labels, annotations, conditions, owners, managers of fields.
    """
    return {name for name, each in found.items() if word in json.dumps(_without_images(each))}


async def _kinds(api: Client) -> AsyncIterator[tuple[str, str]]:
    """
    Yield group, version and plural of whatever can be listed.
    """
    groups = (await api.get("/apis") or {})["groups"]
    for group_version in ("v1", *(each["preferredVersion"]["groupVersion"] for each in groups)):
        for each in (await api.get(_root(group_version)) or {}).get("resources", []):
            if "list" in each["verbs"] and each["name"] != _EVENTS:
                yield group_version, each["name"]


def _root(group_version: str) -> str:
    return f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"


def _name(metadata: Mapping[str, Any]) -> str:
    return f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else str(metadata["name"])


def _without_images(found: Object) -> Object:
    """
    Leave out which images a node has: they are the kubelet's to keep or to remove.
    """
    status = {key: value for key, value in found.get("status", {}).items() if key != "images"}
    return {**found, "status": status}
