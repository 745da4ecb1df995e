"""
One object at a time: read, written and removed.

Nothing is tried again here. An answer that says no is an error whose type tells what to do: a `Conflict` is read anew,
an `ApiOverloaded` says how long to wait, and whoever reconciles does both by starting over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from fractioning_core.kube.errors import NotFound
from fractioning_core.kube.transport import APPLY_PATCH, JSON, MERGE_PATCH, STRATEGIC_PATCH, Api, Request


@attrs.frozen
class Objects:
    """
    The objects of a cluster, by path.

    Args:
        transport: The API server.
        field_manager: Under which name the server records what we wrote.
    """

    _transport: Api
    _field_manager: str = attrs.field(kw_only=True)

    async def get(self, path: str) -> Mapping[str, Any] | None:
        """
        Read an object; None when there is none.
        """
        try:
            return await self._transport.ask(Request("GET", path))
        except NotFound:
            return None

    async def create(self, path: str, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
        """
        Create an object.

        Args:
            path: That of the collection.
            manifest: The object.

        Raises:
            Conflict: There is one.
        """
        return await self._write("POST", path, manifest, JSON)

    async def apply(self, path: str, manifest: Mapping[str, Any], *, force: bool = True) -> Mapping[str, Any]:
        """
        Create an object, or give the fields that are ours the values that they have here; those of ours that are
        missing here are removed, those of others stay (server-side apply).

        Args:
            path: That of the object.
            manifest: Our fields, with `apiVersion`, `kind` and the name.
            force: Whether fields of others that are named here become ours; otherwise they are a `Conflict`.
        """
        query = {"force": "true" if force else "false"}
        return await self._write("PATCH", path, manifest, APPLY_PATCH, query)

    async def replace(self, path: str, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
        """
        Write a whole object.

        Raises:
            Conflict: It has another `resourceVersion` than the manifest.
        """
        return await self._write("PUT", path, manifest, JSON)

    async def merge_patch(self, path: str, patch: Mapping[str, Any]) -> Mapping[str, Any]:
        """
        Change some fields, and remove those that are None. Lists are replaced.
        """
        return await self._write("PATCH", path, patch, MERGE_PATCH)

    async def strategic_patch(self, path: str, patch: Mapping[str, Any]) -> Mapping[str, Any]:
        """
        Change some fields of a built-in kind, whose lists are merged by the key that the kind names.
        """
        return await self._write("PATCH", path, patch, STRATEGIC_PATCH)

    async def delete(self, path: str, *, uid: str = "", propagation: str = "Background") -> bool:
        """
        Delete an object, or mark it for deletion when it has finalizers.

        Args:
            path: That of the object.
            uid: Only the object that has this one; empty for whichever is called so.
            propagation: What becomes of the objects that it owns: `Background`, `Foreground` or `Orphan`.

        Returns:
            Whether there was one.

        Raises:
            Conflict: The object has another uid.
        """
        options: dict[str, Any] = {"propagationPolicy": propagation}
        if uid:
            options["preconditions"] = {"uid": uid}
        try:
            await self._transport.ask(Request("DELETE", path, body=options))
        except NotFound:
            return False
        return True

    async def _write(
        self, verb: str, path: str, body: Mapping[str, Any], content_type: str, query: Mapping[str, str] | None = None
    ) -> Mapping[str, Any]:
        manager = {"fieldManager": self._field_manager}
        request = Request(verb, path, query={**manager, **(query or {})}, body=body, content_type=content_type)
        return await self._transport.ask(request)
