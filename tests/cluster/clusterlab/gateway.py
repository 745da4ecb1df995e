"""
The door into the cluster's network: listens on this machine's loopback, and connects inside.

    python -m clusterlab.gateway PORT-FILE ADDRESS PORT

A socket stays in the network namespace it was made in. So this one listens first, then moves into a namespace of its
own, and every connection it makes from then on is made there. The others of the control plane join it by its id.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import socket
import sys
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_CHUNK_BYTES = 65536


def main() -> None:
    """
    Listen, move, and pass on for ever.
    """
    port_file, address, port = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    listener = socket.create_server(("127.0.0.1", 0))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"cannot make a network namespace: {os.strerror(error)}")
    # Written last: who reads it finds the namespace made.
    port_file.write_text(str(listener.getsockname()[1]))
    asyncio.run(_serve(listener, address, port))


async def _serve(listener: socket.socket, address: str, port: int) -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            inner_reader, inner_writer = await asyncio.open_connection(address, port)
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, inner_writer), name="in")
                group.create_task(_pump(inner_reader, writer), name="out")
        writer.close()

    server = await asyncio.start_server(accept, sock=listener)
    await server.serve_forever()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """
    Pass on all that comes, and then the end of it.
    """
    try:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(_CHUNK_BYTES):
                writer.write(chunk)
                await writer.drain()
    finally:
        with contextlib.suppress(OSError):
            writer.close()


if __name__ == "__main__":
    main()
