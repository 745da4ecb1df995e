from __future__ import annotations

import io
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import attrs
import pytest
from fractioning_core.errors import Misuse
from fractioning_core.service.logwriter import LogWriter


def tell(count: int) -> str:
    return f"dropped {count}"


class GatedStream(io.StringIO):
    """A stream whose writes wait for a gate, as those to a full pipe do."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.reached = threading.Event()

    def write(self, text: str) -> int:
        """Say that a write is under way, and wait."""
        self.reached.set()
        assert self.gate.wait(30)
        return super().write(text)


def a_stuck_writer(max_lines: int) -> tuple[LogWriter, GatedStream]:
    """Return a writer with an empty queue whose thread is stuck with the line `first`."""
    stream = GatedStream()
    writer = LogWriter(stream, tell, max_lines=max_lines)
    writer.write("first")
    assert stream.reached.wait(30)
    return writer, stream


@attrs.frozen
class Pipe:
    reader: int
    stream: TextIO

    def read_all(self) -> str:
        """Close our end for writing and read what was written."""
        self.stream.close()
        with os.fdopen(os.dup(self.reader), encoding="utf-8") as rest:
            return rest.read()


@contextmanager
def a_pipe() -> Iterator[Pipe]:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        yield Pipe(reader, stream)
    os.close(reader)


class TestWrite:
    def test_order(self) -> None:
        """Lines come out whole and in order."""
        stream = io.StringIO()
        lines = [f"line {number}" for number in range(1000)]

        with LogWriter(stream, tell) as writer:
            for line in lines:
                writer.write(line)

        assert lines == stream.getvalue().splitlines()

    def test_full_queue(self) -> None:
        """A full queue drops lines, and the next line that is kept stands behind their number."""
        writer, stream = a_stuck_writer(max_lines=4)
        for number in range(7):
            writer.write(f"line {number}")
        stream.gate.set()
        while writer.dropped:
            writer.write("late")
        writer.close()

        written = stream.getvalue().splitlines()
        notice = written[5]

        assert ["first", "line 0", "line 1", "line 2", "line 3", "late"] == written[:5] + written[6:]
        assert re.fullmatch(r"dropped \d+", notice)

    def test_half_free_queue(self) -> None:
        """Once it drops, it goes on until half of the queue is free, so that a slow reader gets few notices."""
        writer, stream = a_stuck_writer(max_lines=4)
        for number in range(5):
            writer.write(f"line {number}")

        taken = [writer._queue.get_nowait() for _ in range(2)]
        writer.write("too early")
        taken.append(writer._queue.get_nowait())
        writer.write("in time")
        stream.gate.set()
        writer.close()

        assert ["line 0", "line 1", "line 2"] == taken
        assert ["first", "line 3", "dropped 2", "in time"] == stream.getvalue().splitlines()

    def test_smallest_queue(self) -> None:
        """A queue for one line has room again once that line is taken."""
        writer, stream = a_stuck_writer(max_lines=1)
        for line in ("kept", "dropped"):
            writer.write(line)

        taken = writer._queue.get_nowait()
        writer.write("in time")
        stream.gate.set()
        writer.close()

        assert "kept" == taken
        assert ["first", "dropped 1", "in time"] == stream.getvalue().splitlines()

    def test_pipe_that_nobody_reads(self) -> None:
        """Whoever logs is never held up by a full pipe, and every line is either kept or counted."""
        with a_pipe() as pipe:
            writer = LogWriter(pipe.stream, tell, close_seconds=30)
            for number in range(50_000):
                writer.write(f"line {number}")
            dropped = writer.dropped
            received: list[str] = []
            reading = threading.Thread(target=lambda: received.extend(_lines_until(pipe.reader, "last")))
            reading.start()
            while writer.dropped:
                writer.write("last")
            writer.close()
            reading.join(30)

        kept = [line for line in received if line.startswith("line ")]
        told = [int(line.removeprefix("dropped ")) for line in received if line.startswith("dropped ")]
        assert 50_000 == len(kept) + dropped
        assert told[0] >= dropped > 0
        assert [f"line {number}" for number in range(len(kept))] == kept

    def test_non_blocking_pipe(self) -> None:
        """A pipe that somebody made non-blocking gets every byte all the same."""
        with a_pipe() as pipe:
            os.set_blocking(pipe.stream.fileno(), False)
            writer = LogWriter(pipe.stream, tell, close_seconds=30)
            lines = [f"{number}" * 100 for number in range(1000)]
            for line in [*lines, "last"]:
                writer.write(line)
            received = _lines_until(pipe.reader, "last")
            writer.close()

        assert [*lines, "last"] == received

    def test_text_that_is_no_unicode(self) -> None:
        """Half of a surrogate pair is escaped and costs no line."""
        with a_pipe() as pipe:
            with LogWriter(pipe.stream, tell) as writer:
                writer.write("a\udc80b")
                writer.write("next")
            received = pipe.read_all()

        assert "a\\udc80b\nnext\n" == received

    def test_reader_that_went_away(self) -> None:
        """Lines that cannot be written are counted, and the thread lives on."""
        reader, descriptor = os.pipe()
        os.close(reader)
        with os.fdopen(descriptor, "w") as stream:
            writer = LogWriter(stream, tell)
            writer.write("lost")
            writer.close()

        assert (1, False) == (writer.dropped, writer._thread.is_alive())

    def test_line_from_inside_a_write(self) -> None:
        """A finaliser that logs while its thread is inside the writer does not wait for itself."""
        stream = io.StringIO()
        with LogWriter(stream, tell) as writer, writer._lock:
            writer.write("from a finaliser")

        assert "from a finaliser\n" == stream.getvalue()


class TestClose:
    def test_stuck_stream(self) -> None:
        """Closing gives up after its bound."""
        stream = GatedStream()
        writer = LogWriter(stream, tell, close_seconds=0.01)
        writer.write("line")
        writer.close()

        alive = writer._thread.is_alive()
        stream.gate.set()

        assert alive

    def test_dropped_at_the_end(self) -> None:
        """What was dropped and never told is told by closing."""
        writer, stream = a_stuck_writer(max_lines=1)
        for line in ("kept", "dropped", "dropped"):
            writer.write(line)
        stream.gate.set()
        writer.close()

        assert ["first", "kept", "dropped 2"] == stream.getvalue().splitlines()

    def test_twice(self) -> None:
        """Closing twice is closing, and a later line is dropped."""
        stream = io.StringIO()
        writer = LogWriter(stream, tell)
        writer.close()
        writer.write("late")
        writer.close()

        assert ("", 1) == (stream.getvalue(), writer.dropped)


class TestBounds:
    def test_no_queue(self) -> None:
        """A queue without room for a line is a bug."""
        with pytest.raises(Misuse):
            LogWriter(io.StringIO(), tell, max_lines=0)


def _lines_until(reader: int, last: str) -> list[str]:
    lines: list[str] = []
    with os.fdopen(os.dup(reader), encoding="utf-8") as stream:
        for line in stream:
            lines.append(line.rstrip("\n"))
            if lines[-1] == last:
                break
    return lines
