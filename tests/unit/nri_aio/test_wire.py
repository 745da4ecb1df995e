from __future__ import annotations

import asyncio

from nri_aio.session import Role, Session
from nri_aio.wire import Wire


class Pipe(asyncio.Transport):
    """A transport that only remembers."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.reading = True
        self.closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Remember."""
        self.sent += data

    def pause_reading(self) -> None:
        """Remember."""
        self.reading = False

    def resume_reading(self) -> None:
        """Remember."""
        self.reading = True

    def is_closing(self) -> bool:
        """Remember."""
        return self.closing

    def close(self) -> None:
        """Remember."""
        self.closing = True


def a_wire(pipe: Pipe) -> Wire:
    wire = Wire(Session(Role.PLUGIN), on_request=lambda *_: None, on_end=lambda _: None)
    wire.connection_made(pipe)
    return wire


class TestBackPressure:
    """A peer that sends and does not read."""

    async def test_nothing_is_read_while_answers_pile_up(self) -> None:
        """Reading stops while the transport's buffer is full."""
        pipe = Pipe()
        a_wire(pipe).pause_writing()

        assert not pipe.reading

    async def test_reading_goes_on_when_they_are_gone(self) -> None:
        """Reading goes on with writing."""
        pipe = Pipe()
        wire = a_wire(pipe)
        wire.pause_writing()
        wire.resume_writing()

        assert pipe.reading

    async def test_closing_transport_is_left_alone(self) -> None:
        """A transport that is closing takes no more orders."""
        pipe = Pipe()
        wire = a_wire(pipe)
        wire.close()
        wire.pause_writing()

        assert pipe.reading


class TestClose:
    """The end from here."""

    async def test_nothing_is_sent_after_it(self) -> None:
        """What comes too late is dropped, and not counted."""
        pipe = Pipe()
        wire = a_wire(pipe)
        wire.close()
        wire.send(b"late")

        assert (b"", 0) == (pipe.sent, wire.bytes_sent)

    async def test_call_after_it_has_no_response(self) -> None:
        """A call on a closed connection ends at once, without one."""
        wire = a_wire(Pipe())
        wire.close()

        assert await wire.call("service", "Method", b"", timeout=1) is None

    async def test_without_a_connection(self) -> None:
        """A wire that was never connected is closed by closing it."""
        wire = Wire(Session(Role.PLUGIN), on_request=lambda *_: None, on_end=lambda _: None)
        wire.close()

        assert wire.closed.is_set()
