"""The two ways in which a control daemon ends, in virtual time."""

from __future__ import annotations

import asyncio

import attrs
import pytest
from mpsd.ending import KILL_PATIENCE_SECONDS, Ending

pytestmark = pytest.mark.looptime


@attrs.define(eq=False)
class Daemon:
    """A daemon that quits after a while, and may survive a kill; it counts what is done to it and its servers."""

    quit_seconds: float
    survives: bool = False
    is_deaf: bool = False
    pid: int = 1
    done: list[str] = attrs.field(factory=list)
    ended: asyncio.Event = attrs.field(factory=asyncio.Event)

    async def wait(self) -> int:
        """Wait for its end."""
        await self.ended.wait()
        return 0

    def ask_quit(self) -> bool:
        """Quit in its own time, if it can be asked."""
        if self.is_deaf:
            return False
        self.done.append("quit")
        asyncio.get_running_loop().call_later(self.quit_seconds, self.ended.set)
        return True

    def kill(self) -> None:
        """Die, unless it hangs in the kernel."""
        self.done.append("kill")
        if not self.survives:
            self.ended.set()

    def close(self) -> None:
        """Let go."""

    async def kill_servers(self) -> None:
        """Note that its servers are killed."""
        self.done.append("kill servers")


async def seconds_of(daemon: Daemon, *, hard: bool = False) -> float:
    ending = Ending(daemon, stop_delay_seconds=60.0)
    await (ending.kill(daemon) if hard else ending.quit(daemon))
    return asyncio.get_running_loop().time()


class TestQuit:
    async def test_in_time(self) -> None:
        """A daemon that obeys is left to it, with its servers."""
        daemon = Daemon(quit_seconds=59.0)

        assert (59.0, ["quit"]) == (await seconds_of(daemon), daemon.done)

    async def test_too_late(self) -> None:
        """After the delay it is ended as a hard end does."""
        daemon = Daemon(quit_seconds=61.0)

        assert (60.0, ["quit", "kill", "kill servers"]) == (await seconds_of(daemon), daemon.done)

    async def test_one_that_cannot_be_asked(self) -> None:
        """Where nobody reads what is typed, the hard end comes at once."""
        daemon = Daemon(quit_seconds=0.0, is_deaf=True)

        assert (0.0, ["kill", "kill servers"]) == (await seconds_of(daemon), daemon.done)

    async def test_hardened(self) -> None:
        """Whoever waits for it to quit can be told to wait no longer, once or more often."""
        daemon = Daemon(quit_seconds=60.0)
        ending = Ending(daemon, stop_delay_seconds=60.0)
        for seconds in (5.0, 5.0):
            asyncio.get_running_loop().call_later(seconds, ending.harden)
        has_ended = await ending.quit(daemon)

        assert (True, 5.0) == (has_ended, asyncio.get_running_loop().time())
        assert ["quit", "kill", "kill servers"] == daemon.done

    async def test_nobody_waits(self) -> None:
        """To harden what nobody waits for does nothing, and the next wait is whole."""
        daemon = Daemon(quit_seconds=59.0)
        ending = Ending(daemon, stop_delay_seconds=60.0)
        ending.harden()

        assert (True, ["quit"]) == (await ending.quit(daemon), daemon.done)


class TestKill:
    async def test_takes_the_servers_along(self) -> None:
        """Nobody is asked."""
        daemon = Daemon(quit_seconds=0.0)

        assert (0.0, ["kill", "kill servers"]) == (await seconds_of(daemon, hard=True), daemon.done)

    async def test_one_that_survives_is_not_waited_for(self) -> None:
        """A process that hangs in the kernel does not hang us, and is told from one that ended."""
        daemon = Daemon(quit_seconds=0.0, survives=True)
        has_ended = await Ending(daemon, stop_delay_seconds=60.0).kill(daemon)

        assert (False, KILL_PATIENCE_SECONDS) == (has_ended, asyncio.get_running_loop().time())
