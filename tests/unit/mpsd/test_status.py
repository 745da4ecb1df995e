"""
The command against a server on a real socket, in threads of one process: it runs an event loop of its own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import pytest
import pytest_asyncio
from fractioning_core.rpc.mpsserver import mps_server
from fractioning_core.rpc.mpsvalues import DaemonStatus, MpsStatus, ProbeStatus, RestartKind
from mpsd import status
from mpsd.settings import Settings
from mpsd.status import StatusSettings

READY = MpsStatus("0.1.0", ready=True, reason="", daemon=DaemonStatus("running", pid=42, uptime_seconds=1.0))


@attrs.define
class FakeMps:
    """
    Knows one status and does nothing.
    """

    answer: MpsStatus = READY

    def status(self) -> MpsStatus:
        """
        Tell it.
        """
        return self.answer

    async def list_clients(self) -> tuple[int, ...]:
        """
        List nobody.
        """
        return ()

    async def terminate_client(self, pid: int, deadline_seconds: float) -> None:
        """
        Terminate nobody.
        """

    async def restart(self, kind: RestartKind, reason: str) -> None:
        """
        Restart nothing.
        """


@pytest.fixture
def mps() -> FakeMps:
    """
    A ready mpsd.
    """
    return FakeMps()


@pytest_asyncio.fixture
async def path(tmp_path: Path, mps: FakeMps) -> AsyncIterator[str]:
    """
    The socket on which it answers.
    """
    async with mps_server(tmp_path / "mpsd.sock", mps):
        yield str(tmp_path / "mpsd.sock")


async def run(*argv: str, **environ: str) -> int:
    """
    Run the command in a thread.
    """
    return await asyncio.to_thread(status.main, argv, environ)


class TestMain:
    async def test_ready(self, path: str, capsys: pytest.CaptureFixture[str]) -> None:
        """
        A ready mpsd ends it with 0 and a page.
        """
        ended = await run(f"--rpc-socket={path}")

        assert (ended, capsys.readouterr().out.splitlines()[0]) == (0, "mpsd 0.1.0: ready")

    async def test_not_ready(self, path: str, mps: FakeMps, capsys: pytest.CaptureFixture[str]) -> None:
        """
        One that is not ends it with 1, and the page begins with the reason.
        """
        mps.answer = attrs.evolve(READY, ready=False, reason="the control socket is gone")
        ended = await run(f"--rpc-socket={path}")

        headline = "mpsd 0.1.0: NOT READY: the control socket is gone"
        assert (ended, capsys.readouterr().out.splitlines()[0]) == (1, headline)

    async def test_as_json(self, path: str, mps: FakeMps, capsys: pytest.CaptureFixture[str]) -> None:
        """
        With --json everything is one object, and the environment may name the socket.
        """
        mps.answer = attrs.evolve(READY, probe=ProbeStatus(1.0, clients=(7,)))
        ended = await run("--json", MPS_RPC_SOCKET=path)

        told = json.loads(capsys.readouterr().out)
        assert (ended, told["daemon"]["pid"], told["probe"]["clients"]) == (0, 42, [7])

    async def test_nobody_there(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """
        No mpsd ends it with 2 and one line that names the socket.
        """
        ended = await run(f"--rpc-socket={tmp_path}/mpsd.sock")

        told = f"mpsd status: nothing answers on {tmp_path}/mpsd.sock: No such file or directory\n"
        assert (ended, capsys.readouterr().err) == (2, told)

    async def test_a_bad_flag(self, capsys: pytest.CaptureFixture[str]) -> None:
        """
        A flag that is none is named.
        """
        ended = await run("--jsno")

        assert (ended, "--jsno" in capsys.readouterr().err) == (2, True)

    async def test_help(self, capsys: pytest.CaptureFixture[str]) -> None:
        """
        Help is an answer, not a failure.
        """
        ended = await run("--help")

        assert (ended, "--rpc-socket" in capsys.readouterr().out) == (0, True)


class TestStatusSettings:
    def test_the_socket(self) -> None:
        """
        Command and service agree on the socket when nobody says anything.
        """
        assert StatusSettings().rpc_socket == Settings().rpc_socket
