"""
The mirror of the nodes, which keeps of each only the labels that are asked for.

Which those are stands in the resource, so another resource may need another mirror.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from fractioning_core.kube.collections import Collection
from fractioning_core.kube.mirror import Mirror
from fractioning_core.kube.transport import StreamingApi

from controller.source import Source
from controller.world import NodeView

NODES = Collection("", "v1", "nodes")


class NodeSource:
    """
    The nodes, while it runs.

    Args:
        transport: The API server.
        changed: Called as by a mirror.
        clock: The loop's time.
    """

    def __init__(self, transport: StreamingApi, *, changed: Callable[[], None], clock: Callable[[], float]) -> None:
        self.source: Source[NodeView] | None = None
        """
        None until somebody asks for nodes.
        """
        self._api = transport
        self._changed = changed
        self._clock = clock
        self._keys: frozenset[str] | None = None
        self._is_other = asyncio.Event()

    def want(self, keys: frozenset[str]) -> None:
        """
        Ask for nodes with these labels from now on.
        """
        if keys != self._keys:
            self._keys, self.source = keys, self._source(keys)
            self._is_other.set()

    async def run(self) -> None:
        """
        Keep the mirror that is wanted up to date, for ever.
        """
        async with asyncio.TaskGroup() as group:
            running: asyncio.Task[None] | None = None
            while True:
                await self._is_other.wait()
                self._is_other.clear()
                if running is not None:
                    running.cancel()
                if self.source is not None:
                    running = group.create_task(self.source.mirror.run(), name=f"mirror {NODES}")

    def _source(self, keys: frozenset[str]) -> Source[NodeView]:
        def select(manifest: Mapping[str, Any]) -> NodeView:
            return NodeView.from_manifest(manifest, keys)

        return Source(
            lambda note: Mirror(self._api, NODES, select=select, changed=note),
            changed=self._changed,
            clock=self._clock,
        )
