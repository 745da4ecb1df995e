"""The records of a cycle, and what is said of files that are none."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest
import structlog
from fractioning_core import record
from fractioning_core.errors import FileUnavailable
from fractioning_core.mapdir import MapDir
from fractioning_core.testing.builders import a_record
from metricsd.recorddir import Reading, RecordDir

NOW = 1000.0
INTERVAL = 5.0


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

        assert Reading({"abc": a_record()}, unreadable=1) == RecordDir(tmp_path).read(now=NOW)

    def test_a_missing_directory_is_empty(self, tmp_path: Path) -> None:
        """Before fractiond has written anything there are no records, and nothing is wrong."""
        assert Reading({}, unreadable=0) == RecordDir(tmp_path / "map").read(now=NOW)

    def test_an_unreadable_directory_is_an_error(self, tmp_path: Path) -> None:
        """That nothing can be read is not that nothing is there."""
        (tmp_path / "map").write_bytes(b"")

        with pytest.raises(FileUnavailable) as caught:
            RecordDir(tmp_path / "map").read(now=NOW)

        assert FileUnavailable("list", str(tmp_path / "map"), "Not a directory") == caught.value


class Watched:
    """
    A directory with a record, read every few seconds.
    """

    def __init__(self, path: Path) -> None:
        self.files = MapDir(path)
        self.files.write("abc", a_record(pod="trainer"))
        self.directory = RecordDir(path)
        self.now = NOW
        self.last = self.directory.read(now=self.now)

    def read(self, *, after: float = INTERVAL) -> Reading:
        """Read after some seconds more."""
        self.now += after
        self.last = self.directory.read(now=self.now)
        return self.last

    def settle(self) -> Reading:
        """Read as often as it takes until nothing is opened any more."""
        self.read()
        return self.read()


def overwrite(path: Path, pod: str) -> None:
    """Put another record in place where it lies, which no writer of ours does: the directory stays as it was."""
    with path.open("r+b") as file:
        file.truncate()
        file.write(record.encode(a_record(pod=pod)))


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path / "map")


class TestReadAgain:
    def test_nothing_changed(self, watched: Watched) -> None:
        """The very same reading is given again, so that others need not compare."""
        first = watched.last

        assert [True] * 15 == [watched.read() is first for _ in range(15)]

    def test_files_are_not_looked_at(self, watched: Watched) -> None:
        """While no name in the directory changed, what is in the files is not asked."""
        first = watched.settle()
        overwrite(watched.files.path / "abc.json", "other")

        assert watched.read() is first

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            pytest.param(lambda files: files.write("new", a_record(pod="x")), {"abc": "trainer", "new": "x"}, id="new"),
            pytest.param(lambda files: files.delete("abc"), {}, id="gone"),
            pytest.param(lambda files: files.write("abc", a_record(pod="x")), {"abc": "x"}, id="replaced"),
        ],
    )
    def test_a_change_is_seen_at_once(
        self, watched: Watched, change: Callable[[MapDir], None], expected: dict[str, str]
    ) -> None:
        """A record that came, went or was replaced is in the next reading, however long nothing changed before."""
        watched.settle()
        change(watched.files)

        assert expected == {container_id: found.pod for container_id, found in watched.read().records.items()}

    def test_a_directory_whose_times_were_set(self, watched: Watched) -> None:
        """A change is seen though somebody sets the directory's times to what they were."""
        watched.settle()
        path, before = watched.files.path, watched.files.path.stat()
        watched.files.write("new", a_record())
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

        assert {"abc", "new"} == set(watched.read().records)

    def test_another_directory_of_that_name(self, watched: Watched) -> None:
        """A directory that took the other's place is read, whatever its times are."""
        watched.settle()
        path = watched.files.path
        path.rename(path.with_name("old"))

        assert {} == watched.read().records

    def test_a_change_in_the_same_tick(self, watched: Watched) -> None:
        """A change that leaves the directory's stamp as it is, as one within a tick of its clock does, is seen."""
        overwrite(watched.files.path / "abc.json", "other")

        assert "other" == watched.read().records["abc"].pod

    def test_a_change_in_the_same_tick_as_one_that_was_seen(self, watched: Watched) -> None:
        """So it is however long nothing had changed before."""
        watched.settle()
        watched.files.write("new", a_record())
        watched.read()
        overwrite(watched.files.path / "new.json", "other")

        assert "other" == watched.read().records["new"].pod

    def test_every_minute(self, watched: Watched) -> None:
        """Whatever the directory says, files are looked at again a minute after they were last."""
        watched.settle()  # looked at them 5 s ago
        overwrite(watched.files.path / "abc.json", "other")

        assert ["trainer", "other"] == [watched.read(after=after).records["abc"].pod for after in (54.0, 1.0)]

    def test_what_is_no_record_is_looked_at_each_time(self, watched: Watched) -> None:
        """One that is mended where it lies is a record at the next reading."""
        (watched.files.path / "abc.json").write_bytes(b"{")
        watched.read(after=60.0)
        watched.settle()
        overwrite(watched.files.path / "abc.json", "mended")

        assert "mended" == watched.read().records["abc"].pod

    def test_out_of_reach_for_a_time(self, watched: Watched) -> None:
        """A directory that gives way to a file is an error, and is read again when it is back."""
        watched.settle()
        path = watched.files.path
        path.rename(path.with_name("old"))
        path.touch()
        with pytest.raises(FileUnavailable):
            watched.read()
        path.unlink()
        path.with_name("old").rename(path)

        assert {"abc"} == set(watched.read().records)


class TestLog:
    def test_a_file_is_said_once(self, tmp_path: Path, log: list[MutableMapping[str, Any]]) -> None:
        """However often a file is met, its line is there once, with the reason."""
        (tmp_path / "future.json").write_bytes(record.encode(a_record()).replace(b'Version":1', b'Version":2'))
        directory = RecordDir(tmp_path)
        readings = [directory.read(now=NOW + 5 * number) for number in range(3)]

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
            directory.read(now=NOW)

        assert [
            "not a container record: not JSON",
            "not a container record: the record is not an object",
            "not a container record: the record is not an object",
        ] == [line["reason"].partition(": Exp")[0] for line in log]
