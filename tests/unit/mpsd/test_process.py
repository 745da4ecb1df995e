"""The child process: its input, its session, and its death with ours."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mpsd import deathsig
from mpsd.process import Daemon


@asynccontextmanager
async def started(script: str, **environ: str) -> AsyncIterator[Daemon]:
    daemon = await Daemon.start(("/bin/sh", "-c", script), {"PATH": os.environ["PATH"], **environ})
    try:
        yield daemon
    finally:
        daemon.kill()
        await daemon.wait()
        daemon.close()


async def content(file: Path) -> str:
    async with asyncio.timeout(10):
        while not file.exists() or not file.read_text().endswith("\n"):  # noqa: ASYNC110  a file announces nothing
            await asyncio.sleep(0)
    return file.read_text().strip()


class TestDaemon:
    async def test_quit_is_typed(self, tmp_path: Path) -> None:
        """What reads its input reads `quit`, and its status is given."""
        async with started(f"read word; echo $word > {tmp_path}/said; exit 3") as daemon:
            asked = daemon.ask_quit()

            assert (True, 3, "quit") == (asked, await daemon.wait(), (tmp_path / "said").read_text().strip())

    async def test_its_input_stays_open_until_closed(self, tmp_path: Path) -> None:
        """The end of input comes with `close` and not before."""
        async with started(f"echo up > {tmp_path}/up; cat; exit 4") as daemon:
            await content(tmp_path / "up")
            lives = Path(f"/proc/{daemon.pid}").exists()
            daemon.close()
            daemon.close()

            assert (True, 4) == (lives, await daemon.wait())

    async def test_a_quit_after_the_end_is_fine(self) -> None:
        """Nobody has to ask first whether it still lives; that nobody reads it is told, before and after `close`."""
        async with started("exit 0") as daemon:
            await daemon.wait()
            asked = [daemon.ask_quit()]
            daemon.kill()
            daemon.close()
            asked.append(daemon.ask_quit())

        assert [False, False] == asked

    async def test_a_kill_reaches_what_it_wraps(self, tmp_path: Path) -> None:
        """A program behind a wrapper is killed with it."""
        async with started(f"sleep 1000 & echo $! > {tmp_path}/pid; wait") as daemon:
            inner = int(await content(tmp_path / "pid"))
            daemon.kill()
            status = await daemon.wait()
            await _gone(inner)

            assert -signal.SIGKILL == status

    async def test_it_leads_a_session_of_its_own(self, tmp_path: Path) -> None:
        """A signal to our group is not one to it."""
        async with started(f"echo up > {tmp_path}/up; cat") as daemon:
            await content(tmp_path / "up")

            assert daemon.pid == os.getsid(daemon.pid)

    async def test_the_environment_is_what_was_given(self, tmp_path: Path) -> None:
        """Nothing of ours leaks in on the way through the helper, but for the locale that Python picks without one."""
        async with started(f"tr '\\0' '\\n' < /proc/$$/environ > {tmp_path}/env; cat", LD_LIBRARY_PATH="/l") as _:
            found = await content(tmp_path / "env")

        assert {f"PATH={os.environ['PATH']}", "LD_LIBRARY_PATH=/l"} == set(found.splitlines()) - {"LC_CTYPE=C.UTF-8"}

    async def test_a_program_that_cannot_be_run_ends_with_127(self, tmp_path: Path) -> None:
        """The helper says so and ends as a shell would."""
        daemon = await Daemon.start((str(tmp_path / "no"),), {})
        status = await daemon.wait()
        daemon.close()

        assert deathsig.EXIT_NOT_RUNNABLE == status


class TestDeathSignal:
    @pytest.mark.parametrize("trap", ["", "trap '' TERM INT HUP; "], ids=["plain", "deaf to signals"])
    async def test_it_dies_with_us(self, tmp_path: Path, trap: str) -> None:
        """A killed parent takes it along, whatever signals it ignores."""
        program = textwrap.dedent(f"""
            import asyncio, os
            from mpsd.process import Daemon
            async def main():
                script = "{trap}echo $$ > {tmp_path}/pid; exec sleep 1000"
                await Daemon.start(("/bin/sh", "-c", script), dict(os.environ))
                await asyncio.sleep(1000)
            asyncio.run(main())
        """)
        with subprocess.Popen([sys.executable, "-c", program]) as parent:  # noqa: ASYNC220, S603  it is to be killed
            child = int(await content(tmp_path / "pid"))
            parent.kill()
            await _gone(child)

    def test_a_parent_that_died_before_is_noticed(self, tmp_path: Path) -> None:
        """A helper whose parent is another one already starts nothing."""
        argv = [sys.executable, deathsig.__file__, str(os.getpid() + 1), "/bin/touch", str(tmp_path / "made")]
        status = subprocess.run(argv, check=False).returncode  # noqa: S603  the helper itself

        assert (deathsig.EXIT_NOT_RUNNABLE, False) == (status, (tmp_path / "made").exists())


async def _gone(pid: int) -> None:
    async with asyncio.timeout(10):
        while _lives(pid):  # noqa: ASYNC110  not our child
            await asyncio.sleep(0)


def _lives(pid: int) -> bool:
    try:
        return "Z" != (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
