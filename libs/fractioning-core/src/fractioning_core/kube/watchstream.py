"""
The watch protocol without any I/O: bytes go in, events come out.

A watch answers with one JSON object a line. A line is decoded only when its event is asked for, so that of a stream of
ten thousand objects no more than one is held at a time. What comes after the last whole line waits for the rest; if
the stream ends there, the rest is lost and the caller resumes from the last version it saw.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import attrs

from fractioning_core.errors import FractioningError
from fractioning_core.kube import errors, watchevents
from fractioning_core.kube.errors import BadAnswer
from fractioning_core.kube.watchevents import Event

# etcd takes objects of 1.5 MiB, and JSON may need a few characters for one; nothing real comes near this.
MAX_LINE_BYTES = 8 * 1024 * 1024


@attrs.define
class WatchStream:
    """
    One answer to one watch. After an error it is of no more use.

    Args:
        request: What was asked, for errors.
    """

    _request: str
    _buffer: bytearray = attrs.field(factory=bytearray, init=False, repr=False)
    _searched: int = attrs.field(default=0, init=False)
    """How much of the buffer is known to hold no end of a line, so that a long line is not searched again and again."""

    def receive_data(self, data: bytes) -> None:
        """
        Take bytes; ask for `events` next.
        """
        self._buffer += data

    def events(self) -> Iterator[Event]:
        """
        Give the events of the lines that are complete.

        Raises:
            BadAnswer: A line is too long, or is not an event.
            FractioningError: The server ends the watch with an error: `Expired`, or another of `kube.errors`.
        """
        while (end := self._buffer.find(b"\n", self._searched)) >= 0:
            line = self._buffer[:end]
            del self._buffer[: end + 1]
            self._searched = 0
            self._check_length(line)
            if line.strip():
                yield self._event(line)
        self._searched = len(self._buffer)
        self._check_length(self._buffer)

    def _check_length(self, line: bytearray) -> None:
        if len(line) > MAX_LINE_BYTES:
            raise BadAnswer(self._request, f"has a line of more than {MAX_LINE_BYTES} bytes")

    def _event(self, line: bytearray) -> Event:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadAnswer(self._request, "has a line that is not JSON") from error
        match event:
            case {"type": "ADDED" | "MODIFIED", "object": manifest}:
                return watchevents.changed(self._request, manifest)
            case {"type": "DELETED", "object": manifest}:
                return watchevents.deleted(self._request, manifest)
            case {"type": "BOOKMARK", "object": manifest}:
                return watchevents.bookmark(self._request, manifest)
            case {"type": "ERROR", "object": dict(status)}:
                raise self._refusal(status)
            case _:
                raise BadAnswer(self._request, "has a line that is not an event")

    def _refusal(self, status: dict[str, Any]) -> FractioningError:
        code, message, details = (status.get(name) for name in ("code", "message", "details"))
        patience = details.get("retryAfterSeconds") if isinstance(details, dict) else None
        return errors.of_code(
            self._request,
            code if isinstance(code, int) else 500,
            message if isinstance(message, str) else "",
            retry_after=str(patience) if isinstance(patience, int) else None,
        )
