from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from fractioning_core.errors import FractioningError
from fractioning_core.kube.collections import Key
from fractioning_core.kube.errors import ApiOverloaded, BadAnswer, Expired, Forbidden
from fractioning_core.kube.watchevents import Bookmark, Changed, Deleted, Event
from fractioning_core.kube.watchstream import MAX_LINE_BYTES, WatchStream
from hypothesis import given
from hypothesis import strategies as st

REQUEST = "GET /api/v1/nodes"


def node(name: str, version: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": version}}


def line(kind: str, manifest: object) -> bytes:
    return json.dumps({"type": kind, "object": manifest}).encode() + b"\n"


LINES = (
    line("ADDED", node("a", "1")),
    line("MODIFIED", node("ä\u2028\n", "2")),
    b"\n",
    line("DELETED", node("a", "3")),
    line("BOOKMARK", {"metadata": {"resourceVersion": "4"}}),
)
EVENTS: list[Event] = [
    Changed(Key("", "a"), "1", node("a", "1")),
    Changed(Key("", "ä\u2028\n"), "2", node("ä\u2028\n", "2")),
    Deleted(Key("", "a"), "3"),
    Bookmark("4", ends_initial_events=False),
]


def read(*chunks: bytes) -> list[Event]:
    stream = WatchStream(REQUEST)
    events: list[Event] = []
    for chunk in chunks:
        stream.receive_data(chunk)
        events += stream.events()
    return events


class TestEvents:
    """
    Bytes in, events out.
    """

    @given(st.lists(st.integers(0, len(b"".join(LINES))), max_size=20))
    def test_any_split(self, cuts: list[int]) -> None:
        """
        Wherever the bytes are cut, the events are the same.
        """
        whole = b"".join(LINES)
        places = [0, *sorted(cuts), len(whole)]

        assert EVENTS == read(*(whole[start:end] for start, end in itertools.pairwise(places)))

    def test_byte_by_byte(self) -> None:
        """
        One byte at a time is no exception.
        """
        assert EVENTS == read(*(bytes([byte]) for byte in b"".join(LINES)))

    def test_unfinished_line(self) -> None:
        """
        What comes after the last whole line is not an event yet.
        """
        assert EVENTS[:1] == read(LINES[0] + LINES[1][:-1])

    def test_one_at_a_time(self) -> None:
        """
        A line is decoded when its event is asked for: what follows a good one does not spoil it.
        """
        stream = WatchStream(REQUEST)
        stream.receive_data(LINES[0] + b"garbage\n")

        assert EVENTS[0] == next(stream.events())


class TestErrors:
    """
    What is not an event.
    """

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            pytest.param(b"garbage\n", "has a line that is not JSON", id="text"),
            pytest.param(b"\xff\xfe\n", "has a line that is not JSON", id="not even text"),
            pytest.param(b"[" * 100_000 + b"\n", "has a line that is not JSON", id="no end of lists"),
            pytest.param(b"[]\n", "has a line that is not an event", id="a list"),
            pytest.param(line("MOVED", node("a", "1")), "has a line that is not an event", id="an unknown type"),
            pytest.param(b'{"type": "ERROR"}\n', "has a line that is not an event", id="an error without a status"),
            pytest.param(line("ADDED", None), "has an object without name or version", id="no object"),
            pytest.param(line("BOOKMARK", {}), "has a bookmark without a version", id="an empty bookmark"),
        ],
    )
    def test_bad_line(self, data: bytes, reason: str) -> None:
        """
        A line that is not an event ends the stream.
        """
        with pytest.raises(BadAnswer) as raised:
            read(data)

        assert BadAnswer(REQUEST, reason) == raised.value

    @pytest.mark.parametrize("end", [pytest.param(b"", id="without an end"), pytest.param(b"\n", id="with an end")])
    def test_long_line(self, end: bytes) -> None:
        """
        A line longer than any object is refused, and as soon as it is.
        """
        with pytest.raises(BadAnswer) as raised:
            read(b" " * (MAX_LINE_BYTES + 1), end)

        assert BadAnswer(REQUEST, f"has a line of more than {MAX_LINE_BYTES} bytes") == raised.value

    @pytest.mark.parametrize(
        ("status", "error"),
        [
            pytest.param(
                {"code": 410, "message": "too old", "reason": "Expired"}, Expired(REQUEST, 410, "too old"), id="gone"
            ),
            pytest.param({"code": 403, "message": "no right"}, Forbidden(REQUEST, 403, "no right"), id="forbidden"),
            pytest.param(
                {"code": 429, "message": "slow", "details": {"retryAfterSeconds": 7}},
                ApiOverloaded(REQUEST, 429, "slow", 7.0),
                id="with a time to wait",
            ),
            pytest.param({}, ApiOverloaded(REQUEST, 500, ""), id="nothing said"),
        ],
    )
    def test_error_event(self, status: dict[str, Any], error: FractioningError) -> None:
        """
        An error that the server sends as an event is the same as one that it answers with.
        """
        with pytest.raises(type(error)) as raised:
            read(line("ERROR", status))

        assert error == raised.value
