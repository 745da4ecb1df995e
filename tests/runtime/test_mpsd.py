"""
What can happen to the control daemon and to mpsd, on the real control daemon (simulated r615 in front of it).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab import waiting
from lab.mpsd import Mpsd
from simgpu import programs
from simgpu.state import Machine, Mps


async def gone(pids: list[int]) -> None:
    await waiting.until(
        lambda: not [pid for pid in pids if _lives(pid)], what=f"{pids} to be gone", timeout_seconds=30.0
    )


async def attached(mpsd: Mpsd, clients: int) -> None:
    async def counted() -> bool:
        return await mpsd.metric("clients") == clients

    await waiting.until_awaited(counted, what=f"{clients} clients", timeout_seconds=30.0)


def _lives(pid: int) -> bool:
    try:
        return "Z" != (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False


class TestReadiness:
    async def test_the_daemon_answers(self, mpsd: Mpsd) -> None:
        """Ready means that the real daemon answered, with the configuration that we wrote."""
        arguments = (Path("/proc") / str(mpsd.daemon()) / "cmdline").read_bytes().split(b"\0")

        assert b"-f" in arguments
        assert 1.0 == await mpsd.metric("daemon_up")
        assert mpsd.socket.is_socket()
        assert "[features.memacct]\nenabled=true\n" in mpsd.config.read_text()

    async def test_attached_clients_are_counted(self, mpsd: Mpsd) -> None:
        """What the daemon lists is on the page within a check."""
        mpsd.simulate(Mps(clients=(os.getpid(),)))
        await attached(mpsd, 1)

        assert 1.0 == await mpsd.metric("clients")

    @pytest.mark.parametrize(
        ("mps", "reason"),
        [
            pytest.param(Mps(error="out of order"), "out of order", id="an error"),
            pytest.param(Mps(latency_ms=1500), "within 1 s", id="a slow answer"),
            pytest.param(Mps(hangs=True), "within 1 s", id="no answer"),
        ],
    )
    async def test_an_answer_that_is_none_is_told(self, tmp_path: Path, mps: Mps, reason: str) -> None:
        """A slow, wrong or missing answer is the reason in the body; one alone costs no restart, and liveness holds."""
        flags = ["--probe-interval=500ms", "--probe-timeout=1s", "--probe-failures=1000"]
        async with Mpsd(directory=tmp_path, flags=flags) as mpsd:
            await mpsd.ready()
            daemon = mpsd.daemon()
            mpsd.simulate(mps)
            await mpsd.not_ready(reason)
            alive = await mpsd.get("/healthz")
            mpsd.simulate(Mps())
            await mpsd.ready()

            assert (200, daemon) == (alive.status, mpsd.daemon())

    async def test_a_changed_configuration_is_told_and_put_back(self, mpsd: Mpsd) -> None:
        """The daemon runs with what we wrote; another text on disk is a reason, and then ours again."""
        ours, daemon = mpsd.config.read_text(), mpsd.daemon()
        mpsd.config.write_text("[features.memacct]\nenabled=false\n")
        await mpsd.not_ready("configuration file was changed")
        await mpsd.ready()

        assert (ours, daemon) == (mpsd.config.read_text(), mpsd.daemon())

    async def test_a_configuration_changed_before_it_was_read(self, tmp_path: Path) -> None:
        """A daemon that may have read another text is not ready, whatever is on disk later, and is replaced."""
        program = tmp_path / "bin/nvidia-cuda-mps-control"
        program.parent.mkdir()
        async with Mpsd(directory=tmp_path, flags=[f"--mps-binary={program}", "--probe-interval=300ms"]) as mpsd:
            other = f'printf "[features.memacct]\\nenabled=false\\n" > {mpsd.config}'
            once = f"[ -e {tmp_path}/once ] || {{ {other}; touch {tmp_path}/once; }}"
            _install(mpsd, program, first=f'case " $* " in *" -f "*) {once};; esac')
            await mpsd.not_ready("configuration file was changed")
            await mpsd.ready()

            assert 1.0 == await mpsd.metric("restarts_total", reason="config_changed")

    @pytest.mark.parametrize(
        ("flag", "reason"),
        [
            pytest.param("--mps-config-path=", "--mps-config-path (MPS_CONFIG_PATH) is empty", id="no configuration"),
            pytest.param("--mps-control-port=", "--mps-control-port (MPS_CONTROL_PORT) is empty", id="no protocol"),
        ],
    )
    async def test_settings_that_leave_accounting_off(self, tmp_path: Path, flag: str, reason: str) -> None:
        """A daemon that answers, but accounts for nothing, makes no node ready."""
        async with Mpsd(directory=tmp_path, flags=[flag]) as mpsd:
            body = await mpsd.not_ready(reason)

            assert body.startswith("memory accounting is off: ")
            assert await _up(mpsd)

    async def test_a_daemon_slow_to_make_its_socket(self, tmp_path: Path) -> None:
        """On a cold node it takes its time, and is left to it."""
        async with Mpsd(directory=tmp_path, machine=Machine(mps=Mps(start_ms=8000))) as mpsd:
            await mpsd.not_ready("starting")
            await mpsd.ready()

            assert 0.0 == await mpsd.metric("restarts_total", reason="socket_missing")


class TestTheDaemonDies:
    async def test_killed_once(self, tmp_path: Path) -> None:
        """It is back after the back-off, counted, and mpsd itself goes on."""
        async with Mpsd(directory=tmp_path, flags=["--backoff=3s"]) as mpsd:
            await mpsd.ready()
            own, former = mpsd.service.pid, mpsd.daemon()
            os.kill(former, signal.SIGKILL)
            await mpsd.not_ready("backing-off")
            await mpsd.another_daemon(former)
            await mpsd.ready()

            assert (own, None) == (mpsd.service.pid, mpsd.service.exit_code)
            assert 1.0 == await mpsd.metric("restarts_total", reason="crashed")

    async def test_killed_too_often(self, tmp_path: Path) -> None:
        """A spent budget is exit 1 with the reason."""
        async with Mpsd(directory=tmp_path, flags=["--max-retries=2", "--backoff=1s"]) as mpsd:
            await mpsd.ready()
            while mpsd.service.exit_code is None:
                for pid in mpsd.daemons():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                await asyncio.sleep(waiting.POLL_SECONDS)
            status = await mpsd.service.wait()
            error = await mpsd.service.wait_for_log("service_failed")

            assert (1, []) == (status, mpsd.daemons())
            assert error["error"].startswith("MPS daemon failed after 2 attempts")

    async def test_stopped(self, mpsd: Mpsd) -> None:
        """One that is stopped is not ready within 10 s with the reason, is replaced, and mpsd is ready again."""
        former = mpsd.daemon()
        os.kill(former, signal.SIGSTOP)
        await mpsd.not_ready("did not answer", timeout_seconds=10.0)
        await mpsd.another_daemon(former)
        await mpsd.ready()

        assert 1.0 == await mpsd.metric("restarts_total", reason="no_answer")
        assert not _lives(former)

    async def test_stopped_under_the_defaults(self, tmp_path: Path) -> None:
        """The default interval and deadline keep the promise of 10 s."""
        async with Mpsd(directory=tmp_path) as mpsd:
            await mpsd.ready()
            os.kill(mpsd.daemon(), signal.SIGSTOP)
            reason = await mpsd.not_ready("did not answer", timeout_seconds=10.0)

            assert "within 3 s" in reason


class TestItAnswersBadly:
    async def test_for_long(self, tmp_path: Path) -> None:
        """It is replaced ever more rarely, and mpsd does not end for it, however small the budget for crashes."""
        flags = ["--max-retries=1", "--backoff=2s", "--probe-interval=200ms"]
        async with Mpsd(directory=tmp_path, flags=flags) as mpsd:
            await mpsd.ready()
            mpsd.simulate(Mps(error="unknown command"))
            loop = asyncio.get_running_loop()
            restarts = []
            for count in (1, 2, 3):
                await _restarted(mpsd, count)
                restarts.append(loop.time())
            mpsd.simulate(Mps())
            await mpsd.ready()

            assert 2.0 < restarts[1] - restarts[0]
            assert 4.0 < restarts[2] - restarts[1]
            assert None is mpsd.service.exit_code


async def _restarted(mpsd: Mpsd, times: int) -> None:
    async def counted() -> bool:
        return await mpsd.metric("restarts_total", reason="error_answer") >= times

    await waiting.until_awaited(counted, what=f"{times} restarts", timeout_seconds=20.0)


class TestTheSocketGoes:
    async def test_another_daemon_takes_the_directory(self, mpsd: Mpsd) -> None:
        """Containers would reach a daemon that we know nothing of: it is told, ended, and ours is there again."""
        former = mpsd.daemon()
        for path in mpsd.pipe_dir.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        with _a_daemon(mpsd, mpsd.pipe_dir) as other:
            await mpsd.not_ready("the control socket is")
            # By our `quit`, which reaches whoever has the directory, or as a stray before the next start.
            await waiting.until(lambda: other.poll() is not None, what="the other to end", timeout_seconds=30.0)
            await mpsd.another_daemon(former)
            await mpsd.ready()

        assert former != mpsd.daemon()

    async def test_a_dead_socket_in_its_place(self, mpsd: Mpsd) -> None:
        """A socket that nobody listens on is told, though the daemon answers, and replaced with it."""
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(mpsd.pipe_dir / "dead"))
        (mpsd.pipe_dir / "dead").replace(mpsd.socket)
        await mpsd.not_ready("the control socket is not the one that our daemon made")
        await mpsd.ready()

        assert 1.0 == await mpsd.metric("restarts_total", reason="socket_missing")

    async def test_deleted_unseen(self, tmp_path: Path) -> None:
        """A daemon's first socket that goes before anybody looked is told as gone, not as one that is still to come."""
        async with Mpsd(directory=tmp_path) as mpsd:
            async with asyncio.TaskGroup() as group:
                deleting = group.create_task(_delete_repeatedly(mpsd.socket, asyncio.Event(), every_seconds=0.001))
                await mpsd.not_ready("the control socket is gone")
                deleting.cancel()
            await mpsd.ready(timeout_seconds=10.0)

            assert 1.0 <= await mpsd.metric("restarts_total", reason="socket_missing")
            assert mpsd.socket.is_socket()

    async def test_deleted_again_and_again(self, tmp_path: Path) -> None:
        """Not ready while somebody deletes the socket every 500 ms, ready within 10 s after."""
        async with Mpsd(directory=tmp_path) as mpsd:
            await mpsd.ready()
            stop = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(_delete_repeatedly(mpsd.socket, stop))
                await mpsd.not_ready("control socket is gone")
                seen = {(await _readyz_after(mpsd, 0.05)) for _ in range(120)}
                stop.set()
            await mpsd.ready(timeout_seconds=10.0)

            assert {503} == seen
            assert mpsd.socket.is_socket()


