"""The demo as a stranger meets it: run for real, judged by its output, its exit status and what it leaves."""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from demo import leftovers
from demo.cast import Fence, Role
from demo.hints import PROMPT
from demo.screen import WIDTH, Screen, columns, wrap
from demo.stage import Refused, Running
from demo.views import judge
from lab import toolchain, waiting

SECONDS = 90
SCRIPT = toolchain.REPOSITORY / "scripts/demo"
DEMO = [sys.executable, "-m", "demo"]
FOLDERS = [str(toolchain.REPOSITORY / folder) for folder in ("tests/runtime", "tests/simgpu")]
ENVIRON = {**os.environ, "PYTHONPATH": os.pathsep.join(FOLDERS)}


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the demo behind its setup, which the tests themselves needed already."""
    return subprocess.run(
        [*DEMO, *arguments], env=ENVIRON, capture_output=True, text=True, timeout=SECONDS, check=False
    )


def directory_of(output: str) -> Path:
    """Find the directory that a demo says it works in."""
    found = re.search(r"DIR below is (/tmp/lab-[0-9a-f]{8})\.", output)
    assert found, output
    return Path(found[1])


def row(output: str, pod: str, outcome: str) -> list[str]:
    """Find a pod's row in the table of outcomes."""
    rows = [line.split() for line in output.splitlines()]
    return next(cells for cells in rows if cells[:2] == [pod, outcome])


@pytest.fixture(scope="module")
def done() -> subprocess.CompletedProcess[str]:
    return demo()


