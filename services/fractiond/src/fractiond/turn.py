"""
One disturbance of the node at a time: a registration of ours, or a stop of ours, never both.

While a container is in a graceful stop, registering a plugin freezes every start, stop and create on the node until
that stop ends (containerd issue 14083). Stops by others cannot be helped; ours can.
"""

from __future__ import annotations

import asyncio
from types import TracebackType


class Turn:
    """An asyncio lock whose holder may let go early, once, from elsewhere."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._holder: object | None = None

    @property
    def is_taken(self) -> bool:
        """Whether somebody disturbs the node right now."""
        return self._lock.locked()

    async def __aenter__(self) -> None:
        await self._lock.acquire()
        self._holder = asyncio.current_task()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._holder is asyncio.current_task():
            self._release()

    def let_go(self, holder: object) -> None:
        """End the turn of the task `holder` before its `async with` does; nothing happens if it has none."""
        if holder is not None and self._holder is holder:
            self._release()

    def _release(self) -> None:
        self._holder = None
        self._lock.release()