async def _delete_repeatedly(path: Path, stop: asyncio.Event, *, every_seconds: float = 0.5) -> None:
    while not stop.is_set():
        path.unlink(missing_ok=True)
        await asyncio.sleep(every_seconds)


async def _readyz_after(mpsd: Mpsd, seconds: float) -> int:
    await asyncio.sleep(seconds)
    return (await mpsd.get("/readyz")).status


class TestMpsdEnds:
    async def test_told_to_with_a_client_that_never_leaves(self, tmp_path: Path) -> None:
        """It asks the daemon to quit, kills it after the delay, exits 0, and leaves nothing in /proc."""
        async with Mpsd(directory=tmp_path, flags=["--graceful-stop-delay=2s", "--probe-interval=500ms"]) as mpsd:
            await mpsd.ready()
            # A client that the daemon lists: `quit` waits for it.
            mpsd.simulate(Mps(clients=(os.getpid(),), ignores_quit=True))
            await attached(mpsd, 1)
            begun = asyncio.get_running_loop().time()
            mpsd.service.signal(signal.SIGTERM)
            status = await mpsd.service.wait()
            took = asyncio.get_running_loop().time() - begun
            await mpsd.service.wait_for_log("daemon_did_not_quit")

            assert (0, []) == (status, mpsd.leftovers())
            assert took >= 2.0

    async def test_told_to_without_clients(self, tmp_path: Path) -> None:
        """Without clients nothing is waited for: the daemon quits by itself, status 0."""
        async with Mpsd(directory=tmp_path, flags=["--graceful-stop-delay=10m"]) as mpsd:
            await mpsd.ready()
            mpsd.service.signal(signal.SIGTERM)
            status = await mpsd.service.wait()
            stopped = await mpsd.service.wait_for_log("daemon_stopped")

            assert (0, 0, []) == (status, stopped["status"], mpsd.leftovers())

    async def test_killed_and_started_again(self, mpsd: Mpsd) -> None:
        """The daemon dies with it, and the next mpsd has one daemon, a sane socket and is ready."""
        former = [mpsd.daemon(), *mpsd.leftovers()]
        mpsd.service.signal(signal.SIGKILL)
        await mpsd.service.wait()
        await gone(former)
        await mpsd.start()
        await mpsd.ready()

        assert 1 == len(mpsd.daemons())
        assert mpsd.socket.is_socket()

    async def test_a_stray_daemon_is_ended(self, tmp_path: Path) -> None:
        """A daemon that somebody else started in our pipe directory is ended by its process id; others live."""
        async with Mpsd(directory=tmp_path) as mpsd:
            await mpsd.ready()
            mpsd.service.signal(signal.SIGTERM)
            await mpsd.service.wait()
            other = tmp_path / "o"
            other.mkdir()
            with _a_daemon(mpsd, mpsd.pipe_dir) as stray, _a_daemon(mpsd, other) as stranger:
                await mpsd.start()
                await mpsd.service.wait_for_log("stray_daemon_ended", pid=stray.pid)
                await mpsd.ready()

                assert (True, True) == (stray.poll() is not None, stranger.poll() is None)
                assert 1 == len(mpsd.daemons())

    async def test_the_servers_of_a_stray_end_with_it(self, tmp_path: Path) -> None:
        """Their clients are bound by nothing we know; a server of another directory lives."""
        async with Mpsd(directory=tmp_path) as mpsd:
            await mpsd.ready()
            mpsd.service.signal(signal.SIGTERM)
            await mpsd.service.wait()
            with _a_server(tmp_path, mpsd.pipe_dir) as server, _a_server(tmp_path, tmp_path) as stranger:
                with _a_daemon(mpsd, mpsd.pipe_dir):
                    await mpsd.start()
                    await mpsd.ready()

                assert (True, True) == (server.poll() is not None, stranger.poll() is None)