class TestDemo:
    """One run, from nothing to nothing."""

    def test_it_succeeds(self, done: subprocess.CompletedProcess[str]) -> None:
        """It ends with one line that sums up, status 0 and an empty standard error."""
        last = done.stdout.splitlines()[-1]

        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        assert re.fullmatch(r"demo: ok, \d\d checks held, \d+\.\d s", last)
        assert "NOT" not in done.stdout

    def test_it_says_what_is_real(self, done: subprocess.CompletedProcess[str]) -> None:
        """What is real and what is simulated stands at the top."""
        top = done.stdout[: done.stdout.index("[1/7]")]

        assert re.search(r"real +containerd 2\.3, runc \d", top)
        assert "Debian's MPS control daemon" in top
        assert re.search(r"simulated +an r615 driver: .*; the GPUs:", top)

    def test_what_mpsd_says(self, done: subprocess.CompletedProcess[str]) -> None:
        """The page of the real command is shown as it is: ready, the real daemon's process, and no node to label."""
        page = done.stdout.split("mpsd status --rpc-socket=DIR/rpc/mpsd.sock says:")[1].split("[2/7]")[0]

        assert re.search(r"^ +mpsd \d+\.\d+\.\d+: ready$", page, re.MULTILINE)
        assert re.search(r"^ +daemon +running, pid \d+, up ", page, re.MULTILINE)
        assert re.search(r"^ +label +not in a cluster: no label$", page, re.MULTILINE)

    @pytest.mark.parametrize(
        ("pod", "socket"),
        [
            pytest.param("trainer", "DIR/mps/control", id="time-slicing"),
            pytest.param("notebook", "/tmp/nvidia-mps/control", id="sm-sharing"),
        ],
    )
    def test_whom_clients_reach(self, done: subprocess.CompletedProcess[str], pod: str, socket: str) -> None:
        """A client inside reaches the control daemon that mpsd says it runs."""
        daemon = re.search(r"daemon +running, pid (\d+),", done.stdout)

        assert daemon
        assert [pod, f"hello-from-{pod}", socket, "process", daemon[1]] == row(done.stdout, pod, f"hello-from-{pod}")

    def test_a_crash_of_the_control_daemon(self, done: subprocess.CompletedProcess[str]) -> None:
        """It is killed, said to be dead, back, counted, and reached by the containers that run."""
        text = " ".join(done.stdout.split("[5/7]")[1].split("[6/7]")[0].split())

        assert re.search(r"503 and why: control daemon backing-off: killed by signal 9", text)
        assert 'gpu_fractioning_mpsd_restarts_total{reason="crashed"} 1.0' in text
        assert re.search(r"inside of trainer, notebook, inference reach process \d+ now", text)

    @pytest.mark.parametrize(
        ("pod", "cells"),
        [
            pytest.param(
                "trainer", ["8192", "16384", "DIR/mps", "DIR/mps", "void", "/dev/nvidia0"], id="request and limit"
            ),
            pytest.param(
                "notebook",
                ["3815", "3815", "/tmp/nvidia-mps", "DIR/mps/shared/default", "void", "/dev/nvidia0"],
                id="sm-sharing",
            ),
            pytest.param("inference", ["2048", "2048", "DIR/mps", "DIR/mps", "void", "/dev/nvidia1"], id="another GPU"),
            pytest.param("plain", ["-"] * 6, id="not annotated"),
        ],
    )
    def test_what_each_got(self, done: subprocess.CompletedProcess[str], pod: str, cells: list[str]) -> None:
        """The table shows what was seen inside each container."""
        assert [pod, "runs", *cells] == row(done.stdout, pod, "runs")

    @pytest.mark.parametrize(
        ("pod", "message"),
        [
            pytest.param("typo", 'nvidia.com/container.main.gpu-memory.limit: "16GB" is not', id="malformed"),
            pytest.param("greedy", "NVIDIA_GPU_MEMORY_LIMIT is listed more than once", id="listed twice"),
        ],
    )
    def test_why_it_was_refused(self, done: subprocess.CompletedProcess[str], pod: str, message: str) -> None:
        """The whole message of a refusal is shown, wrapped."""
        text = " ".join(done.stdout.split())

        assert [pod, "REFUSED"] == row(done.stdout, pod, "REFUSED")
        assert f'container "main" in pod "team-a/{pod}": ' in text
        assert message in text

    def test_what_slips_through_is_stopped(self, done: subprocess.CompletedProcess[str]) -> None:
        """The container made while fractiond was dead runs bare, is stopped for a reason, and comes back fenced."""
        before, after = done.stdout.split("[4/7]")

        assert ["latecomer", "runs", *["-"] * 6] == row(before, "latecomer", "runs")
        assert "It found latecomer unfenced and had it stopped" in after
        assert "- env:NVIDIA_GPU_MEMORY_LIMIT missing" in after
        assert ["latecomer", "runs", "4096", "4096"] == row(after, "latecomer", "runs")[:4]

    def test_the_others_are_not_disturbed(self, done: subprocess.CompletedProcess[str]) -> None:
        """All that ran before the restart are named with the process they still run in."""
        text = " ".join(done.stdout.split())

        assert re.search(r"same processes: trainer \(\d+\), notebook \(\d+\), inference \(\d+\), plain \(\d+\)\.", text)

    def test_metrics_and_a_record_are_shown(self, done: subprocess.CompletedProcess[str]) -> None:
        """A stop is seen in the counters, and the assigned GPU in the record."""
        assert 'gpu_fractioning_fractiond_stops_total{result="stopped"} 1.0' in done.stdout
        assert '"requestedMemoryMiB": 2048' in done.stdout

    @pytest.mark.parametrize(
        ("pod", "cells"),
        [
            pytest.param("trainer", ["12288", "8192", "16384", "8192", "16384", "yes"], id="request and limit"),
            pytest.param("notebook", ["3000", "3815", "3815", "3815", "3815", "yes"], id="sm-sharing"),
            pytest.param("inference", ["1024", "2048", "2048", "2048", "2048", "yes"], id="another GPU"),
            pytest.param("latecomer", ["512", "4096", "4096", "4096", "4096", "yes"], id="slipped through at first"),
        ],
    )
    def test_what_metricsd_says(self, done: subprocess.CompletedProcess[str], pod: str, cells: list[str]) -> None:
        """Its page has what each container holds, what it declared, and the same in force; all said to be simulated."""
        page = done.stdout.split("gpu_fractioning_container_gpu_memory_*")[1]

        assert [pod, *cells] == row(page, pod, cells[0])
        assert "are simulated; metricsd reads them as it reads real ones" in page

    def test_it_fits_the_screen(self, done: subprocess.CompletedProcess[str]) -> None:
        """No line is wider than a screen."""
        assert [line for line in done.stdout.splitlines() if len(line) > WIDTH] == []

    def test_nothing_is_left(self, done: subprocess.CompletedProcess[str]) -> None:
        """Its processes, mounts, cgroup and directory are gone."""
        assert leftovers.remains(directory_of(done.stdout)) == []


