"""The control socket on disk."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from fractioning_core.errors import FileUnavailable
from mpsd import controlsocket


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


class TestLook:
    def test_nothing_there(self, tmp_path: Path) -> None:
        """No directory and no file are no socket."""
        assert (None, None) == (controlsocket.look(str(tmp_path)), controlsocket.look(str(tmp_path / "no")))

    def test_only_a_socket_counts(self, tmp_path: Path) -> None:
        """A plain file of the name is none, and neither is a link to a socket elsewhere."""
        (tmp_path / "control").touch()
        bind(tmp_path / "elsewhere")
        file = controlsocket.look(str(tmp_path))
        (tmp_path / "control").unlink()
        (tmp_path / "control").symlink_to("elsewhere")

        assert (None, None) == (file, controlsocket.look(str(tmp_path)))

    def test_a_further_name_or_mode_makes_no_other(self, tmp_path: Path) -> None:
        """What the daemon itself does to its socket leaves it the same."""
        bind(tmp_path / "control")
        before = controlsocket.look(str(tmp_path))
        (tmp_path / "shared").hardlink_to(tmp_path / "control")
        (tmp_path / "control").chmod(0o777)

        assert before is not None
        assert before == controlsocket.look(str(tmp_path))

    def test_another_one_in_its_place(self, tmp_path: Path) -> None:
        """A second socket is another one, even where the file system gives it the first one's inode again."""
        seen = set()
        for second in (1, 2):
            (tmp_path / "control").unlink(missing_ok=True)
            bind(tmp_path / "control")
            os.utime(tmp_path / "control", (second, second))
            seen.add(controlsocket.look(str(tmp_path)))

        assert 2 == len(seen)


class TestIsOpen:
    def test_there_and_deleted(self, tmp_path: Path) -> None:
        """Who made it has it until he closes it, whatever becomes of the file."""
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(tmp_path / "control"))
            bound = is_open(tmp_path)
            made.listen()
            listening = is_open(tmp_path)
            (tmp_path / "control").unlink()
            deleted = is_open(tmp_path)

        assert (False, True, True, False) == (bound, listening, deleted, is_open(tmp_path))

    def test_of_another_place_or_process(self, tmp_path: Path) -> None:
        """Only that very path counts, and only this process."""
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(tmp_path / "control"))
            made.listen()

            assert not is_open(tmp_path / "other")
            assert not controlsocket.is_open(str(tmp_path), os.getppid())
            assert not controlsocket.is_open(str(tmp_path), 0)

    def test_a_path_with_spaces(self, tmp_path: Path) -> None:
        """The kernel's table has it as it is."""
        directory = tmp_path / "a  b"
        directory.mkdir()
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(directory / "control"))
            made.listen()

            assert is_open(directory)

    def test_no_table(self, tmp_path: Path) -> None:
        """What cannot be read tells of nothing."""
        assert not controlsocket.is_open(str(tmp_path), os.getpid(), proc_root=tmp_path)


def is_open(directory: Path) -> bool:
    return controlsocket.is_open(str(directory), os.getpid())


class TestRemove:
    def test_once_and_again(self, tmp_path: Path) -> None:
        """One that is gone is fine."""
        bind(tmp_path / "control")
        controlsocket.remove(str(tmp_path))
        controlsocket.remove(str(tmp_path))

        assert None is controlsocket.look(str(tmp_path))

    def test_a_refusal(self, tmp_path: Path) -> None:
        """The path and the system's word are told."""
        (tmp_path / "control").mkdir()
        with pytest.raises(FileUnavailable) as caught:
            controlsocket.remove(str(tmp_path))

        assert str(caught.value).startswith(f"cannot remove {tmp_path}/control: ")
