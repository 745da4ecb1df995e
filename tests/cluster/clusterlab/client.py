"""
Questions to the API server, and waits for what it is to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from fractioning_core.errors import FractioningError
from fractioning_core.kube.errors import NotFound
from fractioning_core.kube.transport import MERGE_PATCH, Request, Transport
from lab import waiting

Object = Mapping[str, Any]
NODES = "/api/v1/nodes"
_SILENCE_SECONDS = 10.0


@attrs.frozen
class Client:
    """
    One who may do everything.
    """

    api: Transport

    async def get(self, path: str) -> Object | None:
        """
        Read an object; None where there is none.
        """
        try:
            return await self.api.ask(Request("GET", path))
        except NotFound:
            return None

    async def list(self, path: str, **query: str) -> Sequence[Object]:
        """
        List objects.
        """
        items: Sequence[Object] = (await self.api.ask(Request("GET", path, query=query)))["items"]
        return items

    async def text(self, path: str, **query: str) -> str:
        """
        Read a page that is no object, such as a log.
        """
        request = Request("GET", path, query=query, accept="*/*")
        async with self.api.stream(request, silence_seconds=_SILENCE_SECONDS) as chunks:
            return b"".join([chunk async for chunk in chunks]).decode(errors="replace")

    async def create(self, path: str, body: Object, **query: str) -> Object:
        """
        Make an object.
        """
        return await self.api.ask(Request("POST", path, body=body, query=query))

    async def patch(self, path: str, body: Object, **query: str) -> Object:
        """
        Merge something into an object.
        """
        return await self.api.ask(Request("PATCH", path, body=body, content_type=MERGE_PATCH, query=query))

    async def delete(self, path: str, *, grace_seconds: int | None = None) -> None:
        """
        Delete an object, if it is there.
        """
        body = None if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
        try:
            await self.api.ask(Request("DELETE", path, body=body))
        except NotFound:
            return

    async def until(
        self,
        path: str,
        holds: Callable[[Object], bool],
        *,
        what: str,
        timeout_seconds: float,
        details: Callable[[], str] = str,
    ) -> Object:
        """
        Wait until an object is there and something holds of it; gives it.
        """
        last: Object | None = None

        async def look() -> Object | None:
            nonlocal last
            try:
                last = await self.get(path)
            except FractioningError:
                return None
            return last if last is not None and holds(last) else None

        def seen() -> str:
            state = "there is none" if last is None else f"status is {last.get('status')}"
            return f"{path}: {state}\n{details()}"

        return await waiting.until_awaited(look, what=what, timeout_seconds=timeout_seconds, details=seen)

    async def until_gone(self, path: str, *, timeout_seconds: float) -> None:
        """
        Wait until an object is not there any more.
        """

        async def is_gone() -> bool:
            return await self.get(path) is None

        await waiting.until_awaited(is_gone, what=f"the end of {path}", timeout_seconds=timeout_seconds)


def condition(found: Object, kind: str) -> Object | None:
    """
    Give a condition of an object.
    """
    conditions = found.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), None)


def is_true(found: Object, kind: str) -> bool:
    """
    Tell whether a condition of an object is True.
    """
    one = condition(found, kind)
    return one is not None and one["status"] == "True"
