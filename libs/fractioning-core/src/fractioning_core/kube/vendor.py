"""
The parts of kubernetes_asyncio that are used, loaded without the rest.

Importing the package executes about a thousand generated modules. Measured on 36.1.0 in a process that has the service
kit already: 36 MiB of resident memory for `import kubernetes_asyncio`, 21 for its `api_client`, which imports every
model, and 1.6 for the three modules here. A daemon on every node that makes one call cannot justify more.

The modules are the package's own and keep their names, so one who imports the package after us shares them. Only the
two `__init__` files are passed over, by standing in for them while the modules load.
"""

from __future__ import annotations

import importlib
import importlib.util
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, cast
from urllib.parse import urlencode

import aiohttp

_PACKAGE = "kubernetes_asyncio"
_CLIENT = "kubernetes_asyncio.client"
# The first probe after half a minute of silence, and the end after a minute and a half of no answer to any.
_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
)


class Response(Protocol):
    """
    An answer whose status says that it worked.
    """

    status: int
    data: bytes


class RestClient(Protocol):
    """
    What we use of the library's `RESTClientObject`: TLS, pooled connections and the encoding of bodies.
    """

    pool_manager: aiohttp.ClientSession

    async def request(
        self,
        method: str,
        url: str,
        query_params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: object = None,
    ) -> Response:
        """
        Send one request; raises `ApiException` for a status that is not 2xx.
        """

    async def close(self) -> None:
        """
        Close its connections.
        """


def open_client(*, ca_file: Path) -> RestClient:
    """
    Make a client on the running loop.

    Raises:
        OSError: The file of the certificate authority cannot be read, or holds none (`ssl.SSLError`).
    """
    configuration = _configuration.Configuration()
    configuration.ssl_ca_cert = str(ca_file)
    return cast("RestClient", _rest.RESTClientObject(configuration))


async def open_stream(
    client: RestClient, url: str, *, query: Mapping[str, str], headers: Mapping[str, str], buffer_bytes: int
) -> aiohttp.ClientResponse:
    """
    Send a GET and return when the status is there, whatever it is; the caller reads the answer and closes it.

    The client's own `request` would do, but it reads 4 MiB ahead for each of many streams.

    Args:
        client: Whose connections and trust to use.
        url: Where to.
        query: Parameters of the query.
        headers: Headers.
        buffer_bytes: About how much to read ahead of whoever reads.
    """
    response = await client.pool_manager.get(
        f"{url}?{urlencode(query)}", headers=headers, timeout=aiohttp.ClientTimeout(), read_bufsize=buffer_bytes
    )
    _keep_alive(response)
    return response


def _keep_alive(response: aiohttp.ClientResponse) -> None:
    """
    Let the kernel probe the connection, so that what stands between keeps it and a dead peer is noticed.
    """
    transport = response.connection and response.connection.transport
    sock = transport and transport.get_extra_info("socket")
    if sock:
        for level, option, value in _KEEPALIVE:
            sock.setsockopt(level, option, value)


def _modules(*names: str) -> tuple[ModuleType, ...]:
    if _CLIENT in sys.modules:
        # Somebody has paid for the whole package already.
        return tuple(importlib.import_module(f"{_CLIENT}.{name}") for name in names)
    with _bare_packages():
        return tuple(importlib.import_module(f"{_CLIENT}.{name}") for name in names)


@contextmanager
def _bare_packages() -> Iterator[None]:
    """
    Stand in for the two packages, with nothing but the paths on which their modules are found.
    """
    # Finding a top-level package does not execute it.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"No module named {_PACKAGE!r}", name=_PACKAGE)
    root = Path(spec.submodule_search_locations[0])
    before = sys.modules.get(_PACKAGE)
    try:
        for name, path in ((_PACKAGE, root), (_CLIENT, root / "client")):
            package = ModuleType(name)
            package.__path__ = [str(path)]
            sys.modules[name] = package
        yield
    finally:
        # A later import of the package finds no stand-in and executes the real files.
        del sys.modules[_CLIENT]
        del sys.modules[_PACKAGE]
        if before is not None:
            sys.modules[_PACKAGE] = before


_rest, _configuration, _exceptions = cast(
    "tuple[Any, Any, Any]", _modules("rest", "configuration", "exceptions")
)  # untyped here on purpose: their stubs would pull the thousand modules into the type check

ApiException: type[Exception] = _exceptions.ApiException
"""
An answer that says no, with `status`, `reason` and `body`.
"""
