"""The files that the control daemon finds when it starts."""

from __future__ import annotations

import fcntl
import stat
from pathlib import Path

import pytest
from fractioning_core.errors import FileUnavailable
from mpsd import daemonfiles


def modes(directory: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.lstat().st_mode) for path in directory.iterdir()}


class TestRenew:
    @pytest.mark.parametrize("umask_made", [True, False], ids=["open to everybody", "not there"])
    def test_only_root_may_open_them(self, tmp_path: Path, *, umask_made: bool) -> None:
        """Both are there, empty, and for their owner alone, whatever was there before."""
        for name in daemonfiles.NAMES if umask_made else ():
            (tmp_path / name).write_text("before")
            (tmp_path / name).chmod(0o666)
        daemonfiles.renew(str(tmp_path))

        assert dict.fromkeys(daemonfiles.NAMES, 0o600) == modes(tmp_path)
        assert ["", ""] == [(tmp_path / name).read_text() for name in daemonfiles.NAMES]

    def test_a_lock_on_the_one_before(self, tmp_path: Path) -> None:
        """Whoever locked the former file has locked nothing."""
        path = tmp_path / daemonfiles.NAMES[0]
        with path.open("w") as before:
            # Of an open file, so that it counts within this process as another's does.
            fcntl.flock(before, fcntl.LOCK_EX)
            daemonfiles.renew(str(tmp_path))
            with path.open("r+") as after:
                fcntl.flock(after, fcntl.LOCK_EX | fcntl.LOCK_NB)

                assert before.fileno() != after.fileno()

    def test_a_link(self, tmp_path: Path) -> None:
        """What a link leads to is left as it is."""
        elsewhere = tmp_path / "elsewhere"
        elsewhere.write_text("kept")
        (tmp_path / daemonfiles.NAMES[1]).symlink_to(elsewhere)
        daemonfiles.renew(str(tmp_path))

        assert "kept" == elsewhere.read_text()
        assert not (tmp_path / daemonfiles.NAMES[1]).is_symlink()

    def test_a_refusal(self, tmp_path: Path) -> None:
        """The path and the system's word are told."""
        (tmp_path / daemonfiles.NAMES[0]).mkdir()
        with pytest.raises(FileUnavailable) as caught:
            daemonfiles.renew(str(tmp_path))

        assert str(caught.value).startswith(f"cannot make {tmp_path}/{daemonfiles.NAMES[0]}: ")
