"""Where the connection to the runtime stands, in words for `/readyz`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum

from fractioning_core.service.http import Readiness

from fractiond.metrics import Metrics
from fractiond.turn import Turn


class Phase(Enum):
    """The life of one connection, as a person would tell it."""

    STARTING = "starting"
    HOLDING = "waiting for a stop of ours to end before registering with the runtime"
    DIALLING = "registering with the runtime"
    REGISTERED = "registered, waiting for the runtime's synchronise"
    ACTIVE = "ok"
    LOST = "not connected to the runtime"


class ConnectionState:
    """The current phase, since when, and why; the loop that dials and the plugin that is called both tell it."""

    def __init__(self, clock: Callable[[], float], *, turn: Turn, metrics: Metrics) -> None:
        self._clock = clock
        self._turn = turn
        self._metrics = metrics
        self._registering: asyncio.Task[object] | None = None
        self._active = asyncio.Event()
        self._enter(Phase.STARTING)

    @property
    def phase(self) -> Phase:
        """The current phase."""
        return self._phase

    async def wait_active(self) -> None:
        """Wait until the runtime has synchronised us."""
        await self._active.wait()

    def holding(self) -> None:
        """Note that we wait for our turn to register."""
        self._enter(Phase.HOLDING)

    def dialling(self) -> None:
        """Note that the current task, which has the turn, is connecting."""
        self._registering = asyncio.current_task()
        self._enter(Phase.DIALLING)

    def registered(self) -> None:
        """Note that the runtime took our registration; its Synchronize is still to come."""
        self._enter(Phase.REGISTERED)

    def synchronized(self) -> None:
        """Note that we are on the runtime's list: stops may go on."""
        self._enter(Phase.ACTIVE)
        self._turn.let_go(self._registering)

    def lost(self, reason: str) -> None:
        """Note that the connection ended."""
        self._enter(Phase.LOST, reason)

    def readiness(self) -> Readiness:
        """Answer `/readyz`: ready only while synchronised, which is a fact that the runtime confirmed."""
        if self._phase is Phase.ACTIVE:
            return Readiness(ready=True, reason="ok")
        detail = f": {self._detail}" if self._detail else ""
        return Readiness(ready=False, reason=f"{self._phase.value} ({self._clock() - self._since:.0f} s){detail}")

    def _enter(self, phase: Phase, detail: str = "") -> None:
        self._phase, self._detail, self._since = phase, detail, self._clock()
        self._metrics.connected.set(phase is Phase.ACTIVE)
        if phase is Phase.ACTIVE:
            self._active.set()
        else:
            self._active.clear()
