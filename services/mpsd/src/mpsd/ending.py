"""
How a control daemon is ended.

Gracefully: `quit`, typed at the daemon, which waits for its clients; then, after the delay, as a hard end. Hard:
SIGKILL for the daemon and for its servers, which outlive it and hold the GPU's state.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import structlog

from mpsd.launcher import Child

# A killed process that does not end hangs in the kernel; nothing is won by waiting longer.
KILL_PATIENCE_SECONDS = 10.0


class Servers(Protocol):
    """The servers of the daemon; `launcher` finds them."""

    async def kill_servers(self) -> None:
        """Kill them."""


class Ending:
    """
    Both ways; each tells whether the daemon has ended.

    Args:
        servers: The daemon's servers.
        stop_delay_seconds: How long a daemon that was told to quit may take.
    """

    def __init__(self, servers: Servers, *, stop_delay_seconds: float) -> None:
        self._servers = servers
        self._stop_delay_seconds = stop_delay_seconds
        self._patience: asyncio.Timeout | None = None
        self._log = structlog.get_logger()

    async def quit(self, child: Child) -> bool:
        """
        Ask it to end, and kill it when it takes too long or cannot be asked.
        """
        if child.ask_quit():
            if await self._ends_within(child, self._stop_delay_seconds):
                return True
            self._log.warning("daemon_did_not_quit", pid=child.pid, after_seconds=self._stop_delay_seconds)
        return await self.kill(child)

    def harden(self) -> None:
        """
        Let whoever waits for a daemon to quit wait no longer.
        """
        if self._patience is not None and not self._patience.expired():
            self._patience.reschedule(asyncio.get_running_loop().time())

    async def kill(self, child: Child) -> bool:
        """
        Kill it and its servers.
        """
        child.kill()
        await self._servers.kill_servers()
        if await _ends_within(child, asyncio.timeout(KILL_PATIENCE_SECONDS)):
            return True
        self._log.error("daemon_survives_kill", pid=child.pid)
        return False

    async def _ends_within(self, child: Child, seconds: float) -> bool:
        self._patience = asyncio.timeout(seconds)
        try:
            return await _ends_within(child, self._patience)
        finally:
            self._patience = None


async def _ends_within(child: Child, patience: asyncio.Timeout) -> bool:
    try:
        async with patience:
            await child.wait()
    except TimeoutError:
        return False
    return True
