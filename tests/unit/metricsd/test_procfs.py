"""Where processes belong, from trees that look like /proc and from the real one."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fractioning_core.errors import FileUnavailable
from hypothesis import given
from hypothesis import strategies as st
from metricsd import procfs
from metricsd.world import Origin

KNOWN = "0123456789abcdef" * 4
STRANGER = "fedcba9876543210" * 4
TICKS = os.sysconf("SC_CLK_TCK")


def stat_of(start: int, *, name: str = "python") -> bytes:
    """Write a process's `stat` as proc(5) has it, the start in ticks."""
    return f"7 ({name}) S 1 7 7 0 -1 4194560 {'0 ' * 12}{start} 1000 200 18446744073709551615 1 1 0\n".encode()


def put(
    proc: Path,
    pid: int,
    *,
    cgroup: str = "0::/\n",
    start_seconds: float = 10,
    name: str = "python",
    environ: bytes = b"",
) -> None:
    directory = proc / str(pid)
    directory.mkdir(parents=True)
    (directory / "cgroup").write_text(cgroup)
    (directory / "stat").write_bytes(stat_of(int(start_seconds * TICKS), name=name))
    (directory / "environ").write_bytes(environ)


def read(proc: Path, *pids: int) -> dict[int, Origin]:
    return procfs.read_origins(proc, pids, sampled_at=100.0, known={KNOWN})


class TestReadOrigins:
    def test_paths_by_process(self, tmp_path: Path) -> None:
        """Each process has the paths that its own file tells."""
        put(tmp_path, 5, cgroup=f"0::/kubepods/{KNOWN}\n")
        put(tmp_path, 6, cgroup="2:cpu:/a\n1:memory:/b\n")

        assert {5: Origin((f"/kubepods/{KNOWN}",)), 6: Origin(("/a", "/b"))} == read(tmp_path, 5, 6)

    def test_only_what_is_asked_for(self, tmp_path: Path) -> None:
        """Other processes are not looked at."""
        put(tmp_path, 5)
        put(tmp_path, 6)

        assert {5: Origin(("/",))} == read(tmp_path, 5)

    @pytest.mark.parametrize(
        "pid",
        [
            pytest.param(6, id="none of this id"),
            pytest.param(2**22 + 1, id="beyond the highest id of Linux"),
            pytest.param(2**31, id="beyond a signed number"),
            pytest.param(2**32 - 1, id="the highest that NVML can tell"),
        ],
    )
    def test_a_process_that_is_not_there_is_left_out(self, tmp_path: Path, pid: int) -> None:
        """An id without a process is no error, whatever number it is."""
        put(tmp_path, 5)

        assert {5: Origin(("/",))} == read(tmp_path, pid, 5)
        assert {} == procfs.read_origins(Path("/proc"), [2**31 + pid], sampled_at=100.0, known=())

    @pytest.mark.parametrize(
        ("start_seconds", "is_left_out"),
        [
            pytest.param(99, False, id="before"),
            pytest.param(100, False, id="in the same tick"),
            pytest.param(101, True, id="after"),
        ],
    )
    def test_a_process_that_started_since_is_left_out(
        self, tmp_path: Path, *, start_seconds: float, is_left_out: bool
    ) -> None:
        """A start after the list was begun is that of another process with the same id."""
        put(tmp_path, 5, start_seconds=start_seconds)

        assert is_left_out == (5 not in read(tmp_path, 5))

    @pytest.mark.parametrize("file", ["cgroup", "stat"])
    def test_a_process_that_went_meanwhile_is_left_out(self, tmp_path: Path, file: str) -> None:
        """Where one of the files is there no more, so is the process."""
        put(tmp_path, 5)
        (tmp_path / "5" / file).unlink()

        assert {} == read(tmp_path, 5)

    def test_a_process_that_we_may_not_look_at_belongs_to_nobody(self, tmp_path: Path) -> None:
        """A file that cannot be read is not one that is gone: the process is there, without paths."""
        put(tmp_path, 5)
        for file in ("cgroup", "stat"):
            (tmp_path / "5" / file).unlink()
            (tmp_path / "5" / file).mkdir()

        assert {5: Origin(())} == read(tmp_path, 5)

    def test_no_descriptor_left_is_an_error(self, tmp_path: Path) -> None:
        """That we cannot open files does not make every process one of the host."""
        put(tmp_path, 5)

        with no_descriptor_left(), pytest.raises(FileUnavailable) as caught:
            read(tmp_path, 5)

        assert FileUnavailable("read", f"{tmp_path}/5/cgroup", "Too many open files") == caught.value

    @pytest.mark.parametrize(
        ("cgroup", "environ", "expected"),
        [
            pytest.param(STRANGER, b"A=1\0NVIDIA_GPU_MEMORY_LIMIT=2048\0", True, id="a container without a record"),
            pytest.param(STRANGER, b"NVIDIA_GPU_MEMORY_LIMIT=2048\0A=1\0", True, id="the variable is the first"),
            pytest.param(
                STRANGER, b"A=1\0" * 50_000 + b"NVIDIA_GPU_MEMORY_LIMIT=2048\0", True, id="after 200 kB of others"
            ),
            pytest.param(STRANGER, b"A" * 1_048_575 + b"\0NVIDIA_GPU_MEMORY_LIMIT=1\0", False, id="beyond the bound"),
            pytest.param(STRANGER, b"A" * 65_536, False, id="as long as one reading"),
            pytest.param(STRANGER, b"A=1\0", False, id="no such variable"),
            pytest.param(STRANGER, b"XNVIDIA_GPU_MEMORY_LIMIT=1\0A=NVIDIA_GPU_MEMORY_LIMIT=1\0", False, id="others"),
            pytest.param(STRANGER, b"", False, id="a process that ended and was not waited for"),
            pytest.param(KNOWN, b"NVIDIA_GPU_MEMORY_LIMIT=2048\0", False, id="a container with a record is not asked"),
            pytest.param("a.service", b"NVIDIA_GPU_MEMORY_LIMIT=2048\0", False, id="nor is a process of the host"),
        ],
    )
    def test_a_stranger_is_asked_whether_it_declares_a_limit(
        self, tmp_path: Path, *, cgroup: str, environ: bytes, expected: bool
    ) -> None:
        """The environment is read of processes in containers that have no record, and of no other."""
        put(tmp_path, 5, cgroup=f"0::/kubepods/{cgroup}\n", environ=environ)

        assert {5: Origin((f"/kubepods/{cgroup}",), declares_limit=expected)} == read(tmp_path, 5)

    def test_an_environment_that_we_may_not_read_declares_nothing(self, tmp_path: Path) -> None:
        """Without the right to look, a stranger counts as one that is none of ours."""
        put(tmp_path, 5, cgroup=f"0::/kubepods/{STRANGER}\n")
        (tmp_path / "5" / "environ").unlink()

        assert {5: Origin((f"/kubepods/{STRANGER}",))} == read(tmp_path, 5)


