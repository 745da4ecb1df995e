from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nri_aio import mux, ttrpc
from nri_aio.errors import MessageTooLarge, Misuse, ProtocolViolation
from nri_aio.pb import nri_pb2 as pb
from nri_aio.session import MAX_OPEN_REQUESTS, BadRequest, Event, Request, Response, Role, Session
from nri_aio.ttrpc import Kind

PLUGIN = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME = "nri.pkg.api.v1alpha1.Runtime"

# What containerd 2.1.9 and a plugin "proto" with index "10" said to each other, byte for byte.
REGISTER = bytes.fromhex(
    "000000020000004b000000410000000101000a1c6e72692e706b672e6170692e7631616c706861312e52756e74696d65"
    "120e5265676973746572506c7567696e1a0b0a0570726f746f120231302080e497d012"
)
CONFIGURE = bytes.fromhex(
    "000000010000005b000000510000000101000a1b6e72692e706b672e6170692e7631616c706861312e506c7567696e1209436f6e666967757265"
    "1a21120a636f6e7461696e6572641a0d322e312e392b756e6b6e6f776e20882728d00f209f95d5b907"
)
CONFIGURE_ANSWER = bytes.fromhex("000000010000000f00000005000000010200120310ff0f")
SYNCHRONIZE = bytes.fromhex(
    "000000010000003a000000300000000301000a1b6e72692e706b672e6170692e7631616c706861312e506c7567696e"
    "120b53796e6368726f6e697a65209c9fd1b907"
)
SYNCHRONIZE_ANSWER = bytes.fromhex("000000010000000a00000000000000030200")
REGISTER_ANSWER = bytes.fromhex("000000020000000a00000000000000010200")


def request_frame(stream: int, body: bytes = b"", kind: int = Kind.REQUEST) -> bytes:
    """Frame a message for the plugin's service."""
    return mux.frames(1, ttrpc.encode(stream, Kind(kind), body))


def plugin_that_called() -> Session:
    """Give a plugin's session that waits for the answer to its first call."""
    session = Session(Role.PLUGIN)
    session.call(service=RUNTIME, method="RegisterPlugin", payload=b"", timeout_nano=0)
    return session


class TestGoldenExchange:
    """The bytes of a real registration."""

    def test_register(self) -> None:
        """RegisterPlugin is what Go's stub sends."""
        payload = pb.RegisterPluginRequest(plugin_name="proto", plugin_idx="10").SerializeToString()

        sent = Session(Role.PLUGIN).call(
            service=RUNTIME, method="RegisterPlugin", payload=payload, timeout_nano=5_000_000_000
        )

        assert (1, REGISTER) == sent

    def test_configure(self) -> None:
        """Configure is understood, and answered as Go's stub does."""
        session = plugin_that_called()

        (request,) = session.receive(CONFIGURE)

        assert isinstance(request, Request)
        expected = pb.ConfigureRequest(
            runtime_name="containerd", runtime_version="2.1.9+unknown", registration_timeout=5000, request_timeout=2000
        )
        assert Request(1, PLUGIN, "Configure", expected.SerializeToString(), 1_999_981_215) == request
        assert CONFIGURE_ANSWER == session.answer(1, pb.ConfigureResponse(events=0x7FF).SerializeToString())

    def test_synchronize_and_late_registration_answer(self) -> None:
        """Synchronize with no payload has an empty answer; the answer to RegisterPlugin may come last."""
        session = plugin_that_called()

        events = session.receive(CONFIGURE + SYNCHRONIZE + REGISTER_ANSWER)

        assert [Request(3, PLUGIN, "Synchronize", b"", 1_999_916_956), Response(1, 0, "", b"")] == events[1:]
        assert SYNCHRONIZE_ANSWER == session.answer(3, b"")

    @given(st.lists(st.integers(0, 300), max_size=30))
    def test_any_split_of_the_bytes_gives_the_same_events(self, borders: list[int]) -> None:
        """Where reads end has no influence on what is understood."""
        data = CONFIGURE + SYNCHRONIZE + REGISTER_ANSWER
        places = sorted({0, len(data), *(border % len(data) for border in borders)})
        whole, split = plugin_that_called(), plugin_that_called()

        received: list[Event] = []
        for start, stop in itertools.pairwise(places):
            received += split.receive(data[start:stop])

        assert whole.receive(data) == received

    def test_bytes_one_by_one(self) -> None:
        """The slowest peer is understood like any other."""
        session = plugin_that_called()

        events = [event for byte in CONFIGURE for event in session.receive(bytes([byte]))]

        assert plugin_that_called().receive(CONFIGURE) == events


