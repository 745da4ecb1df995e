"""
One cluster for the whole run, with the product installed by helm; each test has pods of its own.

A cluster that `scripts/cluster up` has made is used as it is, and stays. Tests that change the product put it back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from clusterlab import pods as pods_of
from clusterlab.client import Client
from clusterlab.cluster import Cluster
from clusterlab.errors import NotPossibleHere
from clusterlab.pods import Pods
from clusterlab.release import MissingImage, Release
from fractioning_core.kube.transport import Transport


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cluster() -> AsyncIterator[Cluster]:
    """
    A cluster with its workers Ready.
    """
    cluster = Cluster.at()
    if cluster.is_up:
        yield cluster
        return
    try:
        await cluster.up()
    except NotPossibleHere as error:
        # Not a skip: a suite that passes without having run is worse than one that fails.
        pytest.fail(str(error), pytrace=False)
    yield cluster
    await cluster.down()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def installed(cluster: Cluster) -> Cluster:
    """
    The cluster with the product in it.
    """
    async with cluster.admin() as api:
        release = Release(cluster, Client(api))
        try:
            await release.load_images()
        except MissingImage as error:
            pytest.fail(str(error), pytrace=False)
        if not await release.is_installed():
            await release.install()
        await release.steady()
    return cluster


@pytest_asyncio.fixture
async def admin(cluster: Cluster) -> AsyncIterator[Transport]:
    """
    The way in of one who may do everything.
    """
    async with cluster.admin() as api:
        yield api


@pytest_asyncio.fixture
async def release(installed: Cluster, admin: Transport) -> Release:
    """
    The product, steady before each test.
    """
    release = Release(installed, Client(admin))
    await release.steady()
    return release


@pytest_asyncio.fixture
async def pods(release: Release) -> AsyncIterator[Pods]:
    """
    The pods of the test.
    """
    async with pods_of.of_test(release.api) as pods:
        yield pods
