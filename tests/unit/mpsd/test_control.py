"""The control daemon's client, against small real programs in its place."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from fractioning_core.errors import Unavailable
from mpsd import control
from mpsd.commands import CommandLine
from mpsd.control import Control, NoAnswer, NotRun, Refused, TooLong


@pytest.fixture
def controlling(tmp_path: Path) -> Callable[[str], Control]:
    """Make a client whose program is this shell script."""

    def make(script: str) -> Control:
        program = tmp_path / "control"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(stat.S_IRWXU)
        line = CommandLine(str(program), "3", str(tmp_path / "pipe"), str(tmp_path / "log"))
        return Control(line, {"PATH": os.environ["PATH"], "KEPT": "1"})

    return make


async def refusal(controlling: Control, *, deadline_seconds: float = 10.0) -> Unavailable:
    with pytest.raises(Unavailable) as caught:
        await controlling.list_clients(deadline_seconds)
    return caught.value


class TestListClients:
    async def test_the_program_is_asked_in_csv(self, controlling: Callable[[str], Control]) -> None:
        """The words are those of the contract, and the answer is read from what it says."""
        script = 'test "$*" = "-p 3 client list --format=csv,noheader" && printf "12,shared\\n7,shared\\n"'

        assert (12, 7) == await controlling(script).list_clients()

    async def test_the_environment_reaches_it(self, controlling: Callable[[str], Control], tmp_path: Path) -> None:
        """It finds the daemon by our pipe directory, and keeps what we were started with."""
        script = f'test "$CUDA_MPS_PIPE_DIRECTORY$KEPT" = "{tmp_path}/pipe1" && echo 5'

        assert (5,) == await controlling(script).list_clients()

    async def test_an_error_carries_status_and_words(self, controlling: Callable[[str], Control]) -> None:
        """Both streams are in the error, on one line."""
        error = await refusal(controlling('echo out; echo "err\nor" >&2; exit 3'))

        assert Refused("client list --format=csv,noheader", 3, "out\nerr\nor") == error
        assert '`client list --format=csv,noheader` with status 3, said "out\\nerr\\nor"' in str(error)

    async def test_a_silent_error(self, controlling: Callable[[str], Control]) -> None:
        """A status alone is told as such."""
        assert str(await refusal(controlling("exit 1"))).endswith("with status 1 without a word")

    async def test_no_answer_in_time(self, controlling: Callable[[str], Control], tmp_path: Path) -> None:
        """The deadline ends the wait, and the client with what it started."""
        running = controlling(f"sleep 1000 & echo $! > {tmp_path}/pid; wait")
        error = await refusal(running, deadline_seconds=0.5)
        child = int((tmp_path / "pid").read_text())

        assert NoAnswer("client list --format=csv,noheader", 0.5) == error
        await _gone(child)

    async def test_a_flood_is_cut(self, controlling: Callable[[str], Control], tmp_path: Path) -> None:
        """One that never stops talking is killed once it has said too much, long before its deadline."""
        error = await refusal(controlling(f"echo $$ > {tmp_path}/pid; exec yes"), deadline_seconds=100.0)

        assert TooLong("client list --format=csv,noheader") == error
        assert not _lives(int((tmp_path / "pid").read_text()))

    @pytest.mark.parametrize(
        "prefix", [pytest.param("", id="in its session"), pytest.param("setsid ", id="in one of its own")]
    )
    async def test_what_it_leaves_behind_costs_nothing(
        self, controlling: Callable[[str], Control], tmp_path: Path, prefix: str
    ) -> None:
        """A client that ends, but for a child that holds its output, leaves us no open file; nor itself, if it can."""
        running = controlling(f"{prefix}sleep 1000 & echo $! > {tmp_path}/pid")
        before = len(list(Path("/proc/self/fd").iterdir()))
        error = await refusal(running, deadline_seconds=0.5)
        await asyncio.sleep(0)
        after = len(list(Path("/proc/self/fd").iterdir()))
        child = int((tmp_path / "pid").read_text())
        if prefix:
            os.kill(child, signal.SIGKILL)
        await _gone(child)

        assert (NoAnswer("client list --format=csv,noheader", 0.5), before) == (error, after)

    async def test_a_long_list_is_read_whole(self, controlling: Callable[[str], Control]) -> None:
        """Thousands of clients fit below the bound."""
        assert 5000 == len(await controlling("seq 1 5000").list_clients())

    async def test_a_program_that_is_not_there(self, tmp_path: Path) -> None:
        """It is told apart from a daemon that does not answer."""
        missing = Control(CommandLine(str(tmp_path / "no"), "3", "/p", "/l"), {})

        assert NotRun("client list --format=csv,noheader", "No such file or directory") == await refusal(missing)

    async def test_a_cancelled_question_leaves_no_process(
        self, controlling: Callable[[str], Control], tmp_path: Path
    ) -> None:
        """Whoever stops asking leaves nothing behind."""
        running = controlling(f"echo $$ > {tmp_path}/pid; exec sleep 1000")
        task = asyncio.create_task(running.list_clients(100.0))
        async with asyncio.timeout(5):
            while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():  # noqa: ASYNC110  a file
                await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert not _lives(int((tmp_path / "pid").read_text()))


class TestTerminate:
    async def test_names_the_client(self, controlling: Callable[[str], Control], tmp_path: Path) -> None:
        """The process id is the last word."""
        await controlling(f'echo "$*" > {tmp_path}/said').terminate(77, 5.0)

        assert "-p 3 client terminate 77\n" == (tmp_path / "said").read_text()


def test_the_bound_holds_every_client_of_a_node() -> None:
    """Sixteen devices with sixty clients each have room, with a server's and a namespace's name."""
    assert 16 * 60 * len("4194304,shared,kai_0123456789abcdef\n") < control.MAX_OUTPUT_BYTES


async def _gone(pid: int) -> None:
    async with asyncio.timeout(10):
        # Not our child: its end may come a moment after that of its files.
        while _lives(pid):  # noqa: ASYNC110  same
            await asyncio.sleep(0)


def _lives(pid: int) -> bool:
    try:
        return "Z" != (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
