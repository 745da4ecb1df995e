"""The configuration file: written whole, with its modes, and compared."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from fractioning_core.errors import FileUnavailable
from mpsd import configfile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "etc" / "control.toml"


class TestWrite:
    def test_makes_directory_and_file_for_everybody_to_read(self, path: Path) -> None:
        """The modes are 0755 and 0644 whatever the umask, for the daemon may read as another user."""
        former = os.umask(0o077)
        try:
            configfile.write(path, "x")
        finally:
            os.umask(former)

        assert [0o755, 0o644] == [stat.S_IMODE(each.stat().st_mode) for each in (path.parent, path)]

    def test_is_atomic(self, path: Path) -> None:
        """Whoever has the former file open reads it to its end."""
        configfile.write(path, "former")
        with path.open() as opened:
            configfile.write(path, "new")

            assert ("former", "new") == (opened.read(), path.read_text())

    def test_leaves_nothing_beside_it(self, path: Path) -> None:
        """No temporary file stays."""
        configfile.write(path, "x")

        assert [path] == list(path.parent.iterdir())

    def test_a_refusal_names_path_and_cause_and_leaves_nothing(self, path: Path) -> None:
        """A directory in the file's place is told in one line."""
        path.mkdir(parents=True)

        with pytest.raises(FileUnavailable) as caught:
            configfile.write(path, "x")

        assert f"cannot write {path}: Is a directory" == str(caught.value)
        assert [path] == list(path.parent.iterdir())


class TestDifference:
    def test_none(self, path: Path) -> None:
        """The same text is no difference."""
        configfile.write(path, "x")

        assert "" == configfile.difference(path, "x")

    @pytest.mark.parametrize("found", ["", "x ", "x" * (configfile.MAX_BYTES + 1)], ids=["empty", "longer", "huge"])
    def test_another_text(self, path: Path, found: str) -> None:
        """Any other text is told."""
        configfile.write(path, found)

        assert "was changed since the control daemon started" == configfile.difference(path, "x")

    def test_no_file(self, path: Path) -> None:
        """A file that is gone is told."""
        assert "is gone" == configfile.difference(path, "x")

    def test_unreadable(self, path: Path) -> None:
        """What cannot be read is told with the cause."""
        path.mkdir(parents=True)

        assert "cannot be read: Is a directory" == configfile.difference(path, "x")
