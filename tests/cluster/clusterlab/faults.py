"""
Does something bad to a cluster with the product on it, and measures what becomes of fences and records.

    async with faults.suffered(release, name="fractiond killed", what="kill -9 of fractiond on one worker") as scene:
        ...                             # do it, and undo it where it does not end by itself
        scene.over()                    # from here recovery is counted; at the end of the block where this is not said
    assert scene.outcome.holds, scene.outcome

On entering, four tenants' pods run fenced on both workers with GPUs (placed by the stand-in for KAI), a `Witness`
looks, and a new annotated pod is made every `PROBE_SECONDS`, on each worker in turn. These go past the scheduler, which
would place none on a node that is not ready: pods that were placed a moment before, and containers that the kubelet
restarts, reach the runtime all the same. They bring NVIDIA_VISIBLE_DEVICES=all as CUDA's own images do, so that one
that slips through has every GPU and no limit.

At the end of the block it waits for the recovery: the release steady, and on each worker a pod that the stand-in has
placed since running fenced. Then every pod has to come to run fenced, without help; whatever ran unfenced behind its
detection window until then counts against the fault (see `spells` for what that is). The outcome goes into
`faults.json` of the cluster's directory.
The block must end with the fault in effect: an upgrade that is asked for and has not begun looks like recovery.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

import attrs
from fractioning_core import names
from fractioning_core.errors import FractioningError
from lab import waiting

from clusterlab import outcomes, witness
from clusterlab import pods as pods_of
from clusterlab.client import Object
from clusterlab.outcomes import Outcome
from clusterlab.pods import Container, Pods
from clusterlab.release import Release
from clusterlab.spells import Times
from clusterlab.witness import LOOK_SECONDS, Witness

PROBE_SECONDS = 2.0
LIMIT_MIB = 1024
TENANTS_PER_WORKER = 2
_PROBE = "probe-"
_RECOVERY_SECONDS = 300.0
# The kubelet waits longer from try to try; ten seconds at most between restarts, minutes for none.
_ALL_RUN_SECONDS = 120.0
_LOOKS_SECONDS = 4 * LOOK_SECONDS


def tenant(name: str, gpu: str, *, worker: str = "") -> Object:
    """
    Give a tenant's pod that holds memory of a GPU; the stand-in places it, unless a worker is named.
    """
    devices = {f"{names.ANNOTATION_PREFIX}main{names.GPU_DEVICES_SUFFIX}": gpu}
    container = Container(script=pods_of.simgpu(gpu, memory="256Mi"))
    pod = pods_of.manifest(name, container, annotations={**pods_of.memory(limit=f"{LIMIT_MIB}Mi"), **devices})
    every_gpu = {"name": names.ENV_VISIBLE_DEVICES, "value": "all"}
    pod["spec"]["containers"][0]["env"] = [*witness.marks(name, limit_mib=LIMIT_MIB, gpu=gpu), every_gpu]
    # The first program of a PID namespace does not hear TERM before it has a handler for it, and one that is stopped in
    # its first instants would take its whole grace.
    pod["spec"]["shareProcessNamespace"] = True
    if worker:
        pod["spec"]["nodeName"] = worker
    return pod


@attrs.define
class Scene:
    """
    A cluster on which a fault is being suffered.
    """

    release: Release
    name: str
    what: str
    pods: Pods
    witness: Witness
    _over: float | None = None
    _outcome: Outcome | None = None
    _numbers: Iterator[int] = attrs.field(factory=itertools.count)
    _made: set[str] = attrs.field(factory=set)
    _before: set[str] = attrs.field(factory=set)

    @property
    def outcome(self) -> Outcome:
        """
        What it has done, once the block has ended.
        """
        assert self._outcome is not None, "the block has not ended"
        return self._outcome

    def over(self) -> None:
        """
        The fault itself ends here, and recovery begins.
        """
        self._over = time.time()

    async def begin(self) -> None:
        """
        Run the tenants, and see that they are fenced.
        """
        for worker in self._gpu_workers():
            for number in range(TENANTS_PER_WORKER):
                name = f"tenant-{worker}-{number}"
                await self.pods.create(tenant(name, self._gpu(worker, number)))
                self._made.add(name)
        await self._fenced(self._made, timeout_seconds=pods_of.RUNNING_SECONDS)
        self._before = self.witness.journal.fenced()

    async def probe(self) -> None:
        """
        Make pods for ever, on each worker in turn.
        """
        workers = self._gpu_workers()
        while True:
            for worker in workers:
                # The API server may be away, and that may be the fault.
                with contextlib.suppress(FractioningError):
                    await self._make(worker)
                await asyncio.sleep(PROBE_SECONDS)

    async def crowd(self, worker: str, count: int) -> set[str]:
        """
        Make so many more pods on a worker, all at once; gives their names.
        """
        async with asyncio.TaskGroup() as group:
            making = [group.create_task(self._make(worker), name="crowd") for _ in range(count)]
        return {each.result() for each in making}

    async def recover(self, probing: asyncio.Task[None]) -> None:
        """
        Wait until all is well again, and for what the detection windows are to show; then sum up.
        """
        if self._over is None:
            self.over()
        await self.release.steady(timeout_seconds=_RECOVERY_SECONDS)
        fresh = {f"fresh-{worker}" for worker in self._gpu_workers()}
        for worker in self._gpu_workers():
            await self.pods.create(tenant(f"fresh-{worker}", self._gpu(worker, 0)))
        await self._fenced(fresh, timeout_seconds=_RECOVERY_SECONDS)
        await self.release.steady(timeout_seconds=_RECOVERY_SECONDS)
        recovered = time.time()
        probing.cancel()
        await asyncio.wait([probing])
        self._made |= await self._made_unheard()
        try:
            await self._fenced(self._made, timeout_seconds=_ALL_RUN_SECONDS)
            await asyncio.sleep(_LOOKS_SECONDS)
        finally:
            self._outcome = self._sum_up(recovered)
            outcomes.enter(outcomes.ledger(self.release.cluster.layout), self._outcome)

    async def _make(self, worker: str) -> str:
        """
        Make a pod on a worker, past the scheduler; one that was made has to run in the end. Gives its name.
        """
        number = next(self._numbers)
        name = f"{_PROBE}{number}"
        await self.pods.create(tenant(name, self._gpu(worker, number), worker=worker))
        self._made.add(name)
        return name

    async def _made_unheard(self) -> set[str]:
        """
        Find those that were made although nobody heard the answer, since the outage or the end came in between.
        """
        asked = [name for name in self.pods.made if name.startswith(_PROBE) and name not in self._made]
        return {name for name in asked if await self.release.api.get(f"{pods_of.PODS}/{name}")}

    def _sum_up(self, recovered: float) -> Outcome:
        journal = self.witness.journal
        account = journal.account(Times(recovered, self.witness.synchronized))
        return Outcome(
            name=self.name,
            what=self.what,
            pods_made=len(self._made) - len(self._before),
            tenants_ended=len(self._before - journal.fenced()),
            recovery_seconds=recovered - (self._over or recovered),
            **attrs.asdict(account),
        )

    async def _fenced(self, pods: set[str], *, timeout_seconds: float) -> None:
        await waiting.until(
            lambda: pods <= self.witness.fenced_pods(),
            what=f"pods to run fenced after {self.name}",
            timeout_seconds=timeout_seconds,
            details=lambda: f"not fenced: {sorted(pods - self.witness.fenced_pods())}",
        )

    def _gpu_workers(self) -> Sequence[str]:
        return self.release.gpu_nodes()

    def _gpu(self, worker: str, number: int) -> str:
        gpus = self.release.cluster.worker(worker).worker.gpus
        return gpus[number % len(gpus)]


@asynccontextmanager
async def suffered(release: Release, *, name: str, what: str) -> AsyncIterator[Scene]:
    """
    Measure what the block does to the cluster; see the module.

    Args:
        release: Steady.
        name: Of the fault, in the table.
        what: What happens, as the table says it.
    """
    scene = Scene(release, name, what, Pods(release.api), Witness(release.cluster))
    try:
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(scene.witness.run(), name="witness")
            await scene.begin()
            probing = group.create_task(scene.probe(), name="probes")
            try:
                yield scene
                await scene.recover(probing)
            finally:
                probing.cancel()
                watching.cancel()
    finally:
        await _delete(scene.pods)


async def _delete(pods: Pods) -> None:
    async with asyncio.TaskGroup() as group:
        for name in pods.made:
            group.create_task(pods.delete(name), name=name)
