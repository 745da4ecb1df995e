"""
ttrpc messages and the envelopes inside them, without I/O.

A message is a 10-byte header (length, stream id, type, flags; big endian) and that many bytes. NRI uses unary calls
alone: a request on a new odd stream id, one response on the same id. Streaming is left out; its data messages and any
unknown type are for the caller to ignore.
"""

from __future__ import annotations

import enum
import struct
from typing import NamedTuple

from google.protobuf.message import DecodeError

from nri_aio.errors import MessageTooLarge, ProtocolViolation
from nri_aio.pb import ttrpc_pb2

HEADER_BYTES = 10

MAX_RECEIVED = 16 * 1024 * 1024
"""Senders before ttrpc 1.2.6 do not keep to 4 MiB: a synchronisation of 7 MB in one message was seen."""

MAX_SENT = 4 * 1024 * 1024
"""What every receiver accepts; one byte more makes the runtime close the connection."""

MAX_STATUS_TEXT = 1024
"""A refusal ends up in an event of the pod, which has no room for more."""

_HEADER = struct.Struct(">IIBB")


class Kind(enum.IntEnum):
    """Message types; a peer may send others, which are ignored."""

    REQUEST = 1
    RESPONSE = 2
    DATA = 3


class Code(enum.IntEnum):
    """The status codes used here; the numbers are gRPC's."""

    OK = 0
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    UNIMPLEMENTED = 12
    INTERNAL = 13


class Message(NamedTuple):
    """One message as it came off a logical connection; a tuple, which is made faster than an attrs class."""

    stream: int
    kind: int
    body: bytes


class MessageReader:
    """Puts the pieces of one byte stream together into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._wanted = HEADER_BYTES

    def receive(self, piece: bytes) -> list[Message]:
        """
        Take the next piece of the stream and return the messages it completes.

        Raises:
            ProtocolViolation: A header claims a larger body than any runtime sends.
        """
        self._buffer += piece
        if len(self._buffer) < self._wanted:
            return []
        messages: list[Message] = []
        with memoryview(self._buffer) as view:
            at = _cut(view, messages)
        del self._buffer[:at]
        self._wanted = self._whole_message()
        return messages

    def _whole_message(self) -> int:
        """Say how many bytes must be there before looking again; this keeps a long message from being re-read."""
        if len(self._buffer) < HEADER_BYTES:
            return HEADER_BYTES
        return HEADER_BYTES + int.from_bytes(self._buffer[:4], "big")


def _cut(view: memoryview, messages: list[Message]) -> int:
    at = 0
    while len(view) - at >= HEADER_BYTES:
        size, stream, kind, _flags = _HEADER.unpack_from(view, at)
        if size > MAX_RECEIVED:
            raise ProtocolViolation(f"a message of {size} bytes exceeds the limit of {MAX_RECEIVED}")
        stop = at + HEADER_BYTES + size
        if stop > len(view):
            break
        messages.append(Message(stream, kind, bytes(view[at + HEADER_BYTES : stop])))
        at = stop
    return at


def encode(stream: int, kind: Kind, body: bytes) -> bytes:
    """
    Put the header before a body.

    Raises:
        MessageTooLarge: The receiver would close the connection over it.
    """
    if len(body) > MAX_SENT:
        raise MessageTooLarge(len(body), MAX_SENT)
    return _HEADER.pack(len(body), stream, kind, 0) + body


def request(*, service: str, method: str, payload: bytes, timeout_nano: int) -> bytes:
    """Build the body of a request."""
    envelope = ttrpc_pb2.Request(service=service, method=method, payload=payload, timeout_nano=timeout_nano)
    return envelope.SerializeToString()


def success(payload: bytes) -> bytes:
    """Build the body of a success; an empty message makes an empty body."""
    return ttrpc_pb2.Response(payload=payload).SerializeToString()


def failure(code: int, text: str) -> bytes:
    """Build the body of an error; it carries no payload, because Go's client would decode that first."""
    # A lone surrogate, from a file name say, cannot be sent; an answer must not fail for its text.
    sendable = text[:MAX_STATUS_TEXT].encode(errors="replace").decode()
    return ttrpc_pb2.Response(status=ttrpc_pb2.Status(code=code, message=sendable)).SerializeToString()


def parse_request(body: bytes) -> ttrpc_pb2.Request | None:
    """Read a request's body; None if it is not one."""
    try:
        return ttrpc_pb2.Request.FromString(body)
    except DecodeError:
        return None


def parse_response(body: bytes) -> ttrpc_pb2.Response | None:
    """Read a response's body; None if it is not one."""
    try:
        return ttrpc_pb2.Response.FromString(body)
    except DecodeError:
        return None
