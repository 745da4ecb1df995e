"""
What others wrote into the spec of an object of ours, and how it goes.

An apply gives our fields our values and leaves those of others alone, such as an annotation that somebody added to a
pod template. The server records whose each field is, so what is not ours is seen without comparing values, of which
half are its defaults. It goes by writing the whole object once, and with it the record that it was theirs: the server
would keep that for what we want, too, and so objects that another program made, which we took over, would be told
apart for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller import manifests


def is_foreign(found: Mapping[str, Any], *, manager: str) -> bool:
    """
    Say whether somebody else has a field of an object's spec.

    Args:
        found: The object as the server has it.
        manager: Who we are.
    """
    return any(_is_theirs(entry, manager) for entry in manifests.iter_objects(found, "metadata", "managedFields"))


def replacement(found: Mapping[str, Any], wanted: Mapping[str, Any], *, manager: str) -> Mapping[str, Any]:
    """
    Make the object whose spec holds what we want and nothing else.

    Args:
        found: The object as the server has it; its version guards against a writer in between.
        wanted: Our fields.
        manager: Who we are.
    """
    metadata = dict(found["metadata"])
    entries = manifests.iter_objects(found, "metadata", "managedFields")
    metadata["managedFields"] = [entry for entry in entries if not _is_theirs(entry, manager)]
    for part in ("labels", "annotations"):
        metadata[part] = {**manifests.mapping(found, "metadata", part), **manifests.mapping(wanted, "metadata", part)}
    return {
        "apiVersion": wanted["apiVersion"],
        "kind": wanted["kind"],
        "metadata": {**metadata, "ownerReferences": wanted["metadata"]["ownerReferences"]},
        "spec": wanted["spec"],
    }


def _is_theirs(entry: Mapping[str, Any], manager: str) -> bool:
    # Entries of a subresource are about its part alone: the DaemonSet controller's is about the status.
    is_whole = not manifests.text(entry, "subresource")
    return is_whole and manifests.text(entry, "manager") != manager and "f:spec" in manifests.mapping(entry, "fieldsV1")
