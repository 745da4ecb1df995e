"""Writes log lines from a thread of its own, so that a stuck pipe never stops whoever logs.

A container's stdout is a pipe, and a pipe that nobody reads blocks its writer once 64 KiB wait in it. An event loop
that blocks there misses the deadline of its runtime, which then starts a container without its limit. Lines therefore
go into a queue with a bound. When it is full they are dropped and counted, until half of it is free again, and the
next line that is kept stands behind one that tells the number: with a free slot as the only condition, a slow reader
would get as many notices as lines.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Self, TextIO

import attrs

from fractioning_core.errors import Misuse

MAX_LINES = 10_000
"""At some 300 bytes a line, 3 MB that a stuck reader may cost."""

CLOSE_SECONDS = 1.0
"""How long the end of a service waits for its last lines."""

_MAX_BATCH = 256
"""Lines written with one call, so that a burst costs few of them."""


@attrs.define(eq=False)
class LogWriter:
    """
    A queue of lines and the thread that writes them; close it, or leave it as a context manager.

    Args:
        stream: Where lines go. Its file descriptor is used directly where it has one: the buffer of a text stream has
            a lock, and a thread stuck behind it would make the interpreter abort at exit.
        tell_dropped: Renders the line that tells how many lines are missing before it.
        max_lines: Bound of the queue.
        close_seconds: Bound of `close`.
    """

    _stream: TextIO
    _tell_dropped: Callable[[int], str]
    max_lines: int = attrs.field(default=MAX_LINES, kw_only=True)
    close_seconds: float = attrs.field(default=CLOSE_SECONDS, kw_only=True)
    dropped: int = attrs.field(default=0, init=False)
    """Lines dropped since the last notice."""

    # Of the standard library's queues the one whose put may interrupt itself, as a finaliser that logs makes it do.
    _queue: SimpleQueue[str | None] = attrs.field(factory=SimpleQueue, init=False)
    _lock: threading.RLock = attrs.field(factory=threading.RLock, init=False)
    _closed: bool = attrs.field(default=False, init=False)
    _thread: threading.Thread = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        if self.max_lines < 1:
            raise Misuse(f"a log queue of {self.max_lines} lines")
        # A daemon, since a write that never returns must not keep the process alive.
        self._thread = threading.Thread(
            target=self._drain, args=(_unbuffered(self._stream),), name="log-writer", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, line: str) -> None:
        """
        Queue a line, or count it as dropped; never waits.
        """
        with self._lock:
            room = (self.max_lines + 1) // 2 if self.dropped else self.max_lines
            if self._closed or self._queue.qsize() >= room:
                self.dropped += 1
                return
            self._put_notice()
            self._queue.put(line)

    def close(self) -> None:
        """
        Write what is queued, within the bound; later lines are dropped.
        """
        with self._lock:
            if not self._closed:
                self._closed = True
                self._put_notice()
                self._queue.put(None)
        self._thread.join(self.close_seconds)

    def _put_notice(self) -> None:
        if self.dropped:
            self._queue.put(self._tell_dropped(self.dropped))
            self.dropped = 0

    def _drain(self, write: Callable[[str], None]) -> None:
        lines: list[str] = []
        while (line := self._queue.get()) is not None:
            lines.append(line)
            if self._queue.empty() or len(lines) >= _MAX_BATCH:
                self._write_batch(write, lines)
                lines = []
        self._write_batch(write, lines)

    def _write_batch(self, write: Callable[[str], None], lines: list[str]) -> None:
        try:
            write("".join(f"{line}\n" for line in lines))
        except (OSError, ValueError):
            # The reader is gone or the stream is closed; a service does not end because nobody listens.
            with self._lock:
                self.dropped += len(lines)


def _unbuffered(stream: TextIO) -> Callable[[str], None]:
    try:
        fd = stream.fileno()
    except (io.UnsupportedOperation, AttributeError):
        return _flushed(stream)
    return lambda text: _write_all(fd, text.encode("utf-8", "backslashreplace"))


def _flushed(stream: TextIO) -> Callable[[str], None]:
    def write(text: str) -> None:
        stream.write(text)
        stream.flush()

    return write


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        # Another process that shares the pipe may have made it non-blocking; waiting is what this thread is for.
        with contextlib.suppress(BlockingIOError):
            rest = rest[os.write(fd, rest) :]
            continue
        poll = select.poll()
        poll.register(fd, select.POLLOUT)
        poll.poll()
