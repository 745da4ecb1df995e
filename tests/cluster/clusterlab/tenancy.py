"""
Tenants while something is done to the release: fractional pods on both workers with GPUs, watched all the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import attrs
from lab import waiting

from clusterlab import faults
from clusterlab.pods import Pods
from clusterlab.release import Release
from clusterlab.spells import Spell
from clusterlab.witness import Witness

_RUNNING_SECONDS = 60.0


@attrs.define
class Tenancy:
    """
    The tenants, and who watches them.

    Args:
        ended: Pods of those who were there first and whose container has not lived through all of it.
    """

    release: Release
    pods: Pods
    witness: Witness
    ended: set[str] = attrs.field(factory=set)

    @property
    def spells(self) -> Sequence[Spell]:
        """
        Times in which a container was without its fence.
        """
        return self.witness.journal.spells

    async def another(self, name: str) -> None:
        """
        Run one more on each worker, and wait until all of them have their fence.
        """
        for node in self.release.gpu_nodes():
            gpu = self.release.cluster.worker(node).worker.gpus[0]
            await self.pods.create(faults.tenant(f"{name}-{node}", gpu))
        await waiting.until(
            lambda: set(self.pods.made) <= self.witness.fenced_pods(),
            what=f"{self.pods.made} to run fenced",
            timeout_seconds=_RUNNING_SECONDS,
        )


@asynccontextmanager
async def of(release: Release) -> AsyncIterator[Tenancy]:
    """
    Have tenants while entered, and watch them.
    """
    tenancy = Tenancy(release, Pods(release.api), Witness(release.cluster))
    try:
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(tenancy.witness.run(), name="witness")
            try:
                await tenancy.another("first")
                first = tenancy.witness.journal.fenced()
                yield tenancy
                tenancy.ended = {tenancy.witness.pod_of(each) for each in first - tenancy.witness.journal.fenced()}
            finally:
                watching.cancel()
    finally:
        await tenancy.pods.delete_all()
