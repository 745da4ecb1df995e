"""Which control daemons are strays, and how they end."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fractioning_core.errors import FileUnavailable
from mpsd import strays
from mpsd.causes import SurvivesKill
from mpsd.strays import CONTROL_PROGRAM, SERVER_PROGRAM, Neighbourhood


@pytest.fixture
def pipe_dir(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    path.mkdir()
    return path


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    path = tmp_path / "proc"
    path.mkdir()
    return path


@pytest.fixture
def fake(proc: Path, pipe_dir: Path) -> Neighbourhood:
    return Neighbourhood(proc, str(pipe_dir))


def put(proc: Path, pid: int, program: str, *arguments: str, pipe_dir: str | None, root: str = "/") -> None:
    directory = proc / str(pid)
    directory.mkdir()
    (directory / "exe").symlink_to(f"/usr/bin/{program}")
    (directory / "root").symlink_to(root)
    (directory / "cmdline").write_bytes("\0".join([program, *arguments, ""]).encode())
    environ = f"CUDA_MPS_PIPE_DIRECTORY={pipe_dir}\0" if pipe_dir is not None else ""
    (directory / "environ").write_bytes(f"PATH=/bin\0{environ}".encode())


class TestStrays:
    def test_a_daemon_of_our_directory(self, fake: Neighbourhood, proc: Path, pipe_dir: Path) -> None:
        """In the foreground or the background, under any spelling of the directory."""
        put(proc, 1, CONTROL_PROGRAM, "-f", pipe_dir=str(pipe_dir))
        put(proc, 2, CONTROL_PROGRAM, "-d", pipe_dir=f"{pipe_dir}/")
        put(proc, 3, CONTROL_PROGRAM, "-p", "3", "-f", pipe_dir=str(pipe_dir))

        assert [1, 2, 3] == sorted(fake.strays())

    @pytest.mark.parametrize(
        ("program", "arguments", "directory"),
        [
            pytest.param(CONTROL_PROGRAM, ["-f"], "/elsewhere", id="another directory"),
            pytest.param(CONTROL_PROGRAM, ["-f"], None, id="no directory told"),
            pytest.param(CONTROL_PROGRAM, ["-f"], "", id="an empty directory told"),
            pytest.param(CONTROL_PROGRAM, [], "ours", id="a client that reads commands"),
            pytest.param(CONTROL_PROGRAM, ["client", "list"], "ours", id="a client with a command"),
            pytest.param(SERVER_PROGRAM, ["-f"], "ours", id="a server"),
            pytest.param(f"{CONTROL_PROGRAM}-x", ["-f"], "ours", id="a longer name"),
        ],
    )
    def test_nobody_else(
        self,
        fake: Neighbourhood,
        proc: Path,
        pipe_dir: Path,
        program: str,
        arguments: list[str],
        directory: str | None,
    ) -> None:
        """What is not a daemon, or not of our directory, is left alone."""
        put(proc, 1, program, *arguments, pipe_dir=str(pipe_dir) if directory == "ours" else directory)

        assert () == fake.strays()

    def test_the_same_path_in_another_container(
        self, fake: Neighbourhood, proc: Path, pipe_dir: Path, tmp_path: Path
    ) -> None:
        """A tenant's own daemon under the same path is the tenant's."""
        root = tmp_path / "container"
        (root / str(pipe_dir).lstrip("/")).mkdir(parents=True)
        put(proc, 1, CONTROL_PROGRAM, "-f", pipe_dir=str(pipe_dir), root=str(root))

        assert () == fake.strays()


class TestServers:
    def test_all_but_those_of_another_directory(self, fake: Neighbourhood, proc: Path, pipe_dir: Path) -> None:
        """One that tells nothing counts as ours; one of another daemon on the node does not."""
        put(proc, 111, SERVER_PROGRAM, pipe_dir=str(pipe_dir))
        put(proc, 222, SERVER_PROGRAM, pipe_dir=None)
        put(proc, 333, "bash", pipe_dir=str(pipe_dir))
        put(proc, 444, f"{SERVER_PROGRAM}-extra", pipe_dir=str(pipe_dir))
        put(proc, 555, SERVER_PROGRAM, pipe_dir="/another")

        assert [111, 222] == sorted(fake.servers())

    def test_orphans_are_only_those_that_tell(self, fake: Neighbourhood, proc: Path, pipe_dir: Path) -> None:
        """Where no daemon of ours has run, a server that tells nothing may be anybody's."""
        put(proc, 111, SERVER_PROGRAM, pipe_dir=str(pipe_dir))
        put(proc, 222, SERVER_PROGRAM, pipe_dir=None)
        put(proc, 333, SERVER_PROGRAM, pipe_dir="/another")

        assert (111,) == fake.orphans()


