"""
One thread for calls that may hang.

Not asyncio's threads: a pool starts one more for every call that hangs, and the interpreter waits for all of them when
it ends. Here at most one call is under way; who comes while it is overdue is told so at once, and the thread, if it
never comes back, dies with the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import attrs

T = TypeVar("T")


@attrs.frozen(auto_exc=False)
class Overdue(Exception):  # noqa: N818 - a state, which the caller tells in its own words
    """
    The call under way has not returned in time.

    Args:
        seconds: Since when it is under way.
    """

    seconds: float


@attrs.frozen(eq=False)
class _Call:
    """
    A call that was handed to the thread.
    """

    job: Callable[[], object]
    loop: asyncio.AbstractEventLoop
    result: asyncio.Future[Any]
    started_at: float
    due_at: float

    def perform(self) -> None:
        """
        Do it, in the thread, and tell the loop.
        """
        try:
            value, error = self.job(), None
        except Exception as raised:  # noqa: BLE001 - whatever it is, it is raised where it was asked for
            value, error = None, raised
        # The loop may be gone by the time that a hanging call returns.
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._settle, value, error)

    def _settle(self, value: object, error: Exception | None) -> None:
        if error is None:
            self.result.set_result(value)
        else:
            self.result.set_exception(error)
            # Whoever asked may have left; asyncio would log that nobody looked.
            self.result.exception()


class Worker:
    """
    The thread, and the line before it.

    Args:
        name: What the thread is called.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._turn = asyncio.Lock()
        self._current: _Call | None = None
        self._has_thread = False
        self._is_closed = False

    async def do(self, job: Callable[[], T], *, deadline_seconds: float) -> T:
        """
        Call something in the thread.

        Args:
            job: What to call.
            deadline_seconds: How long to wait, for the turn included.

        Returns:
            What it returned; what it raised is raised.

        Raises:
            Overdue: It has not returned in time, or one before it has not.
        """
        loop = asyncio.get_running_loop()
        deadline = asyncio.timeout_at(loop.time() + deadline_seconds)
        try:
            async with deadline, self._turn:
                await self._wait_for_thread(loop.time())
                due_at = loop.time() + deadline_seconds
                call = _Call(job, loop, loop.create_future(), started_at=loop.time(), due_at=due_at)
                self._hand_over(call)
                # Shielded: the thread goes on with it, whether or not anybody waits.
                value: T = await asyncio.shield(call.result)
                return value
        except TimeoutError as error:
            if not deadline.expired():
                # The job's own.
                raise
            raise Overdue(self._seconds_under_way(loop.time(), otherwise=deadline_seconds)) from error

    def close(self) -> None:
        """
        Let the thread end after the call under way; waits for nothing.
        """
        self._is_closed = True
        self._calls.put(None)

    async def end_with(self, last: Callable[[], object], *, patience_seconds: float) -> None:
        """
        Let the thread end after the call under way and one more.

        Args:
            last: What to call, unless nothing ever was.
            patience_seconds: How long to wait for it; what it raises by then is raised.
        """
        if self._is_closed or not self._has_thread:
            self.close()
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        call = _Call(last, loop, loop.create_future(), started_at=now, due_at=now + patience_seconds)
        self._calls.put(call)
        self.close()
        await asyncio.wait([call.result], timeout=patience_seconds)
        if call.result.done():
            call.result.result()

    async def _wait_for_thread(self, now: float) -> None:
        """
        Wait for a call whose caller has left before it was due, such as one that was cancelled.
        """
        current = self._current
        if current is None or current.result.done():
            return
        if now >= current.due_at:
            raise Overdue(now - current.started_at)
        await asyncio.wait([current.result])

    def _seconds_under_way(self, now: float, *, otherwise: float) -> float:
        current = self._current
        return otherwise if current is None or current.result.done() else now - current.started_at

    def _hand_over(self, call: _Call) -> None:
        if not self._has_thread:
            # A daemon thread: the interpreter does not wait for it.
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
            self._has_thread = True
        self._current = call
        self._calls.put(call)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call.perform()
