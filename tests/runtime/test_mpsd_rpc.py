"""
mps.v1 and `mpsd status` on a running mpsd, with the real control daemon behind both.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from fractioning_core.rpc.errors import ClientStuck, DaemonUnavailable, NoSuchClient, NothingToRestart
from fractioning_core.rpc.mpsclient import MpsClient
from fractioning_core.rpc.mpsvalues import RestartKind
from lab import program
from lab.mpsd import Mpsd
from simgpu.state import Machine, Mps


@pytest_asyncio.fixture
async def mpsd(tmp_path: Path) -> AsyncIterator[Mpsd]:
    """
    A ready mpsd, whose daemon has answered once; the next check is far away.
    """
    async with Mpsd(directory=tmp_path, flags=["--probe-interval=60s"]) as running:
        await running.ready()
        yield running


@pytest_asyncio.fixture
async def client(mpsd: Mpsd) -> AsyncIterator[MpsClient]:
    """
    A client of it.
    """
    async with MpsClient.at(str(mpsd.rpc_socket)) as made:
        yield made


@pytest.fixture
def process() -> Iterator[int]:
    """
    A process that passes for a client.
    """
    made = subprocess.Popen(["sleep", "1000"])
    yield made.pid
    made.kill()
    made.wait()


async def command(mpsd: Mpsd, *flags: str) -> tuple[int, str, str]:
    """
    Run `mpsd status`; gives its exit status and what it wrote.
    """
    argv: list[str | Path] = [program.script("mpsd"), "status", f"--rpc-socket={mpsd.rpc_socket}", *flags]

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    done = await asyncio.to_thread(run)
    return done.returncode, done.stdout, done.stderr


class TestStatus:
    async def test_of_a_ready_one(self, mpsd: Mpsd, client: MpsClient) -> None:
        """
        It names the real daemon's process, its configuration as it lies on disk, and the driver.
        """
        status = await client.status()

        assert (status.ready, status.daemon.state, status.daemon.pid) == (True, "running", mpsd.daemon())
        assert status.configuration.text == mpsd.config.read_text()
        assert (status.driver.version, status.driver.major) == ("615.43.02", 615)
        assert status.probe is not None
        assert (status.probe.problem, status.probe.clients) == ("", ())

    async def test_as_a_page(self, mpsd: Mpsd) -> None:
        """
        The command prints a page and ends with 0; outside a cluster it says that there is no node to label.
        """
        ended, page, _ = await command(mpsd)

        assert (ended, page.splitlines()[0].endswith(": ready")) == (0, True)
        assert f"daemon         running, pid {mpsd.daemon()}, up " in page
        assert "label          not in a cluster: no label\n" in page

    async def test_of_one_that_is_not_ready(self, tmp_path: Path) -> None:
        """
        The command ends with 1 and says why, as readiness does.
        """
        async with Mpsd(directory=tmp_path, machine=Machine(driver="580.95.05")) as running:
            reason = await running.not_ready("r580")
            ended, text, _ = await command(running, "--json")

        assert (ended, json.loads(text)["reason"]) == (1, reason)

    async def test_of_none(self, mpsd: Mpsd) -> None:
        """
        Once mpsd has ended there is no socket, and the command ends with 2 and one line.
        """
        await mpsd.service.end()
        ended, _, told = await command(mpsd)

        assert (ended, told.count("\n"), mpsd.rpc_socket.exists()) == (2, 1, False)

    async def test_while_the_daemon_hangs(self, mpsd: Mpsd, client: MpsClient) -> None:
        """
        It comes from memory: a control daemon that hangs does not hold it up.
        """
        mpsd.simulate(Mps(hangs=True))
        async with asyncio.timeout(2):
            status = await client.status()

        assert status.daemon.pid == mpsd.daemon()


class TestTheSocket:
    async def test_its_permissions(self, mpsd: Mpsd) -> None:
        """
        Only root may use it.
        """
        path = mpsd.rpc_socket

        assert (oct(path.stat().st_mode & 0o777), oct(path.parent.stat().st_mode & 0o777)) == ("0o600", "0o755")

    async def test_after_a_kill(self, mpsd: Mpsd) -> None:
        """
        What a killed mpsd leaves behind does not keep the next one from serving.
        """
        mpsd.service.signal(signal.SIGKILL)
        await mpsd.service.wait()
        await mpsd.start()
        await mpsd.ready()

        async with MpsClient.at(str(mpsd.rpc_socket)) as client:
            assert (await client.status()).ready


class TestClients:
    async def test_they_are_listed_now(self, mpsd: Mpsd, client: MpsClient, process: int) -> None:
        """
        The list is asked of the daemon, not taken from the last check.
        """
        mpsd.simulate(Mps(clients=(process,)))

        assert await client.list_clients() == (process,)

    async def test_one_is_terminated(self, mpsd: Mpsd, client: MpsClient, process: int) -> None:
        """
        A terminated client is off the list; a second time there is no such client.
        """
        mpsd.simulate(Mps(clients=(process,)))
        await client.terminate_client(process, deadline_seconds=5)
        left = await client.list_clients()

        with pytest.raises(NoSuchClient):
            await client.terminate_client(process, deadline_seconds=5)
        assert left == ()

    async def test_one_whose_work_does_not_end(self, mpsd: Mpsd, client: MpsClient, process: int) -> None:
        """
        The deadline ends the wait, and the client stays.
        """
        mpsd.simulate(Mps(clients=(process,), terminate_ms={process: 60_000}))

        with pytest.raises(ClientStuck):
            await client.terminate_client(process, deadline_seconds=0.3)
        assert await client.list_clients() == (process,)

    async def test_a_daemon_that_errs(self, mpsd: Mpsd, client: MpsClient) -> None:
        """
        The daemon's own words are told.
        """
        mpsd.simulate(Mps(error="Internal error 17"))

        with pytest.raises(DaemonUnavailable, match="Internal error 17"):
            await client.list_clients()


class TestRestart:
    @pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.value) for kind in RestartKind])
    async def test_a_running_one(self, mpsd: Mpsd, client: MpsClient, kind: RestartKind) -> None:
        """
        Another daemon takes the place of the first, and the restart is counted as asked for.
        """
        before = mpsd.daemon()
        await client.restart(kind, reason="a test")
        after = await mpsd.another_daemon(before)
        await mpsd.ready()
        status = await client.status()

        assert (status.daemon.pid, status.daemon.restarts["requested"]) == (after, 1)

    async def test_none(self, tmp_path: Path) -> None:
        """
        A daemon that is held back cannot be restarted, and the answer says why it is.
        """
        async with Mpsd(directory=tmp_path, machine=Machine(driver="580.95.05")) as running:
            await running.not_ready("r580")
            async with MpsClient.at(str(running.rpc_socket)) as client:
                with pytest.raises(NothingToRestart, match="r580"):
                    await client.restart(RestartKind.HARD, reason="")
