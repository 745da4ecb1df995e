from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import structlog
from fractioning_core.errors import Misuse
from fractioning_core.service import logs


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say yes."""
        return True


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Undo what configuring does to the process."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    root.handlers = handlers
    structlog.reset_defaults()


def lines_of(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def without_time(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in line.items() if key != "time"} for line in lines]


class TestLines:
    def test_keys(self) -> None:
        """A line opens with time, level, event and service, and the event's variables follow."""
        stream = io.StringIO()
        with logs.configure("info", service="demo", stream=stream):
            structlog.get_logger().info("pod_seen", pod="a", count=3)

        (line,) = lines_of(stream)

        assert ["time", "level", "event", "service", "pod", "count"] == list(line)
        assert ["info", "pod_seen", "demo", "a", 3] == list(line.values())[1:]

    def test_time(self) -> None:
        """The time is RFC 3339 in UTC."""
        stream = io.StringIO()
        with logs.configure("info", service="demo", stream=stream):
            structlog.get_logger().info("pod_seen")

        (line,) = lines_of(stream)

        assert line["time"].endswith("Z")
        assert timedelta(0) == datetime.fromisoformat(line["time"]).utcoffset()

    @pytest.mark.parametrize(
        ("level", "expected"),
        [
            pytest.param("debug", ["debug", "info", "warn", "error", "error"], id="debug"),
            pytest.param("info", ["info", "warn", "error", "error"], id="info"),
            pytest.param("warn", ["warn", "error", "error"], id="warn"),
            pytest.param("error", ["error", "error"], id="error"),
        ],
    )
    def test_levels(self, level: str, expected: list[str]) -> None:
        """Lines below the level are left out, and the level is told in the words of the setting."""
        stream = io.StringIO()
        with logs.configure(level, service="demo", stream=stream):
            log = structlog.get_logger()
            log.debug("event")
            log.info("event")
            log.warning("event")
            log.error("event")
            log.critical("event")

        levels = [line["level"] for line in lines_of(stream)]

        assert expected == levels

    def test_unknown_level(self) -> None:
        """A level that the settings do not offer is a bug."""
        with pytest.raises(Misuse, match="'trace' is none of debug, info, warn, error"):
            logs.configure("trace", service="demo", stream=io.StringIO())

    def test_exception(self) -> None:
        """An exception is its traceback as text."""
        stream = io.StringIO()
        with logs.configure("info", service="demo", stream=stream):
            try:
                int("gone")
            except ValueError:
                structlog.get_logger().exception("lookup_failed")

        (line,) = lines_of(stream)

        assert "error" == line["level"]
        assert line["exception"].startswith("Traceback (most recent call last):\n")
        assert line["exception"].endswith("ValueError: invalid literal for int() with base 10: 'gone'")

    def test_context(self) -> None:
        """What is bound for a unit of work is on each of its lines."""
        stream = io.StringIO()
        with logs.configure("info", service="demo", stream=stream):
            with structlog.contextvars.bound_contextvars(pod="a"):
                structlog.get_logger().info("inside")
            structlog.get_logger().info("outside")

        lines = without_time(lines_of(stream))

        assert [
            {"level": "info", "event": "inside", "service": "demo", "pod": "a"},
            {"level": "info", "event": "outside", "service": "demo"},
        ] == lines

    def test_reserved_keys(self) -> None:
        """A variable cannot take the place of a key that every line has."""
        stream = io.StringIO()
        with logs.configure("info", service="demo", stream=stream):
            structlog.get_logger().info("event", service="other", time="now")

        (line,) = without_time(lines_of(stream))

        assert {"level": "info", "event": "event", "service": "demo", "service_": "other", "time_": "now"} == line

    def test_foreign_text(self) -> None:
        """Line breaks and objects in variables stay inside the one line."""
        stream = io.StringIO()
        with logs.configure("info", service="demo", stream=stream):
            structlog.get_logger().info("event", text='a\nb"\u2028', thing=frozenset())

        (line,) = stream.getvalue().splitlines()

        assert ('a\nb"\u2028', "frozenset()") == (json.loads(line)["text"], json.loads(line)["thing"])

    def test_terminal(self) -> None:
        """On a terminal a line is laid out for people."""
        stream = Terminal()
        with logs.configure("info", service="demo", stream=stream):
            structlog.get_logger().info("pod_seen", pod="a")

        assert "pod_seen" in stream.getvalue()
        assert "{" not in stream.getvalue()

    def test_terminal_exception(self) -> None:
        """On a terminal an exception is a plain traceback."""
        stream = Terminal()
        with logs.configure("info", service="demo", stream=stream):
            structlog.get_logger().error("lookup_failed", exc_info=LookupError("gone"))

        assert stream.getvalue().endswith("LookupError: gone\n")

    def test_stdout(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Without a stream, lines go to stdout."""
        with logs.configure("info", service="demo"):
            structlog.get_logger().info("pod_seen")

        assert '"event": "pod_seen"' in capsys.readouterr().out

    def test_dropped_lines(self) -> None:
        """Dropped lines are told as an event of their own, between their neighbours."""
        stream = io.StringIO()
        with logs.configure("info", service="demo", stream=stream) as writer:
            writer.dropped = 7
            structlog.get_logger().info("event")

        lines = without_time(lines_of(stream))

        assert [
            {"level": "warn", "event": "log_lines_dropped", "service": "demo", "dropped": 7},
            {"level": "info", "event": "event", "service": "demo"},
        ] == lines

    def test_dropped_lines_on_a_terminal(self) -> None:
        """On a terminal they are told for people."""
        stream = Terminal()
        with logs.configure("info", service="demo", stream=stream) as writer:
            writer.dropped = 7

        assert "log_lines_dropped" in stream.getvalue()


class TestLibraries:
    def test_line(self) -> None:
        """What a library logs is one event, with the logger and its message."""
        stream = io.StringIO()
        with logs.configure("info", service="demo", stream=stream):
            logging.getLogger("aiohttp.server").warning("bad request from %s", "10.0.0.1")

        lines = without_time(lines_of(stream))

        assert [
            {
                "level": "warn",
                "event": "library_logged",
                "service": "demo",
                "logger": "aiohttp.server",
                "message": "bad request from 10.0.0.1",
            }
        ] == lines

    @pytest.mark.parametrize(
        ("number", "expected"),
        [
            pytest.param(5, [], id="below debug is left out"),
            pytest.param(logging.INFO, ["info"], id="info"),
            pytest.param(25, ["info"], id="between info and warning"),
            pytest.param(logging.CRITICAL, ["error"], id="critical"),
        ],
    )
    def test_level(self, number: int, expected: list[str]) -> None:
        """A library's level becomes the highest of ours that is not above it."""
        stream = io.StringIO()
        with logs.configure("debug", service="demo", stream=stream):
            logging.getLogger("library").log(number, "text")

        levels = [line["level"] for line in lines_of(stream)]

        assert expected == levels

    def test_level_filter(self) -> None:
        """The level of the service holds for libraries."""
        stream = io.StringIO()
        with logs.configure("warn", service="demo", stream=stream):
            logging.getLogger("library").info("text")

        assert "" == stream.getvalue()

    def test_exception(self) -> None:
        """A library's exception is its traceback as text."""
        stream = io.StringIO()
        with logs.configure("info", service="demo", stream=stream):
            logging.getLogger("library").error("text", exc_info=LookupError("gone"))

        (line,) = lines_of(stream)

        assert line["exception"].endswith("LookupError: gone")

    def test_bad_call(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A log call of a library that cannot be formatted is told on stderr and raises nothing."""
        stream = io.StringIO()
        with logs.configure("info", service="demo", stream=stream):
            # Handed to ours alone, since the handlers of pytest raise at such a call.
            (bridge,) = (handler for handler in logging.getLogger().handlers if isinstance(handler, logs._StdlibBridge))
            bridge.handle(logging.makeLogRecord({"msg": "%d", "args": ("text",), "levelno": logging.INFO}))

        assert "" == stream.getvalue()
        assert "Logging error" in capsys.readouterr().err

    def test_configured_twice(self) -> None:
        """Configuring anew replaces what was there, for loggers made before as well."""
        first, second = io.StringIO(), io.StringIO()
        log = structlog.get_logger()
        with logs.configure("info", service="demo", stream=first):
            log.info("event")
        with logs.configure("info", service="demo", stream=second):
            log.info("event")
            logging.getLogger("library").info("text")

        counts = [len(lines_of(first)), len(lines_of(second))]

        assert [1, 2] == counts
