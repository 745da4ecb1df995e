"""
An API server for every test that asks, and the way to it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import certifi
import pytest
import pytest_asyncio
from fractioning_core.kube.incluster import Account
from fractioning_core.kube.transport import Transport
from fractioning_core.testing.apiserver import FakeApiServer


@pytest_asyncio.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as fake:
        yield fake


@pytest.fixture
def account(server: FakeApiServer, tmp_path: Path) -> Account:
    """
    The way to that server; any certificate authority does, since there is no TLS.
    """
    token_file = tmp_path / "token"
    token_file.write_text("first")
    return Account(server.url, ca_file=Path(certifi.where()), token_file=token_file)


@pytest_asyncio.fixture
async def api(account: Account) -> AsyncIterator[Transport]:
    async with Transport.of_account(account, user_agent="tests") as transport:
        yield transport
