"""
A whole cluster in a directory: up, down, and what there is of it.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import attrs
from apilab import definitions, policies
from fractioning_core.kube.transport import Transport
from lab import image, sweep

from clusterlab import binder, client, controlplane, gpuoperator, machine
from clusterlab.client import NODES, Client, Object
from clusterlab.controlplane import ControlPlane
from clusterlab.errors import AlreadyUp, NotUp, Remains
from clusterlab.layout import DEFAULT, Layout
from clusterlab.parts import Parts
from clusterlab.worker import KUBELET, RunningWorker
from clusterlab.workers import WORKERS, Worker

_READY_SECONDS = 90.0


@attrs.frozen
class Cluster:
    """
    The cluster in one directory, be it up or not.
    """

    layout: Layout = attrs.field(factory=Layout)
    workers: Sequence[Worker] = WORKERS

    @classmethod
    def at(cls, base: Path = DEFAULT) -> Self:
        """
        Give the one in this directory.
        """
        return cls(Layout(base))

    @property
    def parts(self) -> Parts:
        """
        Its processes.
        """
        return Parts(self.layout)

    @property
    def plane(self) -> ControlPlane:
        """
        Its control plane.
        """
        return ControlPlane(self.layout, self.parts)

    @property
    def is_up(self) -> bool:
        """
        Whether all its processes run.
        """
        workers = [worker.part for worker in self.running_workers()]
        return all(self.parts.pid(name) for name in (*controlplane.PARTS, binder.PART, *workers))

    def worker(self, name: str) -> RunningWorker:
        """
        Give one of its workers.
        """
        found = next(one for one in self.workers if one.name == name)
        return RunningWorker(found, self.layout, self.parts)

    def running_workers(self) -> Sequence[RunningWorker]:
        """
        Give its workers.
        """
        return [self.worker(one.name) for one in self.workers]

    def admin(self) -> Transport:
        """
        Give the way in of one who may do everything; enter it.

        Raises:
            NotUp: There is no cluster.
        """
        if not self.layout.port.exists():
            raise NotUp(self.layout.base)
        return self.plane.admin()

    async def up(self, report: Callable[[str], None] = lambda _: None) -> None:
        """
        Make it, from nothing to Ready.

        Args:
            report: Told of every step.

        Raises:
            NotPossibleHere: This machine lacks something.
            AlreadyUp: There is one, or a rest of one.
        """
        machine.check()
        found = self.remains()
        if found:
            raise AlreadyUp(self.layout.base, found)
        started = time.monotonic()

        def say(what: str) -> None:
            report(f"{time.monotonic() - started:5.1f} s  {what}")

        try:
            await self._up(say)
        except BaseException:
            # What failed is told by the error, with the end of its log.
            await self.down()
            raise

    async def begin(self) -> None:
        """
        Start the network, etcd and the API server alone, and do not wait for them.
        """
        # Tokens and keys are in it.
        self.layout.base.mkdir(mode=0o700, parents=True)
        for directory in (self.layout.log, self.layout.pids):
            directory.mkdir()
        await self.plane.start(self.workers)

    async def down(self) -> None:
        """
        Remove all of it, whole or not; what is not there is fine.

        Raises:
            Remains: Something does not go.
        """
        await self.parts.end_all()
        for cgroup in self._cgroups():
            await sweep.kill_containers(cgroup)
            await sweep.remove_cgroups(cgroup)
        if self.layout.base.exists():
            await sweep.remove_mounts(self.layout.base)
            await asyncio.to_thread(shutil.rmtree, self.layout.base)
        found = self.remains()
        if found:
            raise Remains(found)

    def remains(self) -> list[str]:
        """
        Describe everything of it that is there.
        """
        base = self.layout.base
        return [
            *(f"process {pid}" for pid in self.parts.pids()),
            *(f"cgroup {cgroup}" for cgroup in self._cgroups()),
            *(f"mount {point}" for point in sweep.mounts_below(base)),
            *([f"directory {base}"] if base.exists() else []),
        ]

    async def load(self, archive: Path) -> Sequence[str]:
        """
        Import the images of an archive into every worker; gives their names.
        """
        async with asyncio.TaskGroup() as group:
            loads = [
                group.create_task(worker.load(archive), name=worker.worker.name) for worker in self.running_workers()
            ]
        return sorted({name for load in loads for name in load.result()})

    async def start_worker(self, name: str) -> None:
        """
        Start a worker on the disk that it has, and let its kubelet run.
        """
        worker = self.worker(name)
        worker.prepare()
        await worker.start(self.plane.gateway_pid)
        worker.release(KUBELET)

    def _cgroups(self) -> list[str]:
        names = (self.layout.cgroup(one.name) for one in self.workers)
        return [name for name in names if sweep.cgroup_directories(name)]

    async def _up(self, say: Callable[[str], None]) -> None:
        await self.begin()
        archive = self.layout.base / "images.tar"
        await asyncio.to_thread(image.write_archive, [image.PAUSE, image.BUSYBOX_IMAGE], archive)
        say("etcd and API server started")
        async with asyncio.TaskGroup() as group:
            for one in self.running_workers():
                group.create_task(self._start_worker(one, archive, say), name=one.worker.name)
            group.create_task(self._finish_plane(say), name="control plane")
        for one in self.running_workers():
            one.release(KUBELET)
        async with self.plane.admin() as api:
            await _make_objects(Client(api))
            self._start_scheduler()
            await self._wait_for_nodes(Client(api))
        say("workers are Ready")

    async def _start_worker(self, worker: RunningWorker, archive: Path, say: Callable[[str], None]) -> None:
        worker.prepare()
        await worker.start(self.plane.gateway_pid)
        await worker.load(archive)
        say(f"containerd of {worker.worker.name} serves")

    def _start_scheduler(self) -> None:
        self.parts.spawn(
            binder.PART,
            [sys.executable, "-m", "clusterlab.binder", self.layout.base],
            # As this program finds its own modules.
            environ={"PYTHONPATH": ":".join(sys.path)},
        )

    async def _finish_plane(self, say: Callable[[str], None]) -> None:
        await self.plane.finish()
        say("API server serves")

    async def _wait_for_nodes(self, api: Client) -> None:
        def is_usable(node: Object) -> bool:
            # It is Kubernetes' controllers that take the taints of a new node away.
            self.plane.check()
            return client.is_true(node, "Ready") and not node["spec"].get("taints")

        for worker in self.running_workers():
            await api.until(
                f"{NODES}/{worker.worker.name}",
                is_usable,
                what=f"{worker.worker.name} to be Ready and without taints",
                timeout_seconds=_READY_SECONDS,
                details=worker.output,
            )
        # The API server refuses pods of a namespace without it.
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        await api.until(account, lambda _: True, what="the ServiceAccount of pods", timeout_seconds=_READY_SECONDS)


async def _make_objects(api: Client) -> None:
    """
    Make what the GPU Operator makes.
    """
    await api.create("/apis/node.k8s.io/v1/runtimeclasses", gpuoperator.runtime_class())
    definition = policies.policy_definition()
    await api.create(definitions.PATH, definition)
    await definitions.served(api.api, definition, timeout_seconds=_READY_SECONDS)
    await api.create(policies.POLICIES.path, policies.policy(gpuoperator.POLICY))
    await api.patch(policies.POLICIES.subresource(gpuoperator.POLICY, "status"), {"status": gpuoperator.status()})
