from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fractioning_core.rpc.errors import NobodyThere, SocketUnusable
from fractioning_core.rpc.mpsclient import MpsClient
from fractioning_core.rpc.mpsserver import mps_server

if TYPE_CHECKING:
    from fractioning_core.rpc.mpsvalues import MpsStatus

    from .conftest import FakeMps


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """
    Where the socket is to be; its directory is not there yet.
    """
    return tmp_path / "mps" / "mpsd.sock"


def mode(path: Path) -> int:
    """
    Read a file's permission.
    """
    return stat.S_IMODE(path.stat().st_mode)


class TestUnixServer:
    async def test_a_call(self, path: Path, mps: FakeMps, full: MpsStatus) -> None:
        """
        A client that finds the socket is answered.
        """
        async with mps_server(path, mps), MpsClient.at(str(path)) as client:
            assert await client.status() == full

    async def test_permissions(self, path: Path, mps: FakeMps) -> None:
        """
        The directory may be entered by all, the socket used by its owner alone, whatever the umask.
        """
        umask = os.umask(0)
        try:
            async with mps_server(path, mps):
                assert (mode(path.parent), mode(path)) == (0o755, 0o600)
        finally:
            os.umask(umask)

    async def test_the_end(self, path: Path, mps: FakeMps) -> None:
        """
        The socket is gone after the end, and calls say that nobody answers.
        """
        async with mps_server(path, mps):
            pass

        assert not path.exists()
        async with MpsClient.at(str(path)) as client:
            with pytest.raises(NobodyThere, match=r"mpsd\.sock: No such file or directory"):
                await client.status()

    async def test_a_stale_socket(self, path: Path, mps: FakeMps, full: MpsStatus) -> None:
        """
        A socket that a killed process left behind is replaced.
        """
        path.parent.mkdir()
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(path))

        async with mps_server(path, mps), MpsClient.at(str(path)) as client:
            assert await client.status() == full

    async def test_a_socket_in_use(self, path: Path, mps: FakeMps) -> None:
        """
        A socket on which another process answers is left to it.
        """
        async with mps_server(path, mps):
            with pytest.raises(SocketUnusable, match="another process serves on it already"):
                async with mps_server(path, mps):
                    pass
            assert path.is_socket()

    async def test_a_file_in_the_way(self, path: Path, mps: FakeMps) -> None:
        """
        A file that is no socket is not removed.
        """
        path.parent.mkdir()
        path.write_text("precious")

        with pytest.raises(SocketUnusable, match="there is a file that is no socket"):
            async with mps_server(path, mps):
                pass
        assert path.read_text() == "precious"

    async def test_a_successor(self, path: Path, mps: FakeMps) -> None:
        """
        The end of one server leaves the socket of the next, made meanwhile, alone.
        """
        async with mps_server(path, mps):
            path.unlink()
            successor = mps_server(path, mps)
            await successor.__aenter__()

        assert path.is_socket()
        await successor.aclose()

    @pytest.mark.parametrize(
        ("name", "told"),
        [
            pytest.param("x" * 120, "AF_UNIX path too long", id="too long"),
            pytest.param("file/mpsd.sock", "Not a directory|File exists", id="below a file"),
        ],
    )
    async def test_no_place_for_one(self, tmp_path: Path, mps: FakeMps, name: str, told: str) -> None:
        """
        A place where no socket can be made is told in one line with the path.
        """
        (tmp_path / "file").touch()

        with pytest.raises(SocketUnusable, match=told) as raised:
            async with mps_server(tmp_path / name, mps):
                pass
        assert "\n" not in str(raised.value)
