from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nri_aio import mux
from nri_aio.errors import ProtocolViolation


def cut(data: bytes, borders: list[int]) -> list[bytes]:
    """Cut data at the given places, in whatever order and number they come."""
    places = sorted({0, len(data), *(border % (len(data) + 1) for border in borders)})
    return [data[start:stop] for start, stop in itertools.pairwise(places)]


def headers(framed: bytes) -> list[tuple[int, int]]:
    """List (connection, length) of every frame."""
    found, at = [], 0
    while at < len(framed):
        connection, length = int.from_bytes(framed[at : at + 4]), int.from_bytes(framed[at + 4 : at + 8])
        found.append((connection, length))
        at += 8 + length
    return found


def streams(reader: mux.FrameReader, chunks: list[bytes]) -> dict[int, bytes]:
    """Feed chunks and join the pieces per connection."""
    joined: dict[int, bytes] = {}
    for chunk in chunks:
        for connection, piece in reader.receive(chunk):
            joined[connection] = joined.get(connection, b"") + piece
    return joined


class TestFrames:
    """Sending a message."""

    @pytest.mark.parametrize(
        ("size", "expected"),
        [
            pytest.param(10, [(1, 10)], id="a header alone"),
            pytest.param(4086, [(1, 4086)], id="below the limit"),
            pytest.param(4096, [(1, 4096)], id="at the limit"),
            pytest.param(4097, [(1, 4096), (1, 1)], id="one byte above"),
            pytest.param(11_500, [(1, 4096), (1, 7404)], id="a long answer"),
            pytest.param(3_400_000, [(1, 4096), (1, 3_395_904)], id="a very long answer"),
        ],
    )
    def test_message_begins_in_a_frame_of_at_most_4096_bytes(self, size: int, expected: list[tuple[int, int]]) -> None:
        """A message fits one frame of 4096 bytes, or has its rest in a second one, as Go sends it."""
        assert expected == headers(mux.frames(1, bytes(size)))

    @given(st.binary(max_size=10_000))
    def test_receiver_gets_the_message(self, message: bytes) -> None:
        """What was framed comes out whole."""
        assert message == streams(mux.FrameReader({2}), [mux.frames(2, message)]).get(2, b"")


class TestFrameReader:
    """Receiving frames."""

    @given(
        messages=st.lists(st.tuples(st.sampled_from([1, 2, 7]), st.binary(max_size=60)), max_size=8),
        borders=st.lists(st.integers(0, 1000), max_size=20),
    )
    def test_any_split_gives_the_same_streams(self, messages: list[tuple[int, bytes]], borders: list[int]) -> None:
        """Where reads end has no influence on the streams, and other connections' bytes are in none of them."""
        data = b"".join(mux.frames(connection, message) for connection, message in messages)

        received = streams(mux.FrameReader({1, 2}), cut(data, borders))

        expected = {id_: b"".join(m for c, m in messages if c == id_) for id_ in (1, 2)}
        assert {id_: stream for id_, stream in expected.items() if stream} == received

    def test_empty_frame_is_legal(self) -> None:
        """A frame without payload is passed over."""
        assert {1: b"x"} == streams(mux.FrameReader({1}), [mux.frames(1, b"") + mux.frames(1, b"x")])

    def test_unknown_connection_is_dropped_without_being_kept(self) -> None:
        """A frame nobody wants leaves no trace, however long it is."""
        reader = mux.FrameReader({1})
        reader.receive((9).to_bytes(4) + mux.MAX_PAYLOAD.to_bytes(4))

        for _ in range(16):
            assert reader.receive(bytes(1024 * 1024)) == []

        assert (b"", 10) == (reader._header, reader._left)

    def test_largest_frame_is_accepted(self) -> None:
        """A runtime before NRI 0.7 sends 16 MiB and a header at once."""
        assert [] == mux.FrameReader({1}).receive((1).to_bytes(4) + mux.MAX_PAYLOAD.to_bytes(4))

    @pytest.mark.parametrize(
        "garbage",
        [
            pytest.param((1).to_bytes(4) + (mux.MAX_PAYLOAD + 1).to_bytes(4), id="one byte too long"),
            pytest.param(b"GET / HTTP/1.1\r\n", id="another protocol"),
            pytest.param(b"\xff" * 8, id="all ones"),
        ],
    )
    def test_oversized_frame_is_a_violation(self, garbage: bytes) -> None:
        """A length that no runtime sends ends the reading."""
        with pytest.raises(ProtocolViolation, match="exceeds the limit of 16777226"):
            mux.FrameReader({1}).receive(garbage)
