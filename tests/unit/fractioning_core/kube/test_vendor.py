from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import certifi
from fractioning_core.kube import vendor
from fractioning_core.testing.apiserver import Ending, FakeApiServer, Streamed


def printed(program: str) -> str:
    """
    Run a program in an interpreter of its own, since modules are loaded once per process.
    """
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)  # noqa: S603
    return done.stdout.strip()


class TestModules:
    """
    The library's modules that come with ours.
    """

    def test_no_others(self) -> None:
        """
        Importing our client executes three of the library's modules and none of its thousand models.
        """
        program = """
import sys
import fractioning_core.kube.nodes
print(sorted(name for name in sys.modules if name.startswith("kubernetes_asyncio")))
"""
        modules = [f"kubernetes_asyncio.client.{name}" for name in ("configuration", "exceptions", "rest")]

        assert str(modules) == printed(program)

    def test_package_imported_later(self) -> None:
        """
        One who imports the whole package after us gets all of it, with the same classes.
        """
        program = """
from fractioning_core.kube import vendor
import kubernetes_asyncio
from kubernetes_asyncio import client
print(client.ApiException is vendor.ApiException, callable(client.CoreV1Api), kubernetes_asyncio.client is client)
"""

        assert "True True True" == printed(program)

    def test_package_imported_before(self) -> None:
        """
        One who imported the whole package before us keeps it, with the same classes.
        """
        program = """
import kubernetes_asyncio
from kubernetes_asyncio import client
from fractioning_core.kube import vendor
print(client.ApiException is vendor.ApiException, kubernetes_asyncio.client is client)
"""

        assert "True True" == printed(program)


class TestStream:
    """
    A connection from which is read for long.
    """

    async def test_keep_alive(self, server: FakeApiServer) -> None:
        """
        The kernel probes it after half a minute of silence.
        """
        server.answers = [Streamed((b"a",), Ending.SILENCE)]
        client = vendor.open_client(ca_file=Path(certifi.where()))
        headers = {"Authorization": "Bearer t"}
        response = await vendor.open_stream(client, server.url, query={}, headers=headers, buffer_bytes=1024)
        assert response.connection is not None
        assert response.connection.transport is not None
        connection = response.connection.transport.get_extra_info("socket")
        options = [
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
            connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
        ]
        response.close()
        await client.close()

        assert [1, 30] == options
