"""
Real runtimes for the tests in this folder: one containerd per version for the whole run, clean of pods for each test;
and an mpsd.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from lab import toolchain
from lab.containerd import Containerd
from lab.cri import Cri
from lab.errors import MissingToolchain
from lab.mpsd import Mpsd


@pytest_asyncio.fixture(scope="session", loop_scope="session", params=toolchain.VERSIONS)
async def containerd(request: pytest.FixtureRequest) -> AsyncIterator[Containerd]:
    """
    A running containerd of each version in turn.
    """
    try:
        runtime = Containerd(request.param)
    except MissingToolchain as error:
        # Not a skip: a suite that passes without having run is worse than one that fails.
        pytest.fail(str(error), pytrace=False)
    async with runtime:
        yield runtime


@pytest_asyncio.fixture
async def cri(containerd: Containerd) -> AsyncIterator[Cri]:
    """
    A driver for that containerd; the pods of the test are removed after it.
    """
    async with containerd.cri() as driver:
        yield driver
        if not containerd.is_running:
            # A restart test failed half-way; the tests after it are not to pay for it.
            await containerd.start()
        await driver.remove_all_pods()


@pytest_asyncio.fixture
async def mpsd(tmp_path: Path) -> AsyncIterator[Mpsd]:
    """
    A ready mpsd, checked once a second.
    """
    async with Mpsd(directory=tmp_path, flags=["--probe-interval=1s", "--probe-timeout=1s"]) as running:
        await running.ready()
        yield running