class TestBackToBack:
    """A plugin's session and a runtime's session, each fed what the other sends."""

    @pytest.mark.parametrize("size", [0, 1, 4086, 4087, 4096, 4097, 11_500, 3_400_000])
    def test_call_and_answer(self, size: int) -> None:
        """A call arrives as made, and its answer comes back whole, at every length around the frame's limit."""
        runtime, plugin = Session(Role.RUNTIME), Session(Role.PLUGIN)
        stream, data = runtime.call(service=PLUGIN, method="CreateContainer", payload=b"pod", timeout_nano=7)

        asked = plugin.receive(data)
        answered = runtime.receive(plugin.answer(stream, bytes(size)))

        assert [Request(1, PLUGIN, "CreateContainer", b"pod", 7)] == asked
        assert [Response(1, 0, "", bytes(size))] == answered

    def test_refusal(self) -> None:
        """An error comes back with code and text and without payload."""
        runtime, plugin = Session(Role.RUNTIME), Session(Role.PLUGIN)
        stream, data = runtime.call(service=PLUGIN, method="CreateContainer", payload=b"", timeout_nano=0)
        plugin.receive(data)

        assert [Response(1, 4, "too late", b"")] == runtime.receive(plugin.refuse(stream, 4, "too late"))

    def test_calls_of_both_sides_do_not_meet(self) -> None:
        """Each side numbers its own calls; equal numbers are different calls."""
        runtime, plugin = Session(Role.RUNTIME), Session(Role.PLUGIN)
        down, to_plugin = runtime.call(service=PLUGIN, method="Configure", payload=b"", timeout_nano=0)
        up, to_runtime = plugin.call(service=RUNTIME, method="RegisterPlugin", payload=b"", timeout_nano=0)
        plugin.receive(to_plugin)
        runtime.receive(to_runtime)

        plugin_heard = plugin.receive(runtime.answer(up, b"up"))
        runtime_heard = runtime.receive(plugin.answer(down, b"down"))

        assert ([Response(1, 0, "", b"up")], [Response(1, 0, "", b"down")]) == (plugin_heard, runtime_heard)

    def test_answers_in_another_order(self) -> None:
        """Answers find their calls by stream id."""
        runtime, plugin = Session(Role.RUNTIME), Session(Role.PLUGIN)
        calls = [runtime.call(service=PLUGIN, method="X", payload=b"", timeout_nano=0) for _ in range(3)]
        plugin.receive(b"".join(data for _, data in calls))

        heard = runtime.receive(b"".join(plugin.answer(stream, bytes([stream])) for stream in (5, 1, 3)))

        assert [Response(stream, 0, "", bytes([stream])) for stream in (5, 1, 3)] == heard

    def test_two_messages_in_one_frame(self) -> None:
        """Frame borders mean nothing: one frame may hold several messages."""
        runtime, plugin = Session(Role.RUNTIME), Session(Role.PLUGIN)
        bodies = [runtime.call(service=PLUGIN, method=m, payload=b"", timeout_nano=0)[1][8:] for m in ("A", "B")]

        events = plugin.receive(mux.frames(1, b"".join(bodies)))

        assert [Request(1, PLUGIN, "A", b"", 0), Request(3, PLUGIN, "B", b"", 0)] == events

    def test_answer_of_4_2_mb_is_not_sent(self) -> None:
        """An answer over 4 MiB is an error here; the request is still open and can be refused."""
        runtime, plugin = Session(Role.RUNTIME), Session(Role.PLUGIN)
        stream, data = runtime.call(service=PLUGIN, method="CreateContainer", payload=b"", timeout_nano=0)
        plugin.receive(data)

        with pytest.raises(MessageTooLarge):
            plugin.answer(stream, bytes(4_200_000))

        assert [Response(1, 8, "too large", b"")] == runtime.receive(plugin.refuse(stream, 8, "too large"))


