"""
A cluster whose GPU Operator runs its NRI plugin: no RuntimeClass for daemons, and GPUs by CDI.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from apilab.helm import NAMESPACE
from lab import waiting

from clusterlab import gpuoperator
from clusterlab.cluster import Cluster
from clusterlab.nriplugin import SYNCHRONIZED
from clusterlab.release import FRACTIOND, MPSD, Release
from clusterlab.worker import RunningWorker

_SECONDS = 30.0
_POLICY = f"/apis/nvidia.com/v1/clusterpolicies/{gpuoperator.POLICY}"


@asynccontextmanager
async def enabled(release: Release) -> AsyncIterator[None]:
    """
    Turn the mode on while entered, and wait until the product has followed, both ways.
    """
    await _start_plugins(release.cluster)
    try:
        await _switch(release, is_on=True)
        yield
    finally:
        await _switch(release, is_on=False)
        for worker in release.cluster.running_workers():
            await release.cluster.parts.end(_part(worker.worker.name))


async def _switch(release: Release, *, is_on: bool) -> None:
    await release.api.patch(_POLICY, {"spec": gpuoperator.nri_spec(NAMESPACE, is_on=is_on)})
    await release.has_argument(FRACTIOND, f"--inject-cdi-device={str(is_on).lower()}")
    await release.has_runtime_class(MPSD, is_there=not is_on)
    await release.steady()


async def _start_plugins(cluster: Cluster) -> None:
    for worker in cluster.running_workers():
        if worker.worker.gpus:
            await _start_plugin(cluster, worker)


async def _start_plugin(cluster: Cluster, worker: RunningWorker) -> None:
    """
    Start one, and wait until the runtime asks it: a container that is made before would never get its devices.
    """
    part = _part(worker.worker.name)
    log = cluster.parts.log(part)
    former = log.stat().st_size if log.exists() else 0
    cluster.parts.spawn(
        part,
        # The worker's own files; the rest of it does not matter to a plugin.
        [
            *("nsenter", f"--mount=/proc/{worker.pid}/ns/mnt", "--"),
            *(sys.executable, "-m", "clusterlab.nriplugin", NAMESPACE),
        ],
        environ={"PYTHONPATH": ":".join(sys.path)},
    )
    await waiting.until(
        lambda: SYNCHRONIZED in log.read_bytes()[former:].decode(),
        what=f"{part} to be synchronised",
        timeout_seconds=_SECONDS,
    )


def _part(worker: str) -> str:
    return f"nri-stand-in-{worker}"
