"""
Keeps one connection to the runtime, and makes a new one when it ends.

Registering is not cheap for the node (see `turn`), so we never dial again merely because the runtime is slow to
synchronise, and not while a stop of our own is under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import structlog
from fractioning_core.errors import Unavailable
from fractioning_core.service.backoff import RetryBudget
from nri_aio.errors import Misuse, NriError, Unreachable

from fractiond.connection_state import ConnectionState, Phase
from fractiond.metrics import Metrics
from fractiond.turn import Turn


class Link(Protocol):
    """One connection to the runtime."""

    async def run(self) -> None:
        """Serve until the connection ends; raises NriError with the reason."""


class Watch(Protocol):
    """What goes on beside a connection that is being registered."""

    async def run(self) -> None:
        """Run until done or cancelled."""


Dial = Callable[[], AbstractAsyncContextManager[Link]]


# Dialling a socket that nobody serves costs the node nothing, and containers start unfenced until we are back.
QUICK_SECONDS = 1.0


class RuntimeLink:
    """The loop of dialling, serving and waiting."""

    def __init__(
        self,
        dial: Dial,
        *,
        watch: Watch,
        turn: Turn,
        budget: RetryBudget,
        state: ConnectionState,
        metrics: Metrics,
    ) -> None:
        self._dial = dial
        self._watch = watch
        self._turn = turn
        self._budget = budget
        self._state = state
        self._metrics = metrics
        self._log = structlog.get_logger()

    async def run(self) -> None:
        """
        Stay connected, for ever.

        Raises:
            Unavailable: the retry budget is spent.
        """
        loop = asyncio.get_running_loop()
        while True:
            self._state.holding()
            async with self._turn:
                started = loop.time()
                error = await self._serve_once()
                uptime = loop.time() - started
            reason = str(error) if error else "closed"
            delay = self._delay(error, uptime)
            self._state.lost(reason)
            if delay is None:
                raise Unavailable(f"gave up on the runtime after {self._budget.max_retries} retries; last: {reason}")
            self._log.warning(
                "runtime_connection_ended", reason=reason, uptime_seconds=round(uptime, 3), retry_in=delay
            )
            await asyncio.sleep(delay)

    def _delay(self, error: NriError | None, uptime: float) -> float | None:
        """
        Say how long to wait, None for no more.

        The waits grow only for connections that the runtime accepted and dropped: each of those may hold up the node.
        """
        was_active = self._state.phase is Phase.ACTIVE
        if was_active:
            self._budget.relax()
        delay = self._budget.after_run(uptime)
        is_quick = was_active or isinstance(error, Unreachable)
        return delay if delay is None or not is_quick else min(delay, QUICK_SECONDS)

    async def _serve_once(self) -> NriError | None:
        """Connect and serve; give the reason of the end."""
        self._state.dialling()
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._watch.run(), name="watch-synchronize")
            try:
                async with self._dial() as link:
                    self._metrics.connections.inc()
                    await link.run()
            except Misuse:
                raise  # a fault of ours: dialling again would not mend it
            except NriError as error:
                return error
            finally:
                watching.cancel()
        return None
