from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nri_aio import ttrpc
from nri_aio.errors import MessageTooLarge, ProtocolViolation
from nri_aio.ttrpc import Kind, Message


class TestMessageReader:
    """Putting messages together."""

    @given(bodies=st.lists(st.binary(max_size=40), max_size=6), step=st.integers(1, 64))
    def test_any_piece_size_gives_the_same_messages(self, bodies: list[bytes], step: int) -> None:
        """Messages come out whole and in order, whatever the pieces they came in."""
        sent = [Message(2 * n + 1, Kind.REQUEST, body) for n, body in enumerate(bodies)]
        data = b"".join(ttrpc.encode(m.stream, Kind.REQUEST, m.body) for m in sent)
        reader = ttrpc.MessageReader()

        received = [m for at in range(0, len(data), step) for m in reader.receive(data[at : at + step])]

        assert sent == received

    def test_empty_body_is_a_message(self) -> None:
        """A header alone is a whole message."""
        assert [Message(3, Kind.RESPONSE, b"")] == ttrpc.MessageReader().receive(bytes.fromhex("00000000000000030200"))

    def test_nothing_is_kept_of_what_was_handed_out(self) -> None:
        """The buffer holds no more than the unfinished message."""
        reader = ttrpc.MessageReader()
        reader.receive(ttrpc.encode(1, Kind.REQUEST, bytes(100_000)) + b"\x00\x00")

        assert b"\x00\x00" == bytes(reader._buffer)

    def test_old_runtimes_message_is_accepted(self) -> None:
        """More than 4 MiB in one message comes from runtimes before NRI 0.7."""
        header = (7_160_000).to_bytes(4) + (3).to_bytes(4) + b"\x01\x00"

        (message,) = ttrpc.MessageReader().receive(header + bytes(7_160_000))

        assert 7_160_000 == len(message.body)

    def test_oversized_message_is_a_violation(self) -> None:
        """A length above 16 MiB is refused at its header, before anything is kept for it."""
        with pytest.raises(ProtocolViolation, match="a message of 16777217 bytes"):
            ttrpc.MessageReader().receive((ttrpc.MAX_RECEIVED + 1).to_bytes(4) + bytes(6))

    def test_oversized_second_message_is_a_violation(self) -> None:
        """The bound holds for every message of a piece."""
        first = ttrpc.encode(1, Kind.REQUEST, b"")

        with pytest.raises(ProtocolViolation):
            ttrpc.MessageReader().receive(first + b"\xff" * 10)


class TestEncode:
    """Building messages."""

    def test_largest_message_is_sent(self) -> None:
        """4 MiB is what every receiver takes."""
        assert ttrpc.MAX_SENT + 10 == len(ttrpc.encode(1, Kind.RESPONSE, bytes(ttrpc.MAX_SENT)))

    def test_larger_message_is_not_sent(self) -> None:
        """One byte more is an error here, not the end of the connection there."""
        with pytest.raises(MessageTooLarge) as caught:
            ttrpc.encode(1, Kind.RESPONSE, bytes(ttrpc.MAX_SENT + 1))

        assert (4194305, 4194304) == (caught.value.size_bytes, caught.value.limit_bytes)


class TestEnvelopes:
    """Requests and responses inside messages."""

    def test_failure_carries_status_and_no_payload(self) -> None:
        """An error is nothing but its status."""
        assert bytes.fromhex("0a06080212026e6f") == ttrpc.failure(2, "no")

    def test_failure_text_is_cut(self) -> None:
        """A text without end is cut to what an event of a pod can show."""
        response = ttrpc.parse_response(ttrpc.failure(2, "x" * 100_000))

        assert response is not None
        assert ttrpc.MAX_STATUS_TEXT == len(response.status.message)

    def test_failure_text_may_hold_a_lone_surrogate(self) -> None:
        """What UTF-8 cannot hold is replaced, so that the answer is sent all the same."""
        response = ttrpc.parse_response(ttrpc.failure(2, "file \udcff"))

        assert response is not None
        assert "file ?" == response.status.message

    def test_success_of_an_empty_message_is_empty(self) -> None:
        """No status, no payload: no bytes."""
        assert b"" == ttrpc.success(b"")

    @pytest.mark.parametrize("body", [pytest.param(b"\xff\xff", id="cut tag"), pytest.param(b"\x0a\x05ab", id="cut")])
    def test_undecodable_body_is_none(self, body: bytes) -> None:
        """A body that is no envelope is told apart from an empty one."""
        assert (None, None) == (ttrpc.parse_request(body), ttrpc.parse_response(body))
