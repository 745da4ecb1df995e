"""One start: the node set up, the configuration written, the program run."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
from fractioning_core.errors import FileUnavailable
from mpsd.commands import CommandLine
from mpsd.controlconfig import Choices
from mpsd.launcher import PIPE_DIR_LIMIT, Child, Launcher, PipeDirTooLong, Plan
from mpsd.strays import SERVER_PROGRAM, Neighbourhood

# Writes its arguments beside itself, and waits for the end of its input.
PROGRAM = '#!/bin/sh\necho "$*" > "$0.new" && mv "$0.new" "$0.arguments"\nread word\n'


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    line = CommandLine(
        binary=str(tmp_path / "control"), protocol="3", pipe_dir=str(tmp_path / "p"), log_dir=str(tmp_path / "log")
    )
    return Plan(line, Choices(audit_log=True, sm_sharing=True), str(tmp_path / "etc/c.toml"))


@pytest.fixture
def launching() -> Callable[[Plan], Launcher]:
    def make(plan: Plan) -> Launcher:
        near = Neighbourhood(Path("/proc"), plan.line.pipe_dir, frozenset({Path(plan.line.binary).name}))
        return Launcher(plan, environ={"PATH": os.environ["PATH"]}, neighbourhood=near, major=lambda: 615)

    return make


def install(plan: Plan) -> Path:
    program = Path(plan.line.binary)
    program.write_text(PROGRAM)
    program.chmod(stat.S_IRWXU)
    return program


@asynccontextmanager
async def started(launcher: Launcher) -> AsyncIterator[Child]:
    child = await launcher.start()
    try:
        yield child
    finally:
        child.kill()
        await child.wait()
        child.close()


async def arguments(program: Path) -> str:
    file = program.with_name(f"{program.name}.arguments")
    async with asyncio.timeout(10):
        while not file.exists():  # noqa: ASYNC110  a file announces nothing
            await asyncio.sleep(0)
    return file.read_text().strip()


class TestPrepare:
    async def test_makes_the_directories(self, plan: Plan, launching: Callable[[Plan], Launcher]) -> None:
        """Both are there for everybody to enter, and nothing else is in them."""
        await launching(plan).prepare()

        paths = [Path(plan.line.pipe_dir), Path(plan.line.log_dir)]
        assert [(0o755, []), (0o755, [])] == [(stat.S_IMODE(p.stat().st_mode), list(p.iterdir())) for p in paths]

    async def test_removes_a_stale_socket(self, plan: Plan, launching: Callable[[Plan], Launcher]) -> None:
        """Containers go by its existence."""
        Path(plan.line.pipe_dir).mkdir()
        stale = Path(plan.line.pipe_dir) / "control"
        stale.touch()
        await launching(plan).prepare()

        assert not stale.exists()

    @pytest.mark.parametrize(("length", "refused"), [(PIPE_DIR_LIMIT, False), (PIPE_DIR_LIMIT + 1, True)])
    async def test_the_limit_of_the_path(
        self,
        plan: Plan,
        launching: Callable[[Plan], Launcher],
        length: int,
        refused: bool,  # noqa: FBT001  a row of the table
    ) -> None:
        """Eighty-three characters fit, one more does not, and the error says both numbers."""
        path = Path("/tmp") / ("x" * (length - len("/tmp/")))
        long = attrs.evolve(plan, line=attrs.evolve(plan.line, pipe_dir=str(path)))
        try:
            if not refused:
                await launching(long).prepare()
                return
            with pytest.raises(PipeDirTooLong) as caught:
                await launching(long).prepare()
        finally:
            shutil.rmtree(path, ignore_errors=True)

        assert f"has {length} characters; accepted: at most {PIPE_DIR_LIMIT}" in str(caught.value)

    async def test_a_file_in_the_way_is_told(self, plan: Plan, launching: Callable[[Plan], Launcher]) -> None:
        """The error names the directory and the system's word."""
        Path(plan.line.log_dir).touch()
        with pytest.raises(FileUnavailable) as caught:
            await launching(plan).prepare()

        assert f"cannot write to {plan.line.log_dir}: File exists" == str(caught.value)


