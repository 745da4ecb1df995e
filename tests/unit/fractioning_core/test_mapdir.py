from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from fractioning_core import record
from fractioning_core.errors import FileUnavailable
from fractioning_core.mapdir import MapDir
from fractioning_core.mapreader import MapReader, Problem
from fractioning_core.record import GpuDevice, Record
from fractioning_core.testing.builders import a_record

ONE = a_record(pod="one")
TWO = a_record(pod="two")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "map"


@pytest.fixture
def map_dir(path: Path) -> MapDir:
    return MapDir(path)


def names_in(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def read(map_dir: MapDir) -> tuple[dict[str, Record], tuple[Problem, ...]]:
    return MapReader(map_dir.path).read()


def put(path: Path, name: str, data: bytes = b"") -> None:
    path.mkdir(parents=True, exist_ok=True)
    (path / name).write_bytes(data)


class TestWrite:
    """Putting a record in place."""

    def test_reads_back(self, map_dir: MapDir) -> None:
        """A written record reads back under the bare id."""
        entry = a_record(gpu_devices=(GpuDevice(index=0), GpuDevice(index=3)))

        map_dir.write("containerd://abc", entry)

        assert ({"abc": entry}, ()) == read(map_dir)

    def test_leaves_exactly_one_file(self, map_dir: MapDir, path: Path) -> None:
        """Nothing but the record is in the directory afterwards, and it is the encoded bytes."""
        map_dir.write("abc", ONE)

        assert (["abc.json"], record.encode(ONE)) == (names_in(path), (path / "abc.json").read_bytes())

    def test_replaces_the_former_one(self, map_dir: MapDir) -> None:
        """A second record of the same container takes the place of the first."""
        map_dir.write("abc", ONE)
        map_dir.write("abc", TWO)

        assert ({"abc": TWO}, ()) == read(map_dir)

    def test_is_atomic(self, map_dir: MapDir, path: Path) -> None:
        """A reader that has the former file open goes on reading it whole."""
        map_dir.write("abc", ONE)
        with (path / "abc.json").open("rb") as opened:
            map_dir.write("abc", TWO)

            assert record.encode(ONE) == opened.read()

    def test_modes(self, map_dir: MapDir, path: Path) -> None:
        """Directory and file can be read by all, whatever the umask."""
        former = os.umask(0o077)
        try:
            map_dir.write("abc", ONE)
        finally:
            os.umask(former)

        modes = [stat.S_IMODE(entry.stat().st_mode) for entry in (path, path / "abc.json")]
        assert [0o755, 0o644] == modes

    def test_empty_id(self, map_dir: MapDir, path: Path) -> None:
        """An empty id is passed over and makes no directory."""
        map_dir.write("containerd://", ONE)

        assert not path.exists()

    def test_id_cannot_lead_out(self, map_dir: MapDir, path: Path) -> None:
        """An id with separators stays in the directory."""
        map_dir.write("../../evil", ONE)

        assert (["_._.._evil.json"], ["map"]) == (names_in(path), names_in(path.parent))

    def test_directory_cannot_be_made(self, tmp_path: Path) -> None:
        """A failure is Unavailable and names action, path and cause."""
        put(tmp_path, "file")
        target = tmp_path / "file" / "map"

        with pytest.raises(FileUnavailable) as caught:
            MapDir(target).write("abc", ONE)

        assert FileUnavailable("write", str(target / "abc.json"), "Not a directory") == caught.value

    def test_failed_rename_leaves_no_temporary_file(self, map_dir: MapDir, path: Path) -> None:
        """When the record cannot be put in place, its temporary file is removed."""
        (path / "abc.json").mkdir(parents=True)

        with pytest.raises(FileUnavailable) as caught:
            map_dir.write("abc", ONE)

        assert ("Is a directory", ["abc.json"]) == (caught.value.cause, names_in(path))

    def test_failed_encoding_leaves_no_temporary_file(self, map_dir: MapDir, path: Path) -> None:
        """When a record cannot be encoded, its temporary file is removed."""
        with pytest.raises(UnicodeEncodeError):
            map_dir.write("abc", a_record(pod="\ud800"))

        assert [] == names_in(path)

    def test_too_long_an_id(self, map_dir: MapDir) -> None:
        """An id longer than a file name may be is Unavailable, not a crash."""
        with pytest.raises(FileUnavailable) as caught:
            map_dir.write("a" * 300, ONE)

        assert caught.value.cause == "File name too long"


class TestDelete:
    """Removing a record."""

    def test_removes(self, map_dir: MapDir) -> None:
        """A deleted record is gone, whether or not the id has its scheme."""
        map_dir.write("abc", ONE)
        map_dir.write("def", TWO)

        map_dir.delete("containerd://abc")

        assert ({"def": TWO}, ()) == read(map_dir)

    @pytest.mark.parametrize("container_id", ["unknown", ""])
    def test_nothing_there(self, map_dir: MapDir, container_id: str) -> None:
        """An unknown or empty id is fine, with or without the directory."""
        map_dir.delete(container_id)
        map_dir.write("abc", ONE)
        map_dir.delete(container_id)

        assert ({"abc": ONE}, ()) == read(map_dir)

    def test_refused(self, map_dir: MapDir, path: Path) -> None:
        """A failure is Unavailable and names action, path and cause."""
        (path / "abc.json").mkdir(parents=True)

        with pytest.raises(FileUnavailable) as caught:
            map_dir.delete("abc")

        assert ("remove", str(path / "abc.json")) == (caught.value.action, caught.value.path)


class TestReplace:
    """Making the directory hold exactly what is given."""

    def test_stale_ones_go(self, map_dir: MapDir) -> None:
        """Records that are not given are removed, and the others are written."""
        map_dir.write("stale", ONE)
        map_dir.write("keep", ONE)

        map_dir.replace({"keep": TWO, "fresh": ONE})

        assert ({"keep": TWO, "fresh": ONE}, ()) == read(map_dir)

    def test_only_records_and_leftovers_go(self, map_dir: MapDir, path: Path) -> None:
        """A crashed writer's temporary files go; other files, directories and hidden files stay."""
        for name in ("notes.txt", ".hidden.json", ".gpu-fractioning-x.tmp", ".other.tmp", "stale.json"):
            put(path, name)
        (path / "directory.json").mkdir()

        map_dir.replace({})

        assert [".hidden.json", ".other.tmp", "directory.json", "notes.txt"] == names_in(path)

    def test_missing_directory(self, map_dir: MapDir, path: Path) -> None:
        """Replacing nothing by nothing makes no directory."""
        map_dir.replace({})

        assert not path.exists()

    def test_one_failure_does_not_stop_the_others(self, map_dir: MapDir, path: Path) -> None:
        """Where one record cannot be written the others are, stale ones go, and the failure is told."""
        (path / "bad.json").mkdir(parents=True)
        map_dir.write("stale", ONE)

        with pytest.raises(FileUnavailable) as caught:
            map_dir.replace({"bad": ONE, "good": TWO})

        assert (str(path / "bad.json"), ({"good": TWO}, ())) == (caught.value.path, read(map_dir))


class TestSweep:
    """Removing what belongs to no container any more."""

    def test_keeps_what_is_named(self, map_dir: MapDir) -> None:
        """Only the named containers keep their records."""
        map_dir.write("abc", ONE)
        map_dir.write("def", TWO)

        map_dir.sweep({"containerd://abc", "unknown"})

        assert ({"abc": ONE}, ()) == read(map_dir)

    def test_not_a_directory(self, tmp_path: Path) -> None:
        """A path that is no directory is Unavailable."""
        put(tmp_path, "file")

        with pytest.raises(FileUnavailable) as caught:
            MapDir(tmp_path / "file").sweep([])

        assert ("list", "Not a directory") == (caught.value.action, caught.value.cause)
