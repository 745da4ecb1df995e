"""Runs a service: its log, the event loop, the signals, and what becomes of an error nobody caught.

The first SIGTERM or SIGINT sets the event that the service's main awaits; it stops taking work, drains, and returns.
The second ends the process at once, even when the event loop is stuck, because whoever sends it has waited enough.

A worker thread may be stuck in a call that never returns, on a dead disk say. Such a thread cannot be ended, and an
interpreter that exits waits for it; so after a moment the process ends without it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType, TracebackType
from typing import Self

import attrs
import structlog
import uvloop

from fractioning_core.errors import FractioningError
from fractioning_core.service import logs
from fractioning_core.service.logwriter import LogWriter

EXIT_OK = 0
EXIT_FAILED = 1

WORKERS_SECONDS = 1.0
"""How long the end of a service waits for calls that its threads are in."""

_WORKERS = "service-worker"
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run(main: Callable[[asyncio.Event], Awaitable[None]], *, service: str, log_level: str) -> int:
    """
    Run the main coroutine of a service until it returns.

    Args:
        main: Called with the event that the first signal sets.
        service: Name that every log line carries.
        log_level: The least level to log.

    Returns:
        The exit status: 0 when main returned, 1 when it raised. Every error is logged, one line each: an expected one
        (`FractioningError`) with its text, any other with its traceback. A second signal does not return.
    """
    # The signals come before the loop, so that a second one still counts while the loop waits for its last threads.
    with logs.configure(log_level, service=service) as writer, _Signals() as signals:
        return _run(main, signals, writer)


def _run(main: Callable[[asyncio.Event], Awaitable[None]], signals: _Signals, writer: LogWriter) -> int:
    stop = asyncio.Event()
    log = structlog.get_logger()
    status = EXIT_FAILED
    workers = ThreadPoolExecutor(thread_name_prefix=_WORKERS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        loop = runner.get_loop()
        loop.set_default_executor(workers)
        signals.deliver_to(lambda: loop.call_soon_threadsafe(stop.set))
        try:
            runner.run(_awaited(main(stop)))
            status = EXIT_OK
        except* FractioningError as expected:
            for error in _leaves(expected):
                log.error("service_failed", kind=type(error).__name__, error=str(error))  # noqa: TRY400 - says enough
        except* Exception as unexpected:
            for error in _leaves(unexpected):
                log.exception("service_crashed", exc_info=error)
        finally:
            signals.deliver_to(None)
            workers.shutdown(wait=False, cancel_futures=True)
            _leave_stuck_threads(status, writer)
    return status


def _leave_stuck_threads(status: int, writer: LogWriter) -> None:
    """
    End the process here if a worker thread does not end; otherwise return.
    """
    until = time.monotonic() + WORKERS_SECONDS
    threads = [thread for thread in threading.enumerate() if thread.name.startswith(_WORKERS)]
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    stuck = sum(thread.is_alive() for thread in threads)
    if stuck:
        structlog.get_logger().warning("threads_left_behind", count=stuck)
        writer.close()
        os._exit(status)


@attrs.define(eq=False)
class _Signals:
    """
    Catches signals in the interpreter rather than in the event loop, whose callbacks do not run while it is stuck.
    """

    _deliver: Callable[[], object] | None = attrs.field(default=None, init=False)
    _received: int = attrs.field(default=0, init=False)
    _previous: dict[int, object] = attrs.field(factory=dict, init=False)

    def __enter__(self) -> Self:
        self._previous = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type] # what signal.signal itself returned

    def deliver_to(self, deliver: Callable[[], object] | None) -> None:
        """
        Say what the first signal calls; one that came before is delivered now.
        """
        self._deliver = deliver
        if deliver is not None and self._received:
            deliver()

    def _handle(self, _: int, __: FrameType | None) -> None:
        self._received += 1
        if self._received > 1:
            # Not an exception: it would have to pass through whatever is stuck.
            os._exit(EXIT_FAILED)
        if self._deliver is not None:
            self._deliver()


async def _awaited(awaitable: Awaitable[None]) -> None:
    await awaitable


def _leaves(group: BaseExceptionGroup[Exception]) -> Iterator[Exception]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
