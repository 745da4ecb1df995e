from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from fractioning_core import record
from fractioning_core.errors import Unavailable
from fractioning_core.mapdir import MapDir
from fractioning_core.mapreader import MapReader, Problem
from fractioning_core.testing.builders import a_record

ONE = a_record(pod="one")
TWO = a_record(pod="two")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "map"


@pytest.fixture
def map_dir(path: Path) -> MapDir:
    return MapDir(path)


@pytest.fixture
def reader(path: Path) -> MapReader:
    return MapReader(path)


def put(path: Path, name: str, data: bytes = b"") -> None:
    path.mkdir(parents=True, exist_ok=True)
    (path / name).write_bytes(data)


class TestRead:
    """Reading the directory."""

    def test_missing_directory(self, reader: MapReader) -> None:
        """A directory that is not there holds no records."""
        assert ({}, ()) == reader.read()

    def test_not_a_directory(self, tmp_path: Path) -> None:
        """A path that is no directory is Unavailable."""
        put(tmp_path, "file")

        with pytest.raises(Unavailable) as caught:
            MapReader(tmp_path / "file").read()

        assert f"cannot list {tmp_path}/file: Not a directory" == str(caught.value)

    def test_other_files_are_passed_over(self, map_dir: MapDir, reader: MapReader, path: Path) -> None:
        """Notes, temporary and hidden files, directories, links and pipes are no records."""
        map_dir.write("good", ONE)
        for name in ("notes.txt", ".gpu-fractioning-x.tmp", ".hidden.json"):
            put(path, name, record.encode(TWO))
        (path / "directory.json").mkdir()
        (path / "link.json").symlink_to(path / "good.json")
        os.mkfifo(path / "pipe.json")

        assert ({"good": ONE}, ()) == reader.read()

    @pytest.mark.parametrize(
        ("replace", "reasons"),
        [
            pytest.param(lambda _path: None, [], id="nothing"),
            pytest.param(os.mkfifo, [], id="a pipe"),
            pytest.param(os.mkdir, [], id="a directory"),
            pytest.param(lambda path: path.symlink_to("good.json"), ["Too many levels of symbolic links"], id="a link"),
        ],
    )
    def test_what_changes_after_the_listing(
        self,
        map_dir: MapDir,
        reader: MapReader,
        monkeypatch: pytest.MonkeyPatch,
        replace: Callable[[Path], object],
        reasons: list[str],
    ) -> None:
        """A record that went since the directory was listed is passed over, and what took its place is no record."""
        map_dir.replace({"good": ONE, "swapped": TWO})
        swapped = map_dir.path / "swapped.json"
        open_file = os.open

        def open_late(path: str, flags: int) -> int:
            if path == str(swapped):
                swapped.unlink()
                replace(swapped)
            return open_file(path, flags)

        monkeypatch.setattr(os, "open", open_late)
        records, problems = reader.read()

        assert ({"good": ONE}, reasons) == (records, [problem.reason for problem in problems])

    def test_what_does_not_parse_is_told(self, map_dir: MapDir, reader: MapReader, path: Path) -> None:
        """A broken file and a foreign schema are told, each time, and keep no other record from being read."""
        map_dir.write("good", ONE)
        put(path, "corrupt.json", b"{")
        put(path, "future.json", record.encode(TWO).replace(b'"schemaVersion":1', b'"schemaVersion":2'))
        put(path, "huge.json", record.encode(TWO) + b" " * record.MAX_RECORD_BYTES)

        records, problems = reader.read()

        assert ({"good": ONE}, ["corrupt.json", "future.json", "huge.json"]) == (
            records,
            [problem.file for problem in problems],
        )
        assert Problem("future.json", "not a container record: schemaVersion is 2, not 1") == problems[1]
        assert (records, problems) == reader.read()

    def test_readers_never_see_half_a_record(self, map_dir: MapDir, reader: MapReader) -> None:
        """While records are being replaced, every reading is whole."""
        short, long = a_record(pod="a"), a_record(pod="b" * 250)
        map_dir.write("abc", short)

        def rewrite() -> None:
            for entry in [long, short] * 50:
                map_dir.write("abc", entry)

        writer = threading.Thread(target=rewrite)
        writer.start()
        readings = [reader.read() for _ in range(100)]
        writer.join()

        assert all(problems == () and records["abc"] in (short, long) for records, problems in readings)


class TestReadAgain:
    """Reading it when some of it was read before."""

    def test_what_changed_is_seen(self, map_dir: MapDir, reader: MapReader) -> None:
        """Records that came, went or were replaced, even by one as long, show in the next reading."""
        map_dir.replace({"kept": ONE, "gone": ONE, "replaced": ONE})
        reader.read()
        map_dir.replace({"kept": ONE, "new": ONE, "replaced": TWO})

        assert ({"kept": ONE, "new": ONE, "replaced": TWO}, ()) == reader.read()

    def test_what_did_not_change_is_not_read(self, map_dir: MapDir, reader: MapReader) -> None:
        """A file that is the same as before gives the very record of before; one that was written again does not."""
        map_dir.replace({"kept": ONE, "rewritten": ONE})
        before, _ = reader.read()
        map_dir.write("rewritten", ONE)
        after, _ = reader.read()

        assert (True, False) == (after["kept"] is before["kept"], after["rewritten"] is before["rewritten"])

    def test_a_mended_file_is_seen(self, reader: MapReader, path: Path) -> None:
        """A file that was no record and is overwritten in place becomes one."""
        put(path, "abc.json", b"{")
        reader.read()
        put(path, "abc.json", record.encode(ONE))

        assert ({"abc": ONE}, ()) == reader.read()

    def test_a_directory_that_went_is_empty(self, map_dir: MapDir, reader: MapReader, path: Path) -> None:
        """What was read before is not remembered past its file."""
        map_dir.write("abc", ONE)
        reader.read()
        (path / "abc.json").unlink()
        path.rmdir()

        assert ({}, ()) == reader.read()