class TestRequests:
    """What a peer may send and what not."""

    @pytest.mark.parametrize(
        "stream", [pytest.param(2, id="even"), pytest.param(1, id="used"), pytest.param(0, id="0")]
    )
    def test_bad_stream_id_is_a_bad_request(self, stream: int) -> None:
        """An id that is even or was used is to be refused, like Go's server does."""
        session = Session(Role.PLUGIN)
        session.receive(request_frame(3))
        session.answer(3, b"")

        (event,) = session.receive(request_frame(stream))

        assert BadRequest(stream, ttrpc.Code.INVALID_ARGUMENT, f"stream id {stream} is not odd and increasing") == event
        assert session.refuse(stream, 3, "no")

    def test_id_used_again_before_its_answer_is_a_violation(self) -> None:
        """Two open requests with one id cannot be told apart."""
        session = Session(Role.PLUGIN)

        with pytest.raises(ProtocolViolation, match="stream id 1 is used again"):
            session.receive(request_frame(1) + request_frame(1))

    def test_undecodable_envelope_is_a_bad_request(self) -> None:
        """A request that is no envelope is to be refused, and the session goes on."""
        session = Session(Role.PLUGIN)

        events = session.receive(request_frame(1, b"\xff\xff") + request_frame(3))

        assert [BadRequest(1, ttrpc.Code.INVALID_ARGUMENT, "undecodable request"), Request(3, "", "", b"", 0)] == events

    def test_flood_of_requests_is_a_violation(self) -> None:
        """A peer that never waits for an answer does not make the table of open requests grow without end."""
        session = Session(Role.PLUGIN)
        for number in range(MAX_OPEN_REQUESTS):
            session.receive(request_frame(2 * number + 1))

        with pytest.raises(ProtocolViolation, match="more than 256 requests"):
            session.receive(request_frame(2 * MAX_OPEN_REQUESTS + 1))

    @pytest.mark.parametrize("kind", [pytest.param(b"\x02", id="response"), pytest.param(b"\x03", id="data")])
    def test_other_messages_are_ignored(self, kind: bytes) -> None:
        """Only requests are looked at on the served connection."""
        message = (0).to_bytes(4) + (1).to_bytes(4) + kind + b"\x00"

        assert [] == Session(Role.PLUGIN).receive(mux.frames(1, message))

    def test_second_answer_is_misuse(self) -> None:
        """A request has one answer."""
        session = Session(Role.PLUGIN)
        session.receive(request_frame(1))
        session.answer(1, b"")

        with pytest.raises(Misuse, match="stream 1 waits for no answer"):
            session.refuse(1, 2, "again")


class TestResponses:
    """Answers to our calls."""

    def test_unknown_stream_is_dropped(self) -> None:
        """A response nobody waits for means nothing."""
        assert [] == Session(Role.PLUGIN).receive(REGISTER_ANSWER)

    def test_abandoned_call_is_dropped(self) -> None:
        """A response that comes after we gave up is dropped."""
        session = plugin_that_called()
        session.abandon(1)

        assert [] == session.receive(REGISTER_ANSWER)

    def test_second_response_is_dropped(self) -> None:
        """A call has one response."""
        assert [Response(1, 0, "", b"")] == plugin_that_called().receive(REGISTER_ANSWER + REGISTER_ANSWER)

    def test_undecodable_response_fails_the_call(self) -> None:
        """A response that is no envelope is a failure of its call."""
        broken = mux.frames(2, ttrpc.encode(1, Kind.RESPONSE, b"\xff\xff"))

        assert [Response(1, 13, "undecodable response", b"")] == plugin_that_called().receive(broken)


class TestViolation:
    """A peer that is no runtime."""

    def test_violation_is_final(self) -> None:
        """After one violation nothing is understood any more, not even good bytes."""
        session = plugin_that_called()
        with pytest.raises(ProtocolViolation):
            session.receive(b"GET / HTTP/1.1\r\n")

        with pytest.raises(ProtocolViolation):
            session.receive(REGISTER_ANSWER)

    @given(st.binary(max_size=200))
    def test_garbage_never_makes_a_request(self, garbage: bytes) -> None:
        """Bytes are understood, ignored or a violation; nothing else happens."""
        session = Session(Role.PLUGIN)
        try:
            events = session.receive(garbage)
        except ProtocolViolation:
            return

        assert all(isinstance(event, Request | BadRequest) for event in events)
