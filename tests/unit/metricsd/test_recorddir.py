"""The records of a cycle, and what is said of files that are none."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest
import structlog
from fractioning_core import record
from fractioning_core.errors import FileUnavailable
from fractioning_core.mapdir import MapDir
from fractioning_core.testing.builders import a_record
from metricsd.recorddir import Reading, RecordDir


@pytest.fixture
def log() -> Iterator[list[MutableMapping[str, Any]]]:
    """Collect what is logged."""
    with structlog.testing.capture_logs() as lines:
        yield lines


class TestRead:
    def test_records_and_the_number_of_others(self, tmp_path: Path) -> None:
        """Records are told by container id, and files that only look like one are counted."""
        MapDir(tmp_path).write("abc", a_record())
        (tmp_path / "bad.json").write_bytes(b"{")
        (tmp_path / "notes.txt").write_bytes(b"")

        assert Reading({"abc": a_record()}, unreadable=1) == RecordDir(tmp_path).read()

    def test_a_missing_directory_is_empty(self, tmp_path: Path) -> None:
        """Before fractiond has written anything there are no records, and nothing is wrong."""
        assert Reading({}, unreadable=0) == RecordDir(tmp_path / "map").read()

    def test_an_unreadable_directory_is_an_error(self, tmp_path: Path) -> None:
        """That nothing can be read is not that nothing is there."""
        (tmp_path / "map").write_bytes(b"")

        with pytest.raises(FileUnavailable) as caught:
            RecordDir(tmp_path / "map").read()

        assert FileUnavailable("list", str(tmp_path / "map"), "Not a directory") == caught.value


class TestLog:
    def test_a_file_is_said_once(self, tmp_path: Path, log: list[MutableMapping[str, Any]]) -> None:
        """However often a file is met, its line is there once, with the reason."""
        (tmp_path / "future.json").write_bytes(record.encode(a_record()).replace(b'Version":1', b'Version":2'))
        directory = RecordDir(tmp_path)
        readings = [directory.read() for _ in range(3)]

        assert [Reading({}, unreadable=1)] * 3 == readings
        assert [
            {
                "event": "record_unreadable",
                "log_level": "warning",
                "file": "future.json",
                "reason": "not a container record: schemaVersion is 2, not 1",
            }
        ] == log

    def test_another_reason_is_said_again(self, tmp_path: Path, log: list[MutableMapping[str, Any]]) -> None:
        """A file that is wrong in a new way, or wrong again, gets a new line."""
        directory = RecordDir(tmp_path)
        for data in (b"{", b"[]", record.encode(a_record()), b"[]"):
            (tmp_path / "abc.json").write_bytes(data)
            directory.read()

        assert [
            "not a container record: not JSON",
            "not a container record: the record is not an object",
            "not a container record: the record is not an object",
        ] == [line["reason"].partition(": Exp")[0] for line in log]
