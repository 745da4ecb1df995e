"""The parts of mpsd put together, without a GPU."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import attrs
import pytest
from fractioning_core.errors import FractioningError
from mpsd import app
from mpsd.settings import Settings

# As a daemon it makes the socket and waits for `quit`; as a client it lists one client.
PROGRAM = """#!{python}
import os, socket, sys
if "-f" not in sys.argv:
    sys.exit(print("7,shared,default"))
listening = socket.socket(socket.AF_UNIX)
listening.bind(os.environ["CUDA_MPS_PIPE_DIRECTORY"] + "/control")
sys.stdin.readline()
"""


@pytest.fixture
def chosen(tmp_path: Path, unused_tcp_port: int) -> Settings:
    """Settings under which everything lies in the test's own directory."""
    return Settings(
        mps_binary=str(tmp_path / "control"),
        pipe_dir=str(tmp_path / "p"),
        log_dir=str(tmp_path / "log"),
        mps_config_path=str(tmp_path / "c.toml"),
        rpc_socket="",
        backoff_seconds=0.05,
        health_port=unused_tcp_port,
    )


@asynccontextmanager
async def serving(chosen: Settings) -> AsyncIterator[None]:
    """Run mpsd beside a test, and end it as the first signal does."""
    stop = asyncio.Event()
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(app.serve(chosen, stop))
        try:
            yield
        finally:
            stop.set()


async def page(chosen: Settings, path: str, *, until: str = "") -> tuple[int, str]:
    """Fetch a page, again and again until a text is in it."""
    async with aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(f"http://127.0.0.1:{chosen.health_port}{path}") as answer:
                    text = await answer.text()
            except aiohttp.ClientConnectorError:
                text = ""
            if until in text and text:
                return answer.status, text
            await asyncio.sleep(0)


class TestServe:
    async def test_a_missing_program_is_told_and_waited_for(self, chosen: Settings) -> None:
        """Mpsd lives, names the path, and runs the program once it is there."""
        async with serving(chosen):
            before = await page(chosen, "/readyz", until="is not there")
            alive = await page(chosen, "/healthz")
            _install(Path(chosen.mps_binary))
            metrics = await page(chosen, "/metrics", until="gpu_fractioning_mpsd_clients 1.0")

        assert (503, True) == (before[0], chosen.mps_binary in before[1])
        assert 200 == alive[0]
        assert "gpu_fractioning_mpsd_daemon_up 1.0" in metrics[1]

    async def test_it_ends_with_nothing_running(self, chosen: Settings) -> None:
        """The first signal is obeyed while there is no program."""
        async with serving(chosen):
            await page(chosen, "/readyz", until="parked")

    async def test_a_node_that_cannot_be_set_up_ends_it(self, chosen: Settings) -> None:
        """The error is an expected one, which the runner tells in one line."""
        Path(chosen.log_dir).touch()
        with pytest.raises(ExceptionGroup) as caught:
            await app.serve(attrs.evolve(chosen, health_port=0), asyncio.Event())

        assert caught.group_contains(FractioningError, match="cannot write to .*log: File exists")


def _install(program: Path) -> None:
    """Let the program appear whole."""
    new = program.with_name("new")
    new.write_text(PROGRAM.format(python="/usr/bin/env python3"))
    new.chmod(stat.S_IRWXU)
    new.rename(program)