class TestTheRealProc:
    def test_a_process_is_found_by_a_list_that_is_younger(self) -> None:
        """A process that ran before the list was begun is there."""
        with running() as pid:
            origins = procfs.read_origins(Path("/proc"), [pid], sampled_at=procfs.boot_seconds(), known=())

        assert {pid} == set(origins)

    def test_a_process_is_not_found_by_a_list_that_is_older(self) -> None:
        """One that started since is another than the one that was listed."""
        before = procfs.boot_seconds() - 1 / TICKS
        with running() as pid:
            origins = procfs.read_origins(Path("/proc"), [pid], sampled_at=before, known=())

        assert {} == origins

    def test_a_process_that_ended_is_gone(self) -> None:
        """An id of nobody is left out."""
        with running() as pid:
            pass

        assert {} == procfs.read_origins(Path("/proc"), [pid], sampled_at=procfs.boot_seconds(), known=())


class TestStartTicks:
    @pytest.mark.parametrize(
        ("stat", "expected"),
        [
            pytest.param(stat_of(12345), 12345, id="plain"),
            pytest.param(stat_of(12345, name="a b c"), 12345, id="spaces in the name"),
            pytest.param(stat_of(12345, name="x) R 1 (y"), 12345, id="parentheses in the name"),
            pytest.param(stat_of(12345, name=")"), 12345, id="a name that closes itself"),
            pytest.param(b"", 0, id="empty"),
            pytest.param(b"7 (a) S 1 2 3", 0, id="cut short"),
            pytest.param(stat_of(0).replace(b" 0 1000 ", b" x 1000 "), 0, id="no number"),
        ],
    )
    def test_read(self, stat: bytes, expected: int) -> None:
        """The start is the 22nd field, counted from the end of the name."""
        assert expected == procfs.start_ticks(stat)

    @given(st.binary())
    def test_any_bytes(self, stat: bytes) -> None:
        """No bytes do anything but give a number that is not negative."""
        assert procfs.start_ticks(stat) >= 0


@contextmanager
def running() -> Iterator[int]:
    """Run a process of our own until the end of the block."""
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as process:
        yield process.pid


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """Let this process open no more files."""
    lowest_free = os.dup(0)
    os.close(lowest_free)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
