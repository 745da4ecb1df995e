"""
What a signal does to the demo: it ends the show once, and never disturbs the clean-up.
"""

from __future__ import annotations

import asyncio
import signal
from typing import Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """
    Turns the first signal into a cancellation of a task; asyncio's own handler would let a second one through.

    Args:
        task: What is cancelled.
    """

    def __init__(self, task: asyncio.Task[object] | None) -> None:
        self.signum: signal.Signals | None = None
        self._task = task

    @classmethod
    def watch(cls) -> Self:
        """
        Interrupt the current task from now on.
        """
        interruption = cls(asyncio.current_task())
        for signum in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(signum, interruption.note, signum)
        return interruption

    def defer(self) -> None:
        """
        From now on a signal changes nothing: what is under way is the clean-up.
        """
        self._task = None

    def note(self, signum: signal.Signals) -> None:
        """
        Take notice of a signal.
        """
        if self._task is not None:
            self.signum = signum
            self._task.cancel()
            self.defer()
