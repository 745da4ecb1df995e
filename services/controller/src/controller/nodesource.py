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

from controller.world import NodeView

NODES = Collection("", "v1", "nodes")


class NodeSource:
    """
    The nodes, while it runs.

    Args:
        transport: The API server.
        changed: Called as by a mirror.
    """

    def __init__(self, transport: StreamingApi, *, changed: Callable[[], None]) -> None:
        self.mirror: Mirror[NodeView] | None = None
        """
        None until somebody asks for nodes.
        """
        self._api = transport
        self._changed = changed
        self._keys: frozenset[str] | None = None
        self._is_other = asyncio.Event()

    def want(self, keys: frozenset[str]) -> None:
        """
        Ask for nodes with these labels from now on.
        """
        if keys != self._keys:
            self._keys, self.mirror = keys, self._mirror(keys)
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
                if self.mirror is not None:
                    running = group.create_task(self.mirror.run(), name=f"mirror {NODES}")

    def _mirror(self, keys: frozenset[str]) -> Mirror[NodeView]:
        def select(manifest: Mapping[str, Any]) -> NodeView:
            return NodeView.from_manifest(manifest, keys)

        return Mirror(self._api, NODES, select=select, changed=self._changed)
