"""
One control plane for the whole run; each test has nodes and accounts of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from apilab.cluster import Cluster
from apilab.controlplane import ControlPlane
from apilab.helm import Helm, find
from apilab.place import Place
from apilab.scene import Scene
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


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """
    A cluster of hollow nodes on a control plane of its own; its parts run on the session's loop, as its tests must.
    """
    try:
        # As OpenShift has it: who makes an object of an owner must be able to set that owner's finalizers.
        plane = ControlPlane(flags=["--enable-admission-plugins=OwnerReferencesPermissionEnforcement"])
        hollow = Cluster(plane, directory=tmp_path_factory.mktemp("cluster"))
    except MissingToolchain as error:
        pytest.fail(str(error), pytrace=False)
    async with plane, hollow:
        yield hollow


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def installed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """
    The chart as helm installs it, hooks and all.
    """
    directory = tmp_path_factory.mktemp("installed")
    helm = Helm(cluster.plane.kubeconfig, directory=directory)
    await helm.install()
    manifests = await helm.manifest()
    spec = find(manifests, "GpuFractioningConfig")["spec"]
    return Scene(cluster, find(manifests, "Deployment"), spec, directory)


@pytest_asyncio.fixture(loop_scope="session")
async def scene(installed: Scene) -> AsyncIterator[Scene]:
    """
    The chart's controller in a cluster without nodes and without the resource.
    """
    await installed.clear()
    yield installed
