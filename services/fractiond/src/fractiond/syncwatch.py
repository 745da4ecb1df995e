"""
Tells who holds up our registration.

While the runtime keeps us waiting for its Synchronize, some container is usually in a graceful stop. CRI shows such
a container as running until it is dead, so it is named afterwards: those that ended while we waited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

import structlog
from nri_aio.cri import Container, ContainerState
from nri_aio.errors import CriError

from fractiond.connection_state import ConnectionState, Phase
from fractiond.metrics import Metrics

# A registration takes milliseconds on an idle node and some 150 ms with 500 containers.
PATIENCE_SECONDS = 2.0


class Lister(Protocol):
    """The one call of the CRI client that is needed here."""

    async def list_containers(self) -> Sequence[Container]:
        """List every container the runtime knows."""


class SynchronizeWatch:
    """Runs beside one registration."""

    def __init__(self, lister: Lister, *, state: ConnectionState, metrics: Metrics) -> None:
        self._lister = lister
        self._state = state
        self._metrics = metrics
        self._log = structlog.get_logger()

    async def run(self) -> None:
        """Say so when the wait is long, and name what ended it."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        await asyncio.sleep(PATIENCE_SECONDS)
        if self._state.phase is Phase.ACTIVE:
            return
        self._metrics.delayed.inc()
        before = await self._running()
        self._log.warning("synchronize_delayed", state=self._state.readiness().reason, running=len(before or ()))
        await self._state.wait_active()
        after = await self._running()
        waited = round(loop.time() - started, 1)
        self._log.warning("synchronize_arrived", waited_seconds=waited, ended_meanwhile=_ended(before, after))

    async def _running(self) -> dict[str, str] | None:
        """Give what runs, id to `namespace/pod/container`; None where CRI does not answer."""
        try:
            listed = await self._lister.list_containers()
        except CriError as error:
            self._log.warning("containers_not_listed", error=str(error))
            return None
        return {each.id: _label(each) for each in listed if each.state is ContainerState.RUNNING}


def _ended(before: dict[str, str] | None, after: dict[str, str] | None) -> list[str] | None:
    """Name what ran before and does not now; None where that is not known."""
    if before is None or after is None:
        return None
    return sorted(label for container_id, label in before.items() if container_id not in after)


def _label(container: Container) -> str:
    labels = container.labels
    namespace = labels.get("io.kubernetes.pod.namespace", "?")
    return f"{namespace}/{labels.get('io.kubernetes.pod.name', '?')}/{container.name} {container.id[:12]}"