class TestObstacle:
    def test_a_program_that_is_there(self, plan: Plan, launching: Callable[[Plan], Launcher]) -> None:
        """Nothing is in the way."""
        install(plan)

        assert "" == launching(plan).obstacle()

    def test_none_there(self, plan: Plan, launching: Callable[[Plan], Launcher]) -> None:
        """The path is named."""
        assert launching(plan).obstacle().startswith(f"{plan.line.binary} is not there")

    def test_not_executable(self, plan: Plan, launching: Callable[[Plan], Launcher]) -> None:
        """A file without the right to run is told apart from none."""
        install(plan).chmod(0o644)

        assert f"{plan.line.binary} is not executable" == launching(plan).obstacle()

    def test_a_directory(self, plan: Plan, launching: Callable[[Plan], Launcher]) -> None:
        """A mount of a file that does not exist leaves a directory."""
        Path(plan.line.binary).mkdir()

        assert launching(plan).obstacle().startswith(f"{plan.line.binary} is not there")


class TestStart:
    async def test_runs_the_program_with_its_configuration(
        self, plan: Plan, launching: Callable[[Plan], Launcher]
    ) -> None:
        """Arguments are those of production, and the configuration is on disk before."""
        program, launcher = install(plan), launching(plan)
        await launcher.prepare()
        async with started(launcher):
            said = await arguments(program)

        assert f"-p 3 -m -f -a {plan.config_path}" == said
        assert launcher.config_text == Path(plan.config_path).read_text()
        assert "" == launcher.config_difference()

    async def test_without_a_configuration_none_is_written(
        self, plan: Plan, launching: Callable[[Plan], Launcher]
    ) -> None:
        """An empty path writes nothing, passes nothing, and nothing can differ."""
        program = install(plan)
        launcher = launching(attrs.evolve(plan, config_path=""))
        await launcher.prepare()
        async with started(launcher):
            said = await arguments(program)

        assert ("-p 3 -m -f", None, "") == (said, launcher.config_text, launcher.config_difference())
        assert not Path(plan.config_path).parent.exists()

    async def test_a_configuration_that_is_right_is_not_written_again(
        self, plan: Plan, launching: Callable[[Plan], Launcher]
    ) -> None:
        """A restart does not wait for a disk that has the text already."""
        install(plan)
        launcher = launching(plan)
        await launcher.prepare()
        inodes = []
        for _ in range(2):
            async with started(launcher):
                inodes.append(Path(plan.config_path).stat().st_ino)

        assert 1 == len(set(inodes))

    async def test_a_changed_one_is_told_and_restored(self, plan: Plan, launching: Callable[[Plan], Launcher]) -> None:
        """What the daemon was started with is what counts."""
        install(plan)
        launcher = launching(plan)
        await launcher.prepare()
        async with started(launcher):
            Path(plan.config_path).write_text("other")
            told = launcher.config_difference()
            await launcher.restore_config()

        assert ("was changed since the control daemon started", "") == (told, launcher.config_difference())

    async def test_a_configuration_that_cannot_be_written(
        self, plan: Plan, launching: Callable[[Plan], Launcher], tmp_path: Path
    ) -> None:
        """Nothing is started without it."""
        program = install(plan)
        (tmp_path / "etc").touch()
        launcher = launching(plan)
        await launcher.prepare()
        with pytest.raises(FileUnavailable):
            await launcher.start()

        assert not program.with_name("control.arguments").exists()

    async def test_a_stale_socket_goes_before_each_start(
        self, plan: Plan, launching: Callable[[Plan], Launcher]
    ) -> None:
        """The socket of a daemon that died is nobody's."""
        install(plan)
        launcher = launching(plan)
        await launcher.prepare()
        stale = Path(plan.line.pipe_dir) / "control"
        stale.touch()
        async with started(launcher):
            assert not stale.exists()


