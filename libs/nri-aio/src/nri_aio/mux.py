"""
The NRI multiplexer: several byte streams over one socket, without I/O.

A frame is a logical connection's id and a length, both four bytes big endian, then the payload. Frame borders carry no
meaning for the layer above, so a payload is handed on piece by piece as it arrives and nothing is held here but a
partial header. Payloads of connections nobody opened are dropped the same way, without being kept.

Sending has one rule that reading does not show: containerd reads a logical connection through a 4096-byte buffer, and
a message that *begins* in a larger frame ends the connection, while the container is created without the adjustment.
`frames` therefore cuts a long message after 4096 bytes. The rest follows as one frame: the receiver queues at most 256.
"""

from __future__ import annotations

import struct
from collections.abc import Collection

from nri_aio.errors import ProtocolViolation

PLUGIN_SERVICE = 1
"""The logical connection on which the runtime calls the plugin."""

RUNTIME_SERVICE = 2
"""The logical connection on which the plugin calls the runtime."""

MAX_FIRST_FRAME = 4096
"""The size of the buffer through which Go's receiver reads the beginning of a message."""

MAX_PAYLOAD = 16 * 1024 * 1024 + 10
"""Runtimes before NRI 0.7 send a synchronisation as one message of up to 16 MiB behind its 10-byte header."""

_HEADER = struct.Struct(">II")


def frames(connection: int, message: bytes) -> bytes:
    """Wrap one message of a logical connection, in one piece so that nothing can come between its frames."""
    if len(message) <= MAX_FIRST_FRAME:
        return _HEADER.pack(connection, len(message)) + message
    rest = memoryview(message)[MAX_FIRST_FRAME:]
    first = _HEADER.pack(connection, MAX_FIRST_FRAME) + message[:MAX_FIRST_FRAME]
    return b"".join((first, _HEADER.pack(connection, len(rest)), rest))


class FrameReader:
    """Cuts what arrives on the socket into pieces of the logical connections' byte streams."""

    def __init__(self, connections: Collection[int]) -> None:
        self._connections = frozenset(connections)
        self._header = b""
        self._connection = 0
        self._left = 0

    def receive(self, data: bytes) -> list[tuple[int, bytes]]:
        """
        Take what was read from the socket and return it as (connection, piece) in order of arrival.

        Raises:
            ProtocolViolation: A frame claims to be larger than any runtime sends.
        """
        pieces: list[tuple[int, bytes]] = []
        at, end = 0, len(data)
        while at < end:
            if not self._left:
                at = self._read_header(data, at)
                continue
            stop = min(at + self._left, end)
            self._left -= stop - at
            if self._connection in self._connections:
                pieces.append((self._connection, data[at:stop]))
            at = stop
        return pieces

    def _read_header(self, data: bytes, at: int) -> int:
        """Read a header, or its beginning, and return where the rest of the data starts."""
        stop = at + _HEADER.size - len(self._header)
        header = self._header + data[at:stop]
        if len(header) < _HEADER.size:
            self._header = header
            return len(data)
        self._header = b""
        self._connection, self._left = _HEADER.unpack(header)
        if self._left > MAX_PAYLOAD:
            raise ProtocolViolation(f"a frame of {self._left} bytes exceeds the limit of {MAX_PAYLOAD}")
        return stop