@contextlib.contextmanager
def _a_server(directory: Path, pipe_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    """
    Run a process that is to the eye a server of a pipe directory; a real one needs a GPU.
    """
    program = directory / "nvidia-cuda-mps-server"
    if not program.exists():
        shutil.copy("/bin/sleep", program)
    with subprocess.Popen([program, "1000"], env={"CUDA_MPS_PIPE_DIRECTORY": str(pipe_dir)}) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def _a_daemon(mpsd: Mpsd, pipe_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    environ = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": str(pipe_dir), "CUDA_MPS_LOG_DIRECTORY": str(pipe_dir)}
    with subprocess.Popen(
        [mpsd.driver.real_control, "-f"], env=environ, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def sealed(tmp_path: Path) -> Iterator[Path]:
    """
    A read-only mount.
    """
    path = tmp_path / "ro"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", path], check=True)
    yield path
    subprocess.run(["umount", path], check=True)


class TestTheNode:
    async def test_a_pipe_directory_too_long(self, tmp_path: Path) -> None:
        """One line names the path, its length and the limit; exit 1, and no daemon was started."""
        async with Mpsd(directory=tmp_path, flags=[f"--pipe-dir=/tmp/{'x' * 79}"]) as mpsd:
            status = await mpsd.service.wait()
            error = await mpsd.service.wait_for_log("service_failed")

            assert 1 == status
            assert "has 84 characters; accepted: at most 83" in error["error"]
            assert "Traceback" not in mpsd.service.output()

    @pytest.mark.parametrize("flag", ["pipe-dir", "log-dir", "mps-config-path"])
    async def test_a_directory_on_a_read_only_mount(self, sealed: Path, tmp_path: Path, flag: str) -> None:
        """One line names the directory and the system's word; exit 1 without a traceback."""
        path = sealed / "etc/c.toml" if flag == "mps-config-path" else sealed
        async with Mpsd(directory=tmp_path, flags=[f"--{flag}={path}"]) as mpsd:
            status = await mpsd.service.wait()
            error = await mpsd.service.wait_for_log("service_failed")

            assert 1 == status
            assert str(sealed) in error["error"]
            assert error["error"].endswith("Read-only file system")
            assert "Traceback" not in mpsd.service.output()

    @pytest.mark.parametrize(
        ("mode", "reason"),
        [
            pytest.param(None, "is not there", id="missing"),
            pytest.param(0o644, "is not executable", id="not executable"),
            pytest.param(0o755, "cannot run it (status 127)", id="no program"),
        ],
    )
    async def test_a_program_that_cannot_be_run(
        self,
        tmp_path: Path,
        mode: int | None,
        reason: str,
    ) -> None:
        """It lives and says why; once the program is right it runs, without a restart of ours or a charge."""
        directory = tmp_path / "bin"
        directory.mkdir()
        program = directory / "nvidia-cuda-mps-control"
        if mode is not None:
            program.write_text("no program")
            program.chmod(mode)
        async with Mpsd(directory=tmp_path, flags=[f"--mps-binary={program}", "--max-retries=1"]) as mpsd:
            await mpsd.not_ready(f"control daemon parked: {program} {reason}" if mode != 0o755 else reason)
            alive = await mpsd.get("/healthz")
            program.unlink(missing_ok=True)
            _install(mpsd, program)
            await mpsd.ready()

            assert (200, None) == (alive.status, mpsd.service.exit_code)


def _install(mpsd: Mpsd, program: Path, *, first: str = "") -> None:
    """
    Let the program appear as a mount does: whole, at once.
    """
    new = program.with_name("new")
    new.write_text(f'#!/bin/sh\n{first}\nexec {mpsd.driver.control} "$@"\n')
    new.chmod(stat.S_IRWXU)
    shutil.move(new, program)


class TestTheDriver:
    async def test_too_old(self, tmp_path: Path) -> None:
        """Below r615 no daemon is started and the reason is told; a newer driver starts it without our restart."""
        async with Mpsd(directory=tmp_path, machine=Machine(driver="580.95.05")) as mpsd:
            body = await mpsd.not_ready("r580")
            before = mpsd.daemons()
            mpsd.machine.write(Machine(driver="615.43.02"))
            await mpsd.ready(timeout_seconds=20.0)

            assert ([], 1) == (before, len(mpsd.daemons()))
            assert "r615 or newer is needed" in body
            assert 615.0 == await mpsd.metric("driver_major")

    async def test_too_old_while_the_daemon_starts(self, tmp_path: Path) -> None:
        """A driver that becomes known during a start, which a stray holds up here, ends what was started."""
        machine = Machine(driver="580.95.05", latencies_ms={"Init": 6000})
        mpsd = Mpsd(directory=tmp_path, machine=machine)
        mpsd.pipe_dir.mkdir(parents=True)
        with _a_daemon(mpsd, mpsd.pipe_dir) as stray:
            await waiting.until(mpsd.socket.exists, what="the stray's socket", timeout_seconds=30.0)
            stray.send_signal(signal.SIGSTOP)
            async with mpsd:
                read = await mpsd.service.wait_for_log("driver_read")
                started = await mpsd.service.wait_for_log("daemon_started")
                body = await mpsd.not_ready("held")

                assert read["time"] < started["time"]
                assert ("r615 or newer is needed" in body, []) == (True, mpsd.daemons())

    async def test_half_upgraded(self, tmp_path: Path) -> None:
        """A mismatch of library and module holds MPS back, names it, and heals by itself as the new version."""
        machine = Machine(errors={"Init": 18})
        async with Mpsd(directory=tmp_path, machine=machine) as mpsd:
            body = await mpsd.not_ready("held")
            before = mpsd.daemons()
            mpsd.machine.write(Machine(driver="620.10.01"))
            await mpsd.ready(timeout_seconds=20.0)

            assert ([], None) == (before, mpsd.service.exit_code)
            assert "mismatch" in body.lower()
            assert 620.0 == await mpsd.metric("driver_major")

    @pytest.mark.parametrize(
        ("machine", "reason"),
        [
            pytest.param(Machine(errors={"Init": 999}), "NVML", id="fails at start"),
            pytest.param(Machine(latency_ms=30_000), "driver starting", id="hangs"),
        ],
    )
    async def test_nvml_of_no_use(self, tmp_path: Path, machine: Machine, reason: str) -> None:
        """MPS runs though NVML does not; the reason is told, the loop never waits, and it heals."""
        async with Mpsd(directory=tmp_path, machine=machine) as mpsd:
            await waiting.until(mpsd.socket.exists, what="the control socket", timeout_seconds=30.0)
            daemon = mpsd.daemon()
            body = await mpsd.not_ready(reason)
            alive = await mpsd.get("/healthz")
            up = await _up(mpsd)
            mpsd.machine.write(Machine())
            await mpsd.ready(timeout_seconds=45.0)

            assert (200, True, daemon) == (alive.status, up, mpsd.daemon())
            assert reason in body

    async def test_nvml_fails_later(self, mpsd: Mpsd) -> None:
        """A failure after the start is told, MPS goes on, and readiness comes back with NVML."""
        daemon = mpsd.daemon()
        mpsd.machine.write(Machine(error=999))
        await mpsd.not_ready("NVML", timeout_seconds=20.0)
        mpsd.machine.write(Machine())
        await mpsd.ready(timeout_seconds=20.0)

        assert daemon == mpsd.daemon()

    async def test_nvml_missing(self, tmp_path: Path) -> None:
        """Without the library MPS runs and answers, and the library's name is in the reason."""
        async with Mpsd(directory=tmp_path, environ={"LD_LIBRARY_PATH": "/nowhere"}) as mpsd:
            await waiting.until(mpsd.socket.exists, what="the control socket", timeout_seconds=30.0)

            assert "libnvidia-ml.so.1" in await mpsd.not_ready("LIBRARY_NOT_FOUND")
            assert await _up(mpsd)


async def _up(mpsd: Mpsd) -> bool:
    async def is_up() -> bool:
        return await mpsd.metric("daemon_up") == 1

    return await waiting.until_awaited(is_up, what="the daemon to answer", timeout_seconds=30.0)


class TestTheEnvironment:
    async def test_is_passed_on_whole(self, tmp_path: Path) -> None:
        """PATH and LD_LIBRARY_PATH reach the daemon as they are, with both directories of MPS beside them."""
        libraries = f"/l:{programs.locate().library.parent}"
        async with Mpsd(directory=tmp_path, environ={"LD_LIBRARY_PATH": libraries, "PATH": "/p"}) as mpsd:
            await mpsd.ready()
            entries = (Path("/proc") / str(mpsd.daemon()) / "environ").read_bytes().split(b"\0")
            found = dict(entry.partition(b"=")[::2] for entry in entries)

            assert (libraries.encode(), b"/p") == (found[b"LD_LIBRARY_PATH"], found[b"PATH"])
            assert str(mpsd.pipe_dir).encode() == found[b"CUDA_MPS_PIPE_DIRECTORY"]
            assert str(tmp_path / "log").encode() == found[b"CUDA_MPS_LOG_DIRECTORY"]