@contextmanager
def daemon(tmp_path: Path, pipe_dir: Path, name: str, *, deaf: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    """Run a copy of the shell under the control daemon's name."""
    program = tmp_path / name
    shutil.copy(Path("/bin/sh").resolve(), program)
    script = f"{'trap : TERM; ' if deaf else ''}echo up; while :; do read line; done"
    with subprocess.Popen(  # noqa: S603  the copy made above
        [program, "-f", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"CUDA_MPS_PIPE_DIRECTORY": str(pipe_dir)},
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


class TestEndAll:
    async def test_a_real_stray_is_terminated_and_others_live(self, tmp_path: Path, pipe_dir: Path) -> None:
        """The one of our directory ends by TERM, that of another goes on."""
        other = tmp_path / "other"
        other.mkdir()
        with daemon(tmp_path, pipe_dir, "stray") as stray, daemon(tmp_path, other, "same") as stranger:
            near = Neighbourhood(Path("/proc"), str(pipe_dir), frozenset({"stray", "same"}))
            ended = await strays.end_all(near, grace_seconds=10.0)
            status = await asyncio.to_thread(stray.wait, 10)

            assert ((stray.pid,), -signal.SIGTERM, None) == (ended, status, stranger.poll())

    async def test_one_that_does_not_listen_is_killed(self, tmp_path: Path, pipe_dir: Path) -> None:
        """After the grace there is no asking."""
        with daemon(tmp_path, pipe_dir, "stray", deaf=True) as stray:
            near = Neighbourhood(Path("/proc"), str(pipe_dir), frozenset({"stray"}))
            await strays.end_all(near, grace_seconds=0.2)
            status = await asyncio.to_thread(stray.wait, 10)

            assert -signal.SIGKILL == status

    async def test_nothing_to_end(self, fake: Neighbourhood) -> None:
        """An empty node is left as it is."""
        assert () == await strays.end_all(fake)

    async def test_a_process_that_is_gone_already(self, fake: Neighbourhood, proc: Path, pipe_dir: Path) -> None:
        """Whoever ends between look and handle needs no ending."""
        put(proc, 4_194_304, CONTROL_PROGRAM, "-f", pipe_dir=str(pipe_dir))

        assert () == await strays.end_all(fake)

    async def test_a_proc_that_is_not_there(self, tmp_path: Path) -> None:
        """Not knowing the neighbours is told, not taken for having none."""
        near = Neighbourhood(tmp_path / "no", str(tmp_path))
        with pytest.raises(FileUnavailable) as caught:
            await strays.end_all(near)

        assert f"cannot list {tmp_path}/no: No such file or directory" == str(caught.value)

    async def test_one_that_survives(self, tmp_path: Path, pipe_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """No daemon is started beside one that hangs in the kernel, which no signal reaches."""
        with daemon(tmp_path, pipe_dir, "stray") as stray:
            monkeypatch.setattr(signal, "pidfd_send_signal", lambda _handle, _number: None)
            near = Neighbourhood(Path("/proc"), str(pipe_dir), frozenset({"stray"}))
            with pytest.raises(SurvivesKill) as caught:
                await strays.end_all(near, grace_seconds=0.1)

        assert stray.pid == caught.value.pid
        assert f"on {pipe_dir} that is not ours, with pid {stray.pid} survives SIGKILL" in str(caught.value)


class TestKill:
    def test_one_refusal_does_not_keep_the_next_from_it(self) -> None:
        """A process that is gone counts as killed, and the second one is killed all the same."""
        with subprocess.Popen(["/bin/sleep", "1000"]) as sleeper:
            seen = strays.kill(lambda: (4_194_304, sleeper.pid))
            status = sleeper.wait(10)

        assert (((sleeper.pid,), ()), -signal.SIGKILL) == (seen, status)

    def test_an_id_that_passed_on_is_left_alone(self) -> None:
        """What is no server any more once it is held on to, is another process by now."""
        with subprocess.Popen(["/bin/sleep", "1000"]) as sleeper:
            listings = iter([(sleeper.pid,), ()])
            seen = strays.kill(lambda: next(listings))
            lives = sleeper.poll() is None
            sleeper.kill()

        assert (((), ()), True) == (seen, lives)

    def test_what_cannot_be_killed_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The system's refusal is passed on by process id."""

        def refuse(handle: int, number: int) -> None:
            raise PermissionError(handle, number)

        monkeypatch.setattr(signal, "pidfd_send_signal", refuse)
        pids = (os.getpid(), os.getppid())

        assert ((), pids) == strays.kill(lambda: pids)
