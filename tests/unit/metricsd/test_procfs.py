"""Where processes belong, from trees that look like /proc and from the real one."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fractioning_core.errors import FileUnavailable
from hypothesis import given
from hypothesis import strategies as st
from metricsd import procfs
from metricsd.procfs import Processes
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
    return Processes(proc).origins(pids, sampled_at=100.0, known={KNOWN})


class TestOrigins:
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
        assert {} == Processes(Path("/proc")).origins([2**31 + pid], sampled_at=100.0, known=())

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

    def test_a_process_that_ends_after_its_file_was_opened_is_left_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where the kernel says at the reading that there is no such process, there is none."""
        child = subprocess.Popen(["sleep", "60"])  # noqa: S607 - any sleep will do
        open_file = os.open

        def open_last(path: str, flags: int) -> int:
            descriptor = open_file(path, flags)
            if path.endswith(f"/{child.pid}/stat"):
                child.kill()
                child.wait()
            return descriptor

        monkeypatch.setattr(os, "open", open_last)
        found = Processes(Path("/proc")).origins([child.pid], sampled_at=procfs.boot_seconds(), known={KNOWN})

        assert {} == found

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
            origins = Processes(Path("/proc")).origins([pid], sampled_at=procfs.boot_seconds(), known=())

        assert {pid} == set(origins)

    def test_a_process_is_not_found_by_a_list_that_is_older(self) -> None:
        """One that started since is another than the one that was listed."""
        before = procfs.boot_seconds() - 1 / TICKS
        with running() as pid:
            origins = Processes(Path("/proc")).origins([pid], sampled_at=before, known=())

        assert {} == origins

    def test_a_process_keeps_its_directory(self) -> None:
        """While a process runs its directory has one identity, whoever looks and whatever happens in it."""
        with running() as pid:
            before = procfs._made(f"/proc/{pid}")
            for file in ("stat", "cgroup", "environ"):
                Path(f"/proc/{pid}/{file}").read_bytes()
            os.kill(pid, signal.SIGSTOP)
            os.kill(pid, signal.SIGCONT)

            assert before == procfs._made(f"/proc/{pid}")

    def test_each_process_has_a_directory_of_its_own(self) -> None:
        """No two of many processes, one after the other, have the same identity."""
        made = []
        for _ in range(50):
            with running() as pid:
                made.append(procfs._made(f"/proc/{pid}"))

        assert len(made) == len(set(made))
        assert None not in made

    def test_an_id_that_was_given_again(self) -> None:
        """The next process with the same id has a directory of another identity, and is read."""
        with running() as pid:
            first = procfs._made(f"/proc/{pid}")
        with running_as(pid) as again:
            assert (pid, True) == (again, first != procfs._made(f"/proc/{pid}"))

    def test_a_process_that_ended_is_gone(self) -> None:
        """An id of nobody is left out."""
        with running() as pid:
            pass

        assert {} == Processes(Path("/proc")).origins([pid], sampled_at=procfs.boot_seconds(), known=())


class Watched:
    """
    A tree with one process, which is asked about again and again.
    """

    PID = 5

    def __init__(self, proc: Path, *, container: str = KNOWN) -> None:
        self.proc = proc
        put(proc, self.PID, cgroup=f"0::/kubepods/{container}\n")
        self.processes = Processes(proc)
        self.known = {KNOWN}
        self.read(at=1000.0)

    def read(self, *, at: float) -> dict[int, Origin]:
        """Ask for the process as of a moment."""
        return self.processes.origins([self.PID], sampled_at=at, known=self.known)

    def move(self, container: str) -> None:
        """Write another cgroup where the old one was: the directory stays as it is."""
        (self.proc / str(self.PID) / "cgroup").write_text(f"0::/kubepods/{container}/below\n")


