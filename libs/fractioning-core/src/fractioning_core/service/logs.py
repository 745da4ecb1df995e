"""Logs as JSON lines, for the service's own events and for those of the libraries below it.

Every line opens with `time` (RFC 3339, UTC), `level`, `event` and `service`; the variables of the event follow. On a
terminal the same lines are laid out for people. Lines are made by whoever logs and written by a `LogWriter`, so that
logging never waits for the reader of stdout.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TextIO

import attrs
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from fractioning_core.errors import Misuse
from fractioning_core.service.logwriter import LogWriter

LEVELS = ("debug", "info", "warn", "error")
"""What the setting of a service offers and what a line can say."""

_NUMBERS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}

# Methods of a logger that are other words for one of the four levels.
_SYNONYMS = {"warning": "warn", "exception": "error", "critical": "error", "fatal": "error"}


def configure(level: str, *, service: str, stream: TextIO | None = None) -> LogWriter:
    """
    Send the log of this process to a stream, once, at the start of a service.

    Args:
        level: The least of `LEVELS` to write.
        service: Name that every line carries.
        stream: Where to; stdout when not given.

    Returns:
        The writer, to be closed after everything that may log.
    """
    if level not in _NUMBERS:
        raise Misuse(f"log level {level!r} is none of {', '.join(LEVELS)}")
    stream = sys.stdout if stream is None else stream
    render = _for_people() if stream.isatty() else _for_machines()
    head = _Head(service)
    writer = LogWriter(stream, lambda count: _dropped_line(count, head, render))
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, head, *render],
        wrapper_class=structlog.make_filtering_bound_logger(_NUMBERS[level]),
        logger_factory=lambda *_: _Lines.to(writer.write),
        # So that loggers made at import stay right when this is called again; it costs about 3 us a call.
        cache_logger_on_first_use=False,
    )
    _route_stdlib(_NUMBERS[level])
    return writer


@attrs.frozen
class _Head:
    """Puts the four keys that every line has in front, where a reader of raw lines looks first."""

    service: str

    def __call__(self, _: WrappedLogger, method: str, event: EventDict) -> EventDict:
        head = {
            "time": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "level": _SYNONYMS.get(method, method),
            "event": event.pop("event"),
            "service": self.service,
        }
        return head | {f"{key}_" if key in head else key: value for key, value in event.items()}


@attrs.frozen
class _Lines:
    """The bottom of a structlog logger: a method for each level, all of which take a finished line."""

    debug: Callable[[str], None]
    info: Callable[[str], None]
    warning: Callable[[str], None]
    error: Callable[[str], None]
    critical: Callable[[str], None]

    @classmethod
    def to(cls, write: Callable[[str], None]) -> _Lines:
        return cls(debug=write, info=write, warning=write, error=write, critical=write)


class _StdlibBridge(logging.Handler):
    """Hands what aiohttp, asyncio and other libraries log to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        logger = structlog.get_logger()
        level = max((number for number in _NUMBERS.values() if number <= record.levelno), default=logging.DEBUG)
        try:
            logger.log(
                level,
                "library_logged",
                logger=record.name,
                message=record.getMessage(),
                exc_info=record.exc_info or None,
            )
        except Exception:  # noqa: BLE001 - a library's bad log call must not become an error of what it was doing
            self.handleError(record)


def _route_stdlib(level: int) -> None:
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _StdlibBridge)]:
        root.removeHandler(handler)
    root.addHandler(_StdlibBridge())
    root.setLevel(level)


def _for_machines() -> list[Processor]:
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]


def _for_people() -> list[Processor]:
    plain = structlog.dev.plain_traceback
    return [structlog.dev.ConsoleRenderer(timestamp_key="time", exception_formatter=plain)]


def _dropped_line(count: int, head: _Head, render: list[Processor]) -> str:
    event: EventDict = head(None, "warning", {"event": "log_lines_dropped", "dropped": count})
    for processor in render:
        event = processor(None, "warning", event)  # type: ignore[assignment] # the last one gives the line
    return str(event)
