"""Who runs a program, from trees that look like /proc."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from mpsd import proctable

SERVER = "nvidia-cuda-mps-server"


def put(proc: Path, pid: str, *, exe: str | None = None, cmdline: bytes = b"", environ: bytes = b"") -> None:
    directory = proc / pid
    directory.mkdir(parents=True)
    if exe is not None:
        (directory / "exe").symlink_to(exe)
    (directory / "cmdline").write_bytes(cmdline)
    (directory / "environ").write_bytes(environ)


class TestRunning:
    def test_only_the_exact_name_of_the_executable_counts(self, tmp_path: Path) -> None:
        """Two servers are found among a shell, a longer name and a directory that is no process."""
        put(tmp_path, "111", exe=f"/usr/bin/{SERVER}")
        put(tmp_path, "222", exe=f"/drv/{SERVER}")
        put(tmp_path, "333", exe="/bin/bash", cmdline=f"{SERVER}\0".encode())
        put(tmp_path, "444", exe=f"/usr/bin/{SERVER}-extra")
        put(tmp_path, "self", exe=f"/usr/bin/{SERVER}")
        put(tmp_path, "0", exe=f"/usr/bin/{SERVER}")

        assert [111, 222] == sorted(proctable.running(tmp_path, SERVER))

    def test_a_deleted_executable_counts(self, tmp_path: Path) -> None:
        """A driver upgrade removes the file under a server that runs."""
        put(tmp_path, "5", exe=f"/usr/bin/{SERVER} (deleted)")

        assert (5,) == proctable.running(tmp_path, SERVER)

    def test_the_first_argument_stands_in_for_an_unreadable_link(self, tmp_path: Path) -> None:
        """Where the link cannot be read the command line tells."""
        put(tmp_path, "5", cmdline=f"/x/{SERVER}\0-v\0".encode())

        assert (5,) == proctable.running(tmp_path, SERVER)

    def test_an_empty_name_runs_nowhere(self, tmp_path: Path) -> None:
        """A kernel thread has neither link nor arguments, and is nobody's."""
        put(tmp_path, "2")

        assert () == proctable.running(tmp_path, "")

    def test_a_missing_proc_is_an_error(self, tmp_path: Path) -> None:
        """No processes and no /proc are not the same."""
        with pytest.raises(FileNotFoundError):
            proctable.running(tmp_path / "no", SERVER)

    def test_this_process_is_found_in_the_real_one(self) -> None:
        """The real /proc is read the same way."""
        program = Path(f"/proc/{os.getpid()}/exe").readlink().name

        assert os.getpid() in proctable.running(Path("/proc"), program)


class TestVariable:
    @pytest.mark.parametrize(
        ("environ", "value"),
        [
            pytest.param(b"A=1\0B=2\0", "2", id="among others"),
            pytest.param(b"A=1\0BB=2\0", None, id="a longer name"),
            pytest.param(b"B=\0", "", id="empty"),
            pytest.param(b"B\0", None, id="without a value"),
            pytest.param(b"B=a=b\0", "a=b", id="with an equals sign"),
            pytest.param(b"", None, id="none at all"),
        ],
    )
    def test_of_a_process(self, tmp_path: Path, environ: bytes, value: str | None) -> None:
        """A variable is given as it was at the start."""
        put(tmp_path, "5", environ=environ)

        assert value == proctable.variable_of(tmp_path, 5, "B")

    def test_of_a_process_that_is_gone(self, tmp_path: Path) -> None:
        """It has none."""
        assert None is proctable.variable_of(tmp_path, 5, "B")


class TestDirectory:
    def test_is_seen_from_the_process_own_root(self, tmp_path: Path) -> None:
        """The same text in another root is another directory."""
        for name in ("a", "b"):
            (tmp_path / name / "pipe").mkdir(parents=True)
            (tmp_path / "proc" / name).mkdir(parents=True)
        proc = tmp_path / "proc"
        for pid, root in (("1", "a"), ("2", "b"), ("3", "a")):
            (proc / pid).mkdir()
            (proc / pid / "root").symlink_to(tmp_path / root)

        one, two, three = (proctable.directory_of(proc, pid, "/pipe") for pid in (1, 2, 3))
        assert one == three != two
        assert None is proctable.directory_of(proc, 1, "/other")