class TestOtherDaemons:
    async def test_ours_is_none_and_another_is(
        self, plan: Plan, launching: Callable[[Plan], Launcher], tmp_path: Path
    ) -> None:
        """A daemon of our pipe directory is another one unless it is of the session that we started."""
        shell = tmp_path / "shell"
        shutil.copy(Path("/bin/sh").resolve(), shell)
        install(plan).write_text(f'#!/bin/sh\n{shell} -f -c "read word"\n')
        near = Neighbourhood(Path("/proc"), plan.line.pipe_dir, frozenset({shell.name}))
        launcher = Launcher(plan, environ=dict(os.environ), neighbourhood=near, major=lambda: 615)
        await launcher.prepare()
        environ = {"CUDA_MPS_PIPE_DIRECTORY": plan.line.pipe_dir}
        async with started(launcher):
            await _until(lambda: len(near.strays()) == 1)
            before = launcher.other_daemons()
            argv = [str(shell), "-f", "-c", "read word"]
            with subprocess.Popen(argv, env=environ, stdin=subprocess.PIPE) as other:  # noqa: ASYNC220, S603  a copy
                await _until(lambda: len(near.strays()) == 2)
                during = launcher.other_daemons()

        assert ((), (other.pid,)) == (before, during)

    def test_before_the_first_start(self, plan: Plan, launching: Callable[[Plan], Launcher]) -> None:
        """Nobody is asked for who is to be told from whom."""
        assert () == launching(plan).other_daemons()


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110  processes announce nothing
            await asyncio.sleep(0)


class TestKillServers:
    async def test_a_server_of_ours_is_killed(
        self, plan: Plan, launching: Callable[[Plan], Launcher], tmp_path: Path
    ) -> None:
        """Servers outlive their daemon; a hard end takes them along."""
        Path(plan.line.pipe_dir).mkdir()
        program = tmp_path / SERVER_PROGRAM
        shutil.copy("/bin/sleep", program)
        environ = {"CUDA_MPS_PIPE_DIRECTORY": plan.line.pipe_dir}
        with subprocess.Popen([program, "1000"], env=environ) as server:  # noqa: ASYNC220, S603  the copy above
            await launching(plan).kill_servers()
            status = await asyncio.to_thread(server.wait, 10)

        assert -9 == status

    @pytest.mark.parametrize(
        ("times", "told", "lives"),
        [
            pytest.param(1, True, False, id="left by an mpsd before us"),
            pytest.param(1, False, True, id="of whoever does not tell"),
            pytest.param(2, True, True, id="of our own daemon, which crashed"),
        ],
    )
    async def test_servers_that_nobody_of_ours_started_end_with_the_first_start(
        self,
        plan: Plan,
        launching: Callable[[Plan], Launcher],
        tmp_path: Path,
        *,
        times: int,
        told: bool,
        lives: bool,
    ) -> None:
        """Their clients would be bound by nothing; a server that outlives a crash of ours goes on."""
        install(plan)
        launcher = launching(plan)
        await launcher.prepare()
        server = tmp_path / SERVER_PROGRAM
        shutil.copy("/bin/sleep", server)
        environ = {"CUDA_MPS_PIPE_DIRECTORY": plan.line.pipe_dir} if told else {}
        for _ in range(times - 1):
            async with started(launcher):
                pass
        with subprocess.Popen([server, "1000"], env=environ) as process:  # noqa: ASYNC220, S603  the copy above
            async with started(launcher):
                seen = process.poll() is None
            process.kill()

        assert lives is seen

    async def test_an_unreadable_proc_is_told_and_no_more(self, plan: Plan, tmp_path: Path) -> None:
        """The daemon is killed all the same."""
        near = Neighbourhood(tmp_path / "no", plan.line.pipe_dir)
        await Launcher(plan, environ={}, neighbourhood=near, major=lambda: None).kill_servers()
