"""
Kinds of our own in the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fractioning_core.errors import FractioningError
from fractioning_core.kube.transport import Request, Transport
from lab import waiting

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SECONDS = 30.0


async def install(api: Transport, manifest: Mapping[str, Any]) -> None:
    """
    Make a definition that is not there yet, and wait until objects of its kind can be listed.
    """
    await api.ask(Request("POST", PATH, body=manifest))
    await served(api, manifest)


async def served(api: Transport, manifest: Mapping[str, Any], *, timeout_seconds: float = SECONDS) -> None:
    """
    Wait until a definition is established, and objects of its kind can be listed.

    Neither follows from the other: objects may be served a moment later, and whoever asks in between takes them for
    absent; or a moment earlier, and then the definition is still written to.
    """
    spec = manifest["spec"]
    path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"

    async def is_served() -> bool:
        try:
            definition = await api.ask(Request("GET", f"{PATH}/{manifest['metadata']['name']}"))
            await api.ask(Request("GET", path))
        except FractioningError:
            return False
        # Null at first.
        conditions = definition.get("status", {}).get("conditions") or ()
        return ("Established", "True") in [(each["type"], each["status"]) for each in conditions]

    await waiting.until_awaited(is_served, what=path, timeout_seconds=timeout_seconds)


async def remove(api: Transport, name: str) -> None:
    """
    Delete a definition and all its objects, and wait until it is gone.
    """
    await api.ask(Request("DELETE", f"{PATH}/{name}"))

    async def is_gone() -> bool:
        listed = await api.ask(Request("GET", PATH))
        return name not in [item["metadata"]["name"] for item in listed["items"]]

    await waiting.until_awaited(is_gone, what=f"the end of {name}", timeout_seconds=SECONDS)
