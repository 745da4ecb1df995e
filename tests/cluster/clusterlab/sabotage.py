"""
Breaks parts of a cluster from outside, and mends those that do not come back by themselves.

    kill_tenant(worker, pod)                            what runs in a tenant's container; the kubelet starts it again
    async with without_server(cluster): ...             no API server
    with driver_says(worker, error=999): ...            a simulated driver in another state
    async with under_upgrade(api, node) as labels: ...  a node's labels, moved as the GPU Operator moves them
    async with tagged(worker, image, name): ...         an image that one worker alone has

And tells what the product says about a node meanwhile: `node_says(release, node, "ErrImageNeverPull")`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import attrs
from lab import sweep, waiting

from clusterlab import nvidia, processes, witness
from clusterlab.client import NODES, Client, Object, condition
from clusterlab.cluster import Cluster
from clusterlab.placement import NODE_CONDITION
from clusterlab.release import Release
from clusterlab.worker import KNOWN_IMAGE, RunningWorker

CLIENT_LABEL = "nvidia.com/gpu.deploy.client"
UPGRADE_LABEL = "nvidia.com/gpu-driver-upgrade-state"
PAUSED = "paused-for-driver-upgrade"
_IMAGES = ("--namespace=k8s.io", "images")
_KNOWN_SECONDS = 30.0
_SAID_SECONDS = 90.0


async def kill_tenant(worker: RunningWorker, pod: str) -> None:
    """
    Kill what runs in the container of a tenant's pod.
    """
    mark = witness.marks(pod, limit_mib=0, gpu="")[0]
    wanted = (mark["name"], mark["value"])

    def one() -> int | None:
        # Its shell has children at first.
        pids = sweep.cgroup_pids(worker.cgroup)
        found = [pid for pid in pids if wanted in processes.environment(pid).items()]
        return found[0] if len(found) == 1 else None

    os.kill(await waiting.until(one, what=f"one process of {pod}", timeout_seconds=_SAID_SECONDS), signal.SIGKILL)


@asynccontextmanager
async def without_server(cluster: Cluster) -> AsyncIterator[None]:
    """
    Have no API server while entered; at the end it is started, and not waited for.
    """
    await cluster.plane.stop_server()
    try:
        yield
    finally:
        cluster.plane.start_server()


@contextmanager
def driver_says(worker: RunningWorker, **changes: Any) -> Iterator[None]:  # noqa: ANN401 - fields of Machine
    """
    Have the simulated driver of a worker show something else while entered.
    """
    state = nvidia.state(worker.files)
    state.write(nvidia.machine(worker.worker, **changes))
    try:
        yield
    finally:
        state.write(nvidia.machine(worker.worker))


@attrs.frozen
class Labels:
    """
    What the GPU Operator moves on a node whose driver it upgrades.
    """

    api: Client
    node: str

    async def move(self, state: str | None, *, client: str = "true", is_cordoned: bool = True) -> None:
        """
        Set the state of the upgrade, whether the driver's clients may be there, and whether pods may be scheduled.
        """
        labels = {UPGRADE_LABEL: state, CLIENT_LABEL: client}
        body = {"metadata": {"labels": labels}, "spec": {"unschedulable": is_cordoned or None}}
        await self.api.patch(f"{NODES}/{self.node}", body)


@asynccontextmanager
async def under_upgrade(api: Client, node: str) -> AsyncIterator[Labels]:
    """
    Give the labels of a node to be moved; at the end they are as before any upgrade.
    """
    labels = Labels(api, node)
    try:
        yield labels
    finally:
        await labels.move(None, is_cordoned=False)


@asynccontextmanager
async def tagged(worker: RunningWorker, image: str, name: str) -> AsyncIterator[None]:
    """
    Have an image under one more name on a worker while entered.
    """
    await worker.ctr(*_IMAGES, "tag", "--force", image, name)

    async def is_known() -> bool:
        return KNOWN_IMAGE in await worker.ctr(*_IMAGES, "list", f"name=={name}")

    await waiting.until_awaited(is_known, what=f"CRI to note {name}", timeout_seconds=_KNOWN_SECONDS)
    try:
        yield
    finally:
        await worker.ctr(*_IMAGES, "rm", name)


async def node_says(release: Release, node: str, part: str) -> Object:
    """
    Wait until a node is not ready with this in its reason or message; gives the condition.
    """

    def found(one: Object) -> Object:
        return condition(one, NODE_CONDITION) or {"status": "", "reason": "", "message": ""}

    def says(one: Object) -> bool:
        return found(one)["status"] == "False" and part in f"{found(one)['reason']}: {found(one)['message']}"

    return found(
        await release.api.until(
            f"{NODES}/{node}",
            says,
            what=f"{NODE_CONDITION} of {node} to be False for {part}",
            timeout_seconds=_SAID_SECONDS,
        )
    )
