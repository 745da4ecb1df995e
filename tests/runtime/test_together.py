"""
fractiond and mpsd on one pipe directory: whom a client inside a container reaches, and that it lasts.

Runtime, fractiond, mpsd and control daemon are the real ones; the driver is a simulated r615, which makes the sockets
of the server `shared` that the real daemon, of branch 550, does not know.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import attrs
import pytest
import pytest_asyncio
from fractioning_core.rpc.mpsclient import MpsClient
from fractioning_core.rpc.mpsvalues import RestartKind
from lab import fractional, mpsclient, waiting
from lab.containerd import Containerd
from lab.cri import Cri
from lab.errors import LabError
from lab.fractiond import Fractiond
from lab.mpsd import Mpsd

# Where a container has the socket itself mounted, as nobody does to it; for comparison.
PINNED = "/pinned"
SM_SHARING = {"nvidia.com/container.main.gpu-compute.mode": "sm-sharing"}


@attrs.frozen
class Node:
    """
    A node with both daemons, and a container of each mode.
    """

    cri: Cri
    mpsd: Mpsd
    time_slicing: str
    sm_sharing: str

    async def reached(self, word: str) -> list[int]:
        """
        Send a word from inside each container, and tell which control daemons logged it.
        """
        containers = {"time-slicing": self.time_slicing, "sm-sharing": self.sm_sharing}
        return [
            await mpsclient.reach(self.cri, container, mpsd=self.mpsd, word=f"{word}-from-{mode}")
            for mode, container in containers.items()
        ]

    async def look(self, container: str, what: str, path: str) -> str:
        """
        Look at a file from inside a container.
        """
        return (await self.cri.exec(container, ["/bin/stat", "-c", what, path])).strip()


@pytest_asyncio.fixture
async def node(containerd: Containerd, cri: Cri, tmp_path: Path) -> AsyncIterator[Node]:
    """
    Both daemons are ready before a container is made.
    """
    # What a check finds is not to replace the daemon behind a test's back.
    async with Mpsd(directory=tmp_path, flags=["--probe-failures=1000"]) as mpsd:
        await mpsd.serving()
        async with Fractiond(containerd, directory=tmp_path, pipe_dir=mpsd.pipe_dir) as fractiond:
            await fractiond.ready()
            mounts = [mpsclient.mount(mpsd), (str(mpsd.socket), f"{PINNED}/control")]
            yield Node(
                cri,
                mpsd,
                time_slicing=await fractional.run(cri, "time-slicing", mounts=mounts),
                sm_sharing=await fractional.run(cri, "sm-sharing", annotations=SM_SHARING, mounts=mounts),
            )


class TestTheSocket:
    async def test_time_slicing(self, node: Node) -> None:
        """
        The live control socket is where the pipe directory is on the host, and it is the daemon's own.
        """
        path = f"{node.mpsd.pipe_dir}/control"

        seen = await node.look(node.time_slicing, "%F %d:%i", path)

        assert f"socket {_identity(node.mpsd.socket)}" == seen

    async def test_sm_sharing(self, node: Node) -> None:
        """
        The socket of the shared server is at /tmp/nvidia-mps, and the node's own is nowhere in sight.
        """
        seen = await node.look(node.sm_sharing, "%F %d:%i", "/tmp/nvidia-mps/control")

        assert f"socket {_identity(node.mpsd.shared_socket)}" == seen
        with pytest.raises(LabError, match="No such file"):
            await node.look(node.sm_sharing, "%F", str(node.mpsd.pipe_dir))


class TestAClient:
    async def test_reaches_the_daemon(self, node: Node) -> None:
        """
        A client inside a container of either mode reaches the one control daemon that mpsd started.
        """
        daemon = node.mpsd.daemon()

        assert [daemon, daemon] == await node.reached("hello")

    async def test_of_sm_sharing_uses_its_own_socket(self, node: Node) -> None:
        """
        Without the node's own socket a time-slicing client reaches nobody, and an sm-sharing one is not concerned.
        """
        node.mpsd.socket.unlink()

        with pytest.raises(LabError, match="No such file"):
            await mpsclient.reach(node.cri, node.time_slicing, mpsd=node.mpsd, word="one")
        assert node.mpsd.daemon() == await mpsclient.reach(node.cri, node.sm_sharing, mpsd=node.mpsd, word="two")

    async def test_of_time_slicing_uses_its_own_socket(self, node: Node) -> None:
        """
        Without the shared server's socket it is the other way round.
        """
        node.mpsd.shared_socket.unlink()

        with pytest.raises(LabError, match="No such file"):
            await mpsclient.reach(node.cri, node.sm_sharing, mpsd=node.mpsd, word="one")
        assert node.mpsd.daemon() == await mpsclient.reach(node.cri, node.time_slicing, mpsd=node.mpsd, word="two")


async def _kill_daemon(mpsd: Mpsd) -> None:
    os.kill(mpsd.daemon(), signal.SIGKILL)


async def _ask_for_restart(mpsd: Mpsd) -> None:
    async with MpsClient.at(str(mpsd.rpc_socket)) as client:
        await client.restart(RestartKind.GRACEFUL, reason="a test")


async def _kill_mpsd(mpsd: Mpsd) -> None:
    mpsd.service.signal(signal.SIGKILL)
    await mpsd.service.wait()
    await waiting.until(lambda: not mpsd.daemons(), what="the control daemon to die with mpsd", timeout_seconds=30.0)
    await mpsd.start()


class TestANewDaemon:
    @pytest.mark.parametrize(
        "replace",
        [
            pytest.param(_kill_daemon, id="the daemon was killed"),
            pytest.param(_ask_for_restart, id="a restart was asked for"),
            pytest.param(_kill_mpsd, id="mpsd was killed and started again"),
        ],
    )
    async def test_is_reached_by_containers_that_run(
        self, node: Node, replace: Callable[[Mpsd], Awaitable[None]]
    ) -> None:
        """
        It is the directory that is mounted, so that a new socket shows in it; a mounted socket stays the dead one.
        """
        former = node.mpsd.daemon()
        before = [await _directory(node, container) for container in _seen(node)]
        first = await _through_the_pinned(node, "first")
        await replace(node.mpsd)
        daemon = await node.mpsd.another_daemon(former)
        await node.mpsd.serving()

        assert former == first
        assert [daemon, daemon] == await node.reached("hello-again")
        assert before == [await _directory(node, container) for container in _seen(node)]
        with pytest.raises(LabError, match="Connection refused"):
            await _through_the_pinned(node, "second")

    async def test_is_not_there_yet(self, node: Node) -> None:
        """
        While there is no daemon, a client inside a container is told so at once, and does not wait.
        """
        node.mpsd.service.signal(signal.SIGTERM)
        await node.mpsd.service.wait()

        with pytest.raises(LabError, match="Connection refused"):
            await mpsclient.reach(node.cri, node.time_slicing, mpsd=node.mpsd, word="anybody")


def _seen(node: Node) -> list[tuple[str, str]]:
    """
    List the containers, with the directory in which each finds its socket.
    """
    return [(node.time_slicing, str(node.mpsd.pipe_dir)), (node.sm_sharing, "/tmp/nvidia-mps")]


async def _directory(node: Node, seen: tuple[str, str]) -> str:
    container, directory = seen
    return await node.look(container, "%d:%i", directory)


async def _through_the_pinned(node: Node, word: str) -> int:
    """
    Send a word through the socket that was mounted itself.
    """
    argv = ["/bin/env", f"CUDA_MPS_PIPE_DIRECTORY={PINNED}", mpsclient.PROGRAM, word]
    await node.cri.exec(node.time_slicing, argv)
    return await node.mpsd.heard(word)


def _identity(path: Path) -> str:
    found = path.stat()
    return f"{found.st_dev}:{found.st_ino}"