class TestUntimelyEnds:
    """What happens when not all is as it should be."""

    def test_a_claim_that_does_not_hold(self) -> None:
        """With a fractiond that lets mistakes pass, the demo says which claim is broken and ends with status 1."""
        done = demo("--fractiond-flag=--fail-open")

        assert done.returncode == 1
        assert "NOT AS EXPECTED: typo (a malformed limit): expected refused, seen running" in done.stdout
        assert re.search(r"^demo: FAILED, 1 of \d\d checks did not hold:$", done.stdout, re.MULTILINE)
        assert leftovers.remains(directory_of(done.stdout)) == []

    def test_a_container_that_is_not_stopped(self) -> None:
        """With a fractiond that stops nothing, the demo waits, says so and ends with status 1."""
        done = demo("--fractiond-flag=--retroactive-dry-run")

        assert done.returncode == 1
        assert "NOT AS EXPECTED: the container that slipped through: expected stopped" in done.stdout
        assert leftovers.remains(directory_of(done.stdout)) == []

    @pytest.mark.parametrize("program", ["fractiond", "mpsd", "metricsd"])
    def test_a_program_that_does_not_start(self, program: str) -> None:
        """The demo shows what the program said, and leaves nothing."""
        done = demo(f"--{program}-flag=--no-such-flag")

        assert done.returncode == 1
        assert re.search(rf"^demo: FAILED: {program}-1 ended with status 2:", done.stdout, re.MULTILINE)
        assert "unknown flag" in done.stdout
        assert "Traceback" not in done.stdout + done.stderr
        assert leftovers.remains(directory_of(done.stdout)) == []

    def test_limits_that_are_not_in_force(self) -> None:
        """With a metricsd that looks for the containers' cgroups elsewhere, the demo says so and ends with status 1."""
        done = demo("--metricsd-flag=--cgroup-root=/nowhere")

        assert done.returncode == 1
        assert "NOT AS EXPECTED: what the page says of trainer: expected" in done.stdout
        assert re.search(r"^demo: FAILED, 4 of \d\d checks did not hold:$", done.stdout, re.MULTILINE)
        assert leftovers.remains(directory_of(done.stdout)) == []

    def test_a_control_daemon_that_is_not_back(self) -> None:
        """With an mpsd that takes long to start it again, the demo says so and ends with status 1."""
        done = demo("--mpsd-flag=--backoff=1m")

        assert done.returncode == 1
        assert "NOT AS EXPECTED: the control daemon after its crash: expected back" in done.stdout
        assert re.search(r"^demo: FAILED, 1 of \d\d checks did not hold:$", done.stdout, re.MULTILINE)
        assert leftovers.remains(directory_of(done.stdout)) == []

    @pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda signum: signum.name)
    async def test_a_signal(self, tmp_path: Path, signum: signal.Signals) -> None:
        """Interrupted in the middle, and once more while it cleans up, it leaves nothing and says so."""
        out = tmp_path / "out"
        with out.open("w") as stream:
            process = subprocess.Popen(  # noqa: ASYNC220 - it is the child that waits, not this loop
                DEMO, env=ENVIRON, stdout=stream, stderr=stream, start_new_session=True
            )
        await waiting.until(
            lambda: "[2/7]" in out.read_text() or process.poll() is not None,
            what="the second step",
            timeout_seconds=SECONDS,
        )
        assert process.returncode is None, out.read_text()
        # To all, as a terminal does: containerd and fractiond get it too.
        os.killpg(process.pid, signum)
        process.send_signal(signum)
        await waiting.until(lambda: process.poll() is not None, what="the demo to end", timeout_seconds=SECONDS)

        said = out.read_text()
        assert process.returncode == 128 + signum
        assert said.splitlines()[-1] == f"demo: interrupted by {signum.name}; nothing is left of the demo"
        assert "Traceback" not in said
        assert leftovers.remains(directory_of(said)) == []

    def test_a_reader_that_leaves(self) -> None:
        """When nobody reads on, as with head, it ends without a traceback and leaves nothing."""
        process = subprocess.Popen(DEMO, env=ENVIRON, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stderr is not None
        read = ""
        while "DIR below" not in read:
            read += process.stdout.readline()
        process.stdout.close()
        complaint = process.stderr.read()
        process.stderr.close()

        assert process.wait(SECONDS) == 1
        assert complaint == ""
        assert leftovers.remains(directory_of(read)) == []


class TestKeep:
    """A demo that is left running."""

    def test_the_commands_to_try_work(self) -> None:
        """Every command it prints succeeds in the order given, and the last one removes everything."""
        kept = demo("--keep")
        base = directory_of(kept.stdout)
        commands = [line.removeprefix(PROMPT) for line in kept.stdout.splitlines() if line.startswith(PROMPT)]
        try:
            statuses = {command: _shell(command) for command in commands[:-1]}
            before = leftovers.remains(base)
            running = {Path(f"/proc/{pid}/comm").read_text().strip() for pid in leftovers.program_pids(base)}
        finally:
            cleaned = demo("--clean", str(base))

        assert (kept.returncode, kept.stderr) == (0, "")
        assert len(commands) == 12
        assert [command for command, status in statuses.items() if status != 0] == []
        assert commands[-1] == f"{SCRIPT} --clean {base}"
        assert before != []
        # The kernel keeps 15 characters of a name.
        assert running == {"containerd", "fractiond", "mpsd", "metricsd", "nvidia-cuda-mps", "simgpu-mps-help"}
        assert (cleaned.returncode, cleaned.stdout) == (0, f"demo: removed everything of {base}\n")
        assert leftovers.remains(base) == []

    @pytest.mark.parametrize("directory", ["/", "/tmp", "/tmp/lab-", "/tmp/lab-0a1b2c3d/..", "lab-0a1b2c3d"])
    def test_only_a_demo_is_cleaned(self, directory: str) -> None:
        """Another directory is refused, in a line that says what is accepted."""
        done = demo("--clean", directory)

        assert done.returncode == 2
        assert f"'{directory}' is no directory of a demo; accepted: /tmp/lab- and 8 hex digits" in done.stderr

    def test_cleaning_twice(self) -> None:
        """What is gone already is fine."""
        done = demo("--clean", "/tmp/lab-00000000")

        assert (0, "demo: there is nothing of /tmp/lab-00000000\n") == (done.returncode, done.stdout)


class TestScript:
    """scripts/demo: what happens before the demo proper, on a machine that may lack anything."""

    @pytest.fixture
    def checkout(self, tmp_path: Path) -> Path:
        """Lay out a checkout whose setup and interpreter only tell that they were called."""
        (tmp_path / "scripts").mkdir()
        (tmp_path / ".venv/bin").mkdir(parents=True)
        shutil.copy(SCRIPT, tmp_path / "scripts/demo")
        for name in ("scripts/bootstrap", "scripts/toolchain", ".venv/bin/python"):
            _program(tmp_path / name, f'echo "{name} $*"')
        return tmp_path

    @pytest.fixture
    def tools(self, tmp_path: Path) -> Path:
        """Give a folder of programs that stand before those of the machine."""
        folder = tmp_path / "tools"
        folder.mkdir()
        return folder

    def _run(self, checkout: Path, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
        environ = {"PATH": path or os.environ["PATH"]}
        argv = [str(checkout / "scripts/demo"), *arguments]
        return subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=SECONDS, check=False)

    def test_it_sets_up_and_runs(self, checkout: Path) -> None:
        """It makes the environment, then one containerd, then runs the demo with the arguments as they are."""
        done = self._run(checkout, "--keep", "--fractiond-flag=--x=y z")

        assert done.stdout.splitlines() == [
            "scripts/bootstrap ",
            "scripts/toolchain 2.3 simgpu",
            ".venv/bin/python -m demo --keep --fractiond-flag=--x=y z",
        ]
        assert (done.returncode, done.stderr) == (0, "")

    def test_cleaning_builds_nothing(self, checkout: Path) -> None:
        """To clean up, no containerd is built."""
        done = self._run(checkout, "--clean", "/tmp/lab-00000000")

        assert done.stdout.splitlines() == [
            "scripts/bootstrap ",
            ".venv/bin/python -m demo --clean /tmp/lab-00000000",
        ]

    def test_a_failed_setup_ends_it(self, checkout: Path) -> None:
        """When the setup fails, its status is the demo's, and nothing more runs."""
        _program(checkout / "scripts/toolchain", "echo 'toolchain: no' >&2; exit 7")
        done = self._run(checkout)

        assert (done.returncode, done.stdout, done.stderr) == (7, "scripts/bootstrap \n", "toolchain: no\n")

    def test_help_needs_nothing(self, checkout: Path) -> None:
        """The help is shown without any setup, and names every option."""
        done = self._run(checkout, "--help")

        assert done.returncode == 0
        assert "scripts/bootstrap " not in done.stdout.splitlines()
        assert [
            option
            for option in ("--keep", "--clean DIR", "--fractiond-flag=FLAG", "--mpsd-flag=FLAG", "--metricsd-flag=FLAG")
            if option not in done.stdout
        ] == []
        assert [line for line in done.stdout.splitlines() if "#" in line or len(line) > 110] == []

    @pytest.mark.parametrize(
        ("programs", "said"),
        [
            pytest.param({"uname": "echo Darwin"}, "demo: this is Darwin, and containers need Linux", id="not Linux"),
            pytest.param({"id": "echo 1000"}, "demo: root is needed to run containers; try: sudo ", id="not root"),
        ],
    )
    def test_what_is_missing(self, checkout: Path, tools: Path, programs: Mapping[str, str], said: str) -> None:
        """A machine that cannot run it is told so in one line, before anything is installed."""
        for name, text in programs.items():
            _program(tools / name, text)
        done = self._run(checkout, path=f"{tools}:{os.environ['PATH']}")

        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(said)
        assert len(done.stderr.splitlines()) == 1

    def test_no_go(self, checkout: Path, tools: Path) -> None:
        """Without Go the one line says which is needed."""
        for name in ("dirname", "uname", "id", "bash", "env"):
            found = shutil.which(name)
            assert found
            (tools / name).symlink_to(found)
        done = self._run(checkout, path=str(tools))

        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("demo: no go on the PATH; Go 1.26.8 or newer is needed")
        assert len(done.stderr.splitlines()) == 1

    def test_an_unknown_argument(self, checkout: Path) -> None:
        """A mistake in the arguments is told before anything is installed, with what is accepted."""
        done = self._run(checkout, "--kepe")

        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("demo: unknown argument '--kepe'; accepted: --keep, --clean DIR")


class TestJudgement:
    """The checks can fail: every way in which an outcome may differ from its role."""

    RUNS = Role("a", "a limit", {"gpu-memory.limit": "1Gi"}, fence=Fence("1024", "1024", "/p", "/p", "7"))
    REFUSED = Role("b", "a mistake", refusal=("banana", "accepted"))

    @pytest.mark.parametrize(
        ("role", "outcome", "failures"),
        [
            pytest.param(RUNS, Running("id", 1, RUNS.fence), [], id="as it should be"),
            pytest.param(REFUSED, Refused("banana; accepted: 1Gi"), [], id="refused as it should be"),
            pytest.param(
                RUNS,
                Running("id", 1, Fence("1024", "2048", "/p", "/p", "7")),
                ["the fence of a: expected 1024/1024//p//p/7/-, seen 1024/2048//p//p/7/-"],
                id="another limit",
            ),
            pytest.param(
                RUNS,
                Running("id", 1, Fence()),
                ["the fence of a: expected 1024/1024//p//p/7/-, seen no limit, no pipe, no GPU"],
                id="no fence",
            ),
            pytest.param(
                RUNS,
                Running("id", 1, Fence("1024", "1024", "/p", "/p", "nobody")),
                ["the fence of a: expected 1024/1024//p//p/7/-, seen 1024/1024//p//p/nobody/-"],
                id="no control daemon",
            ),
            pytest.param(RUNS, Refused("no"), ["a (a limit): expected running, seen refused"], id="refused by mistake"),
            pytest.param(
                REFUSED, Running("id", 1, Fence()), ["b (a mistake): expected refused, seen running"], id="let pass"
            ),
            pytest.param(
                REFUSED,
                Refused("banana"),
                ["what the refusal of b leaves out: expected [], seen ['accepted']"],
                id="a poor message",
            ),
        ],
    )
    def test_differences_are_told(self, role: Role, outcome: Running | Refused, failures: list[str]) -> None:
        """Each difference between role and outcome is one failure, shown where it was found."""
        out = io.StringIO()
        screen = Screen(out, steps=1)
        judge(screen, role, outcome)

        assert screen.checks.failures == failures
        assert out.getvalue().count("NOT AS EXPECTED") == len(failures)


class TestLayout:
    """Text for a person."""

    def test_no_word_is_lost(self) -> None:
        """A wrapped text has the same words in the same order, none of them cut."""
        words = ["short", "x" * 120, "a-hyphenated-word", *["word"] * 60]

        assert words == " ".join(wrap(" ".join(words))).split()

    def test_columns(self) -> None:
        """Columns are as wide as their longest cell, and an empty cell is a dash."""
        assert ["a    b", "ccc  -"] == columns([("a", "b"), ("ccc", "")], indent="")


def _program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


def _shell(command: str) -> int:
    # Output goes nowhere: a fractiond started in the background would hold on to a pipe.
    nowhere = subprocess.DEVNULL
    return subprocess.run(
        ["bash", "-c", command], stdout=nowhere, stderr=nowhere, timeout=SECONDS, check=False
    ).returncode
