"""
The simulated r615 control daemon: what it adds to Debian's real one, and that the real one is behind it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from simgpu import programs
from simgpu.programs import MissingDriver
from simgpu.state import Machine, Mps, StateFile

CONFIGURATION = """\
[features.memacct]
enabled=true
audit_log=true

[features.context-share]
enabled=true
default_socket="off"

[servers.shared]
"""
LIST = ("client", "list", "--format=csv,noheader")
SECONDS = 5.0


class Scene:
    """
    Directories, a state, and the daemons started on them.
    """

    def __init__(self, directory: Path) -> None:
        try:
            self.driver = programs.locate()
        except MissingDriver as error:
            pytest.fail(str(error), pytrace=False)
        self.pipe_dir = directory / "pipe"
        self.pipe_dir.mkdir()
        (directory / "log").mkdir()
        self.configuration = directory / "mps-control.toml"
        self.configuration.write_text(CONFIGURATION)
        self.state = StateFile(directory / "simgpu")
        self.state.write(Machine())
        self.environ = {
            **os.environ,
            **self.state.environ,
            "CUDA_MPS_PIPE_DIRECTORY": str(self.pipe_dir),
            "CUDA_MPS_LOG_DIRECTORY": str(directory / "log"),
        }
        self._started: list[subprocess.Popen[str]] = []

    def start(self) -> subprocess.Popen[str]:
        """
        Start a daemon as mpsd does.
        """
        daemon = subprocess.Popen(
            [self.driver.control, "-p", "3", "-m", "-f", "-a", self.configuration],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environ,
        )
        self._started.append(daemon)
        return daemon

    def up(self) -> subprocess.Popen[str]:
        """
        Start a daemon and wait until its last socket is there.
        """
        daemon = self.start()
        until((self.pipe_dir / "shared/default/control").is_socket)
        return daemon

    def ask(self, *words: str, typed: str = "", timeout_seconds: float = SECONDS) -> subprocess.CompletedProcess[str]:
        """
        Run a client command.
        """
        argv: list[str | Path] = [self.driver.control, "-p", "3", *words]
        return subprocess.run(
            argv, input=typed, capture_output=True, text=True, timeout=timeout_seconds, env=self.environ, check=False
        )

    def clean(self) -> None:
        """
        End what was started.
        """
        for daemon in self._started:
            daemon.kill()
            daemon.communicate()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """
    A machine without clients; daemons are ended after the test.
    """
    made = Scene(tmp_path)
    yield made
    made.clean()


@pytest.fixture
def client() -> Iterator[int]:
    """
    The process of a client that never leaves.
    """
    process = subprocess.Popen(["sleep", "1000"])
    yield process.pid
    process.kill()
    process.wait()


def until(holds: Callable[[], bool]) -> None:
    """
    Wait for a fact about a real program.
    """
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


class TestTheDaemon:
    def test_it_is_the_real_one(self, scene: Scene) -> None:
        """
        The process that was started is Debian's program, and it answers.
        """
        daemon = scene.up()

        assert Path(f"/proc/{daemon.pid}/exe").resolve() == scene.driver.real_control.resolve()
        assert scene.ask(typed="get_default_active_thread_percentage\n").stdout == "100.0\n"

    def test_it_says_that_it_is_simulated(self, scene: Scene) -> None:
        """
        Its first line says what is simulated, and how it was started.
        """
        daemon = scene.start()
        assert daemon.stdout is not None

        told = f"simulated r615: protocol 3, multi-user, configuration {scene.configuration}\n"
        assert daemon.stdout.readline() == told

    @pytest.mark.parametrize(
        "servers", [pytest.param("shared/default", id="namespace"), pytest.param("shared", id="server")]
    )
    def test_sockets_of_a_server(self, scene: Scene, servers: str) -> None:
        """
        A container that sees only a server's directory reaches the daemon from there.
        """
        daemon = scene.up()
        environ = {"CUDA_MPS_PIPE_DIRECTORY": str(scene.pipe_dir / servers)}
        argv: list[str | Path] = [scene.driver.client, "hello-from-a-container"]
        answer = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, env=environ, check=True)
        assert daemon.stdin is not None
        daemon.stdin.write("quit\n")
        daemon.stdin.flush()

        assert answer.stdout == 'Unknown command "hello-from-a-container"\n'
        assert "Cmd:hello-from-a-container" in daemon.communicate()[0]

    def test_a_second_one(self, scene: Scene) -> None:
        """
        A second daemon on the same directory says so and ends; the first is not disturbed.
        """
        first = scene.up()
        second = scene.start()

        assert "already running" in second.communicate(timeout=SECONDS)[0]
        assert (first.poll(), scene.ask(*LIST).returncode) == (None, 0)

    def test_a_kill(self, scene: Scene) -> None:
        """
        A killed daemon takes its helper along, leaves its sockets, and the next one starts over them.
        """
        daemon = scene.up()
        helper = children(daemon.pid)
        daemon.kill()
        daemon.wait()
        until(lambda: not any(is_alive(pid) for pid in helper))
        left = (scene.pipe_dir / "control").is_socket()
        # What a client says between two lives.
        between = scene.ask(*LIST)
        following = scene.start()
        until(lambda: pid_file(scene) == following.pid)

        assert (left, len(helper)) == (True, 1)
        assert (between.returncode, between.stderr) == (1, "Cannot find MPS control daemon process\n")
        assert scene.ask(*LIST).returncode == 0

    def test_a_deleted_socket(self, scene: Scene) -> None:
        """
        Root's commands go through another socket: a daemon whose socket is gone still answers them.
        """
        scene.up()
        (scene.pipe_dir / "control").unlink()

        assert scene.ask(*LIST).returncode == 0

    def test_a_stopped_one(self, scene: Scene) -> None:
        """
        A stopped daemon accepts connections and never answers.
        """
        daemon = scene.up()
        daemon.send_signal(signal.SIGSTOP)

        with pytest.raises(subprocess.TimeoutExpired):
            scene.ask(*LIST, timeout_seconds=0.5)


class TestItsEnd:
    def test_quit(self, scene: Scene) -> None:
        """
        `quit` on its input ends it with 0 when there are no clients.
        """
        daemon = scene.up()
        daemon.communicate("quit\n", timeout=SECONDS)

        assert daemon.returncode == 0

    def test_the_end_of_its_input(self, scene: Scene) -> None:
        """
        It ends when its input does.
        """
        daemon = scene.up()
        daemon.communicate(timeout=SECONDS)

        assert daemon.returncode == 0

    def test_quit_with_a_client(self, scene: Scene, client: int) -> None:
        """
        `quit` waits for a client, and ends it once that is terminated.
        """
        scene.state.write(Machine(mps=Mps(clients=(client,))))
        daemon = scene.up()
        assert daemon.stdin is not None
        daemon.stdin.write("quit\n")
        daemon.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            daemon.wait(0.3)
        scene.ask("client", "terminate", str(client))

        assert daemon.wait(SECONDS) == 0


class TestCommands:
    def test_clients(self, scene: Scene, client: int) -> None:
        """
        Clients of the state are listed while they live, and no longer once terminated.
        """
        scene.up()
        scene.state.write(Machine(mps=Mps(clients=(client, 4_194_303))))
        before = scene.ask(*LIST).stdout
        terminated = scene.ask("client", "terminate", str(client))

        assert before == f"{client},shared,default\n"
        assert (terminated.returncode, scene.ask(*LIST).stdout) == (0, "")

    def test_a_stranger(self, scene: Scene) -> None:
        """
        A process that is no client cannot be terminated.
        """
        scene.up()
        answer = scene.ask("client", "terminate", "1")

        assert (answer.returncode, answer.stdout) == (1, "Invalid process 1!\n")

    @pytest.mark.parametrize(
        ("mps", "status", "output"),
        [
            pytest.param(Mps(latency_ms=200), 0, "", id="slow"),
            pytest.param(Mps(error="Internal error"), 1, "Internal error\n", id="an error"),
        ],
    )
    def test_faults(self, scene: Scene, mps: Mps, status: int, output: str) -> None:
        """
        Answers are slow or wrong when the state says so.
        """
        scene.up()
        scene.state.write(Machine(mps=mps))
        started = time.monotonic()
        answer = scene.ask(*LIST)

        assert (answer.returncode, answer.stdout) == (status, output)
        assert time.monotonic() - started >= mps.latency_ms / 1000

    def test_no_answer(self, scene: Scene) -> None:
        """
        No answer comes when the state says so.
        """
        scene.up()
        scene.state.write(Machine(mps=Mps(hangs=True)))

        with pytest.raises(subprocess.TimeoutExpired):
            scene.ask(*LIST, timeout_seconds=0.5)


class TestTheConfiguration:
    @pytest.mark.parametrize(
        ("text", "told"),
        [
            pytest.param("x = 1\n", "unknown section x", id="section"),
            pytest.param("[features.memory]\n", "unknown feature memory", id="feature"),
            pytest.param('[features.memacct]\nenabled="yes"\n', "features.memacct.enabled is no bool", id="type"),
            pytest.param("[features.memacct]\naudit=true\n", "features.memacct: unknown key audit", id="key"),
            pytest.param(
                '[features.context-share]\ndefault_socket="maybe"\n',
                "features.context-share.default_socket is 'maybe', neither on nor off",
                id="word",
            ),
            pytest.param('[servers.a]\ntimeslice_pct="50"\n', "servers.a: unknown key timeslice_pct", id="key of r620"),
            pytest.param(
                '[compute_policy]\ntimeslice="long"\n', "unknown section compute_policy", id="section of r620"
            ),
            pytest.param("[features\n", "Expected ']' at the end of a table declaration", id="no TOML"),
        ],
    )
    def test_one_that_r615_refuses(self, scene: Scene, text: str, told: str) -> None:
        """
        What r615 does not know is refused with one line, and nothing starts.
        """
        scene.configuration.write_text(text)
        daemon = scene.start()
        output = daemon.communicate(timeout=SECONDS)[0]

        assert (daemon.returncode, output.count("\n")) == (1, 1)
        assert output.startswith(f"simulated r615: configuration {scene.configuration}: {told}")
        assert list(scene.pipe_dir.iterdir()) == []

    def test_a_refused_start(self, scene: Scene) -> None:
        """
        The state can have any start refused.
        """
        scene.state.write(Machine(mps=Mps(start_error="no GPU")))
        daemon = scene.start()

        assert (daemon.communicate(timeout=SECONDS)[0], daemon.returncode) == (
            "simulated r615: told to refuse the start: no GPU\n",
            1,
        )


def children(pid: int) -> list[int]:
    """
    List a process's children.
    """
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    """
    Tell whether a process runs; one that waits to be collected does not.
    """
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def pid_file(scene: Scene) -> int | None:
    """
    Read the daemon's own note of its process id.
    """
    try:
        return int((scene.pipe_dir / "nvidia-cuda-mps-control.pid").read_text())
    except (OSError, ValueError):
        return None
