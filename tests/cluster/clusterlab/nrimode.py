"""
A cluster whose GPU Operator runs its NRI plugin: no RuntimeClass for daemons, and GPUs by CDI.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from apilab.helm import NAMESPACE

from clusterlab import gpuoperator
from clusterlab.cluster import Cluster
from clusterlab.release import FRACTIOND, MPSD, Release

_POLICY = f"/apis/nvidia.com/v1/clusterpolicies/{gpuoperator.POLICY}"


@asynccontextmanager
async def enabled(release: Release) -> AsyncIterator[None]:
    """
    Turn the mode on while entered, and wait until the product has followed, both ways.
    """
    _start_plugins(release.cluster)
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


def _start_plugins(cluster: Cluster) -> None:
    for worker in cluster.running_workers():
        if worker.worker.gpus:
            cluster.parts.spawn(
                _part(worker.worker.name),
                # The worker's own files; the rest of it does not matter to a plugin.
                [
                    *("nsenter", f"--mount=/proc/{worker.pid}/ns/mnt", "--"),
                    *(sys.executable, "-m", "clusterlab.nriplugin", NAMESPACE),
                ],
                environ={"PYTHONPATH": ":".join(sys.path)},
            )


def _part(worker: str) -> str:
    return f"nri-stand-in-{worker}"
