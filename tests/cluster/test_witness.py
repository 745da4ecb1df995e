"""That the witness of the fault tests sees what it is to see: each part of a fence, and the records."""

from __future__ import annotations

import pytest
from clusterlab import nvidia
from clusterlab.faults import LIMIT_MIB, tenant
from clusterlab.pods import Pods
from clusterlab.release import Release
from clusterlab.spells import Times
from clusterlab.witness import Witness
from fractioning_core import names
from lab import waiting
from simgpu.limits import LimitsFile

WORKER = "gpu-1"


@pytest.fixture
def seeing(release: Release) -> Witness:
    """
    A witness that has not looked yet.
    """
    return Witness(release.cluster)


@pytest.fixture
def gpu(release: Release) -> str:
    """
    The GPU that the pods use.
    """
    return release.cluster.worker(WORKER).worker.gpus[0]


async def container_of(seeing: Witness, pod: str) -> str:
    """
    Wait until the witness sees a pod's container, and its record; gives its id.
    """

    def find() -> str | None:
        seeing.look()
        return next((each for each in seeing.containers(pod) if each not in seeing.journal.unrecorded()), None)

    return await waiting.until(find, what=f"the witness to see {pod}", timeout_seconds=20)


class TestFence:
    async def test_whole(self, seeing: Witness, pods: Pods, gpu: str) -> None:
        """
        A tenant's container with its fence lacks nothing.
        """
        await pods.run(tenant("whole", gpu))
        container = await container_of(seeing, "whole")

        assert () == seeing.journal.lacks(container)

    async def test_none(self, seeing: Witness, pods: Pods, gpu: str) -> None:
        """
        Of a container that got nothing, every part is missing.
        """
        pod = tenant("none", gpu, worker=WORKER)
        pod["metadata"]["annotations"].clear()
        await pods.run(pod)

        def find() -> str | None:
            # It has no record, and never will.
            seeing.look()
            return next(iter(seeing.containers("none")), None)

        container = await waiting.until(find, what="the witness to see it", timeout_seconds=20)
        assert (
            f"{names.ENV_MEMORY_REQUEST}: None, not {LIMIT_MIB}",
            f"{names.ENV_MEMORY_LIMIT}: None, not {LIMIT_MIB}",
            f"{names.ENV_MPS_PIPE_DIRECTORY}: None, not {names.MPS_PIPE_DIR}",
            f"{names.ENV_VISIBLE_DEVICES}: all, not {gpu}",
            f"mount: {names.MPS_PIPE_DIR}",
            f"driver: None, not {LIMIT_MIB << 20}",
        ) == seeing.journal.lacks(container)

    async def test_driver_forgets(self, release: Release, seeing: Witness, pods: Pods, gpu: str) -> None:
        """
        A limit that the driver has no longer is missing from then on.
        """
        limits = LimitsFile(nvidia.state(release.cluster.worker(WORKER).files))
        await pods.run(tenant("forgotten", gpu))
        container = await container_of(seeing, "forgotten")
        (limit,) = [each for each in limits.read() if each.directory.name == container]
        limits.remove(limit.uuid, limit.directory)
        seeing.look()

        assert (f"driver: None, not {LIMIT_MIB << 20}",) == seeing.journal.lacks(container)


class TestRecords:
    async def test_removed(self, release: Release, seeing: Witness, pods: Pods, gpu: str) -> None:
        """
        A record that somebody removes under a running container is lost.
        """
        await pods.run(tenant("unrecorded", gpu))
        container = await container_of(seeing, "unrecorded")
        (release.cluster.worker(WORKER).files.run / "gpu-fractioning" / "map" / f"{container}.json").unlink()
        seeing.look()

        assert 1 == seeing.journal.account(Times(0, {})).records_lost


class TestSynchronizes:
    async def test_times(self, release: Release, seeing: Witness) -> None:
        """
        Every worker with GPUs has a fractiond that was synchronized.
        """
        seeing.look()

        assert list(release.gpu_nodes()) == [worker for worker, times in seeing.synchronized.items() if times]