class TestRemembering:
    def test_a_settled_process_is_not_read(self, tmp_path: Path) -> None:
        """One in a container with a record is given as the very same object while it is the same process."""
        watched = Watched(tmp_path)
        first = watched.read(at=1001.0)[5]
        watched.move(KNOWN)

        assert watched.read(at=1002.0)[5] is first

    def test_another_process_of_that_id(self, tmp_path: Path) -> None:
        """A directory that was made anew is of another process, which is read."""
        watched = Watched(tmp_path)
        (tmp_path / "5").rename(tmp_path / "old")
        put(tmp_path, 5, cgroup="0::/user.slice\n")

        assert {5: Origin(("/user.slice",))} == watched.read(at=1001.0)

    def test_another_process_of_that_id_since_the_list(self, tmp_path: Path) -> None:
        """Of one that began after the list was made, what is remembered of the id is not told."""
        watched = Watched(tmp_path)
        (tmp_path / "5").rename(tmp_path / "old")
        put(tmp_path, 5, cgroup=f"0::/kubepods/{KNOWN}\n", start_seconds=1001.5)

        assert {} == watched.read(at=1001.0)

    def test_one_that_ended(self, tmp_path: Path) -> None:
        """It is left out at once."""
        watched = Watched(tmp_path)
        (tmp_path / "5").rename(tmp_path / "old")

        assert {} == watched.read(at=1001.0)

    def test_every_minute(self, tmp_path: Path) -> None:
        """A process is read again within a minute, and not before the moment that its id stands for."""
        watched = Watched(tmp_path)
        watched.move(KNOWN)

        # The moments of id 5 are 55 s after a full minute: 1015 is one, and the first reading was at 1000.
        paths = [watched.read(at=at)[5].cgroups[0].endswith("/below") for at in (1014.0, 1015.0)]

        assert [False, True] == paths

    @pytest.mark.parametrize("pid", range(3, 70, 11))
    def test_never_longer_than_a_minute(self, pid: int) -> None:
        """Whatever id and time are, the next reading is after now and at most a minute away."""
        assert all(now < procfs._due(pid, now) <= now + 60 for now in (0.0, 12.5, 59.999, 60.0, 1e7 + 1 / 3))

    def test_readings_are_spread(self) -> None:
        """Processes that were met together are not all read again in the same cycle."""
        due = [procfs._due(pid, 1000.0) for pid in range(480)]

        assert [40] * 12 == [sum(1000 + 5 * cycle < at <= 1005 + 5 * cycle for at in due) for cycle in range(12)]

    def test_a_record_that_went(self, tmp_path: Path) -> None:
        """A process whose container has no record any more is read, and asked what it declares."""
        watched = Watched(tmp_path)
        (tmp_path / "5" / "environ").write_bytes(b"NVIDIA_GPU_MEMORY_LIMIT=1\0")
        watched.known.clear()

        assert watched.read(at=1001.0)[5].declares_limit

    @pytest.mark.parametrize("container", [STRANGER, "a.service"])
    def test_others_are_read_each_time(self, tmp_path: Path, container: str) -> None:
        """Of a process in no container with a record nothing is remembered: it may be about to be moved into one."""
        watched = Watched(tmp_path, container=container)
        assert {} == watched.processes._settled
        watched.move(KNOWN)

        assert {5: Origin((f"/kubepods/{KNOWN}/below",))} == watched.read(at=1001.0)

    def test_what_is_gone_is_forgotten(self, tmp_path: Path) -> None:
        """Only processes of the last list are remembered."""
        watched = Watched(tmp_path)
        put(tmp_path, 6, cgroup=f"0::/kubepods/{KNOWN}\n")
        watched.processes.origins([6], sampled_at=1001.0, known={KNOWN})

        assert [6] == list(watched.processes._settled)


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
def running_as(pid: int) -> Iterator[int]:
    """Run a process under an id that is free, until the end of the block; skips where we may not choose it."""
    for _ in range(50):
        try:
            Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
        except OSError:
            pytest.skip("choosing the id of a process needs CAP_CHECKPOINT_RESTORE")
        with running() as given:
            # Somebody else's process may have been quicker.
            if given == pid:
                yield given
                return
    pytest.fail(f"no process got the id {pid} in 50 attempts")


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
