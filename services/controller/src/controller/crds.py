"""
Brings the CustomResourceDefinition to the cluster, and waits until its resource is served.

Helm creates a chart's definitions and never changes them, so a hook of every installation and upgrade runs this. It
takes every field that the definition names from whoever has it, Helm included; what is gone from the schema is gone
from the cluster. Labels and annotations of others stay, since the definition names none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import attrs
import structlog
from fractioning_core.errors import InvalidInput, ProtocolViolation, Unavailable
from fractioning_core.kube.collections import Collection
from fractioning_core.kube.objects import Objects

from controller import manifests

FIELD_MANAGER = "gpu-fractioning-crd-upgrader"
DEFINITIONS = Collection("apiextensions.k8s.io", "v1", "customresourcedefinitions")
POLL_SECONDS = 1.0
DEADLINE_SECONDS = 120.0


@attrs.frozen(auto_exc=False)
class NotApplied(Unavailable):
    """
    The API server did not take a definition.
    """

    name: str
    cause: str

    def __str__(self) -> str:
        return f"apply CRD {self.name}: {self.cause}"


@attrs.frozen(auto_exc=False)
class NotEstablished(Unavailable):
    """
    A definition was taken and its resource is not served.
    """

    name: str
    cause: str

    def __str__(self) -> str:
        return f"wait for CRD {self.name} to be established: {self.cause}"


async def bring(objects: Objects, definition: Mapping[str, Any]) -> None:
    """
    Apply a definition and wait for it to be established.

    Args:
        objects: The API server, which is to know us as `FIELD_MANAGER`.
        definition: The manifest.

    Raises:
        NotApplied: The server does not want it, or is not there.
        NotEstablished: Its names are taken, it is gone again, or it takes too long.
    """
    name = manifests.text(definition, "metadata", "name")
    path = DEFINITIONS.item_path(name)
    try:
        await objects.apply(path, definition)
    except (Unavailable, InvalidInput, ProtocolViolation) as error:
        raise NotApplied(name, str(error)) from error
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await _established(objects, path, name)
    except TimeoutError as error:
        raise NotEstablished(name, f"not within {DEADLINE_SECONDS:g} s") from error
    structlog.get_logger().info("crd_established", crd=name)


async def _established(objects: Objects, path: str, name: str) -> None:
    while True:
        try:
            found = await objects.get(path)
        except (Unavailable, InvalidInput, ProtocolViolation) as error:
            raise NotEstablished(name, str(error)) from error
        if found is None:
            raise NotEstablished(name, "it is gone")
        if is_established(found):
            return
        names = manifests.condition(found, "NamesAccepted")
        if names.get("status") == "False":
            raise NotEstablished(name, manifests.text(names, "message"))
        await asyncio.sleep(POLL_SECONDS)


def is_established(definition: Mapping[str, Any]) -> bool:
    """
    Say whether a definition's resource is served.
    """
    return manifests.condition(definition, "Established").get("status") == "True"
