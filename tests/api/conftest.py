"""
One control plane for the whole run; each test has nodes and accounts of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from apilab.controlplane import ControlPlane
from apilab.place import Place
from fractioning_core.kube.transport import Transport
from lab.errors import MissingToolchain


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def plane() -> AsyncIterator[ControlPlane]:
    """
    A running etcd and API server.
    """
    try:
        servers = ControlPlane()
    except MissingToolchain as error:
        # Not a skip: a suite that passes without having run is worse than one that fails.
        pytest.fail(str(error), pytrace=False)
    async with servers:
        yield servers


@pytest_asyncio.fixture
async def admin(plane: ControlPlane) -> AsyncIterator[Transport]:
    """
    The way in of one who may do everything.
    """
    async with plane.admin() as api:
        yield api


@pytest_asyncio.fixture
async def place(plane: ControlPlane, admin: Transport, tmp_path: Path) -> Place:
    """
    A node with a few labels, and a ServiceAccount without any right yet.
    """
    return await Place.make(plane, admin, tmp_path)
