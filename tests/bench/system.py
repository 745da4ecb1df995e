"""
What the whole system costs: starts of pods with and without the product on one cluster, rollouts, and memory.

    scripts/bench system            the tables on standard output
    scripts/bench system --write    the tables into the README as well
    scripts/bench system --quick    ten pods of each side, to see that it works

Both sides take turns, block by block, so that what else the machine does meets both: pods without the product, helm
install, pods with it, a change of the daemons, helm uninstall. A cluster that is up is used and left as it was; else
one is made and removed. Ends with 1 where a bar is not met.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import attrs
import commandline
import machine
import readme
import systemmemory
from clusterlab import client, departure
from clusterlab.client import Client
from clusterlab.cluster import Cluster
from clusterlab.placement import NODE_CONDITION
from clusterlab.release import CONFIG, FRACTIOND, MPSD, Release
from fractioning_core.kube import timestamps
from fractioning_core.kube.transport import STRATEGIC_PATCH, Request
from systempods import Starter
from systemtable import Block, Effort, Figures, Rollout, Start, Usage, holds, render

MARKERS = "system bench"
FULL = Effort(blocks=4, singly=10, batches=5, batch=10, loaded=40)
QUICK = Effort(blocks=1, singly=2, batches=1, batch=10, loaded=10)
# A little more than metricsd takes from one look to the next.
_CYCLE_SECONDS = 6.0


async def measure(effort: Effort) -> Figures:
    """
    Measure on the cluster that is up, or on one of its own.
    """
    cluster = Cluster.at()
    is_own = not cluster.is_up
    if is_own:
        say("making a cluster")
        await cluster.up()
    try:
        async with cluster.admin() as api, _absent(Release(cluster, Client(api))) as release:
            return await _Bench(release, effort).run()
    finally:
        if is_own:
            await cluster.down()


@attrs.define
class _Bench:
    """
    What is collected while the sides take turns.
    """

    release: Release
    effort: Effort
    memory: dict[str, Usage] = attrs.field(factory=dict)

    async def run(self) -> Figures:
        """
        Let them take turns.
        """
        without, product, rollouts = [], [], []
        for number in range(self.effort.blocks):
            say(f"block {number + 1} of {self.effort.blocks}: without the product")
            without.append(await self._without())
            say(f"block {number + 1} of {self.effort.blocks}: with it")
            block, rollout = await self._product()
            product.append(block)
            rollouts.append(rollout)
        return Figures(tuple(without), tuple(product), tuple(rollouts), tuple(self.memory.values()))

    async def _without(self) -> Block:
        await _say_enforced(self.release, "True")
        try:
            return await self._block(is_served=False)
        finally:
            await _say_enforced(self.release, None)

    async def _product(self) -> tuple[Block, Rollout]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        install = await _seconds(self.release.install())
        await self.release.steady()
        ready = loop.time() - begun
        block = await self._block(is_served=True)
        await self._load()
        change = await _seconds(_change(self.release))
        uninstall = await _seconds(departure.uninstall(self.release))
        await departure.erase(self.release)
        return block, Rollout(install, ready, change, uninstall)

    async def _block(self, *, is_served: bool) -> Block:
        starter = self._starter(is_served=is_served)
        # Of no interest: the first pod of a block finds caches cold that later ones do not.
        await _batch(starter, 1)
        singly = [start for _ in range(self.effort.singly) for start in await _batch(starter, 1)]
        count = self.effort.batch
        at_once = [start for _ in range(self.effort.batches) for start in await _batch(starter, count)]
        return Block(tuple(singly), tuple(at_once))

    async def _load(self) -> None:
        """
        Read the product's memory while many pods run, and metricsd has seen their processes.
        """
        starter = self._starter(is_served=True)
        try:
            await starter.start(self.effort.loaded)
            await asyncio.sleep(_CYCLE_SECONDS)
            for usage in await systemmemory.read(self.release):
                self.memory[usage.name] = usage.larger(self.memory.get(usage.name, usage))
        finally:
            await starter.remove()

    def _starter(self, *, is_served: bool) -> Starter:
        return Starter(self.release.cluster, self.release.api, is_served=is_served)


async def _batch(starter: Starter, count: int) -> list[Start]:
    """
    Start pods, and remove them.
    """
    try:
        return await starter.start(count)
    finally:
        await starter.remove()


@asynccontextmanager
async def _absent(release: Release) -> AsyncIterator[Release]:
    """
    Have nothing of a release while entered but its images; put back the one that was there.
    """
    was_there = await release.is_installed()
    await departure.erase(release)
    await release.load_images()
    try:
        yield release
    finally:
        await departure.erase(release)
        if was_there:
            await release.install()
            await release.steady()


async def _change(release: Release) -> None:
    """
    Change what both daemons log, and wait until they run so on every worker.
    """
    level = {"logLevel": "warn"}
    await release.api.patch(CONFIG, {"spec": {"fractioningAgent": level, "mpsDaemon": level}})
    for name in (FRACTIOND, MPSD):
        await release.has_argument(name, "warn")
    await release.steady()


async def _say_enforced(release: Release, status: str | None) -> None:
    """
    Set the condition that the stand-in for the scheduler goes by, where no controller does; None removes it.
    """
    now = timestamps.seconds(timestamps.utcnow())
    condition = {"type": NODE_CONDITION, "status": status, "lastTransitionTime": now, "lastHeartbeatTime": now}
    entry = condition if status else {"type": NODE_CONDITION, "$patch": "delete"}
    for node in release.gpu_nodes():
        path = f"{client.NODES}/{node}/status"
        body = {"status": {"conditions": [entry]}}
        await release.api.api.ask(Request("PATCH", path, body=body, content_type=STRATEGIC_PATCH))


async def _seconds(work: Awaitable[None]) -> float:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await work
    return loop.time() - begun


def say(text: str) -> None:
    """
    Tell what is under way, beside the tables.
    """
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """
    Measure and tell.
    """
    asked = commandline.parse(
        "system", "what the whole system costs", quick="ten pods of each side, to see that it works"
    )
    effort = QUICK if asked.quick else FULL
    load = machine.load()
    figures = asyncio.run(measure(effort))
    section = render(figures, effort, load=load)
    print(section)
    if asked.write:
        readme.write(MARKERS, section)
    return 0 if holds(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
