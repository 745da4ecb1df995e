"""
Measurements with a real containerd: what a plugin costs while nothing happens, and what is left of it end to end.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
from contestants import FRACTIOND, SCRATCH, Contestant, Place, go_plugin
from lab import fractional, waiting
from lab.containerd import Containerd
from lab.cri import Cri
from lab.errors import CriError, LabError
from lab.fractiond import Fractiond
from playedruntime import Percentiles
from results import Node, PodBurst, Sides, percentiles
from timed import Effort, say

ANNOTATIONS = {
    "nvidia.com/container.main.gpu-memory.request": "2Gi",
    "nvidia.com/container.main.gpu-memory.limit": "4Gi",
    "nvidia.com/container.main.gpus.devices": "GPU-3b0f7d4c-9d42-4a51-8f0e-51b1a2f0c7d1",
}
INJECTED = "NVIDIA_GPU_MEMORY_LIMIT"
CONNECT_SECONDS = 15.0
# A start leaves work behind, such as the comparison with CRI's list.
SETTLE_SECONDS = 3.0
# Few of these are spread over many turns, since a node's speed drifts within seconds.
CREATIONS_PER_TURN = 10
BURST_PODS, AT_ONCE = 100, 16
LATE_SECONDS = 0.05


async def run_node(containerd: Containerd, effort: Effort) -> Node:
    """
    Measure on a running containerd that validates.
    """
    idle = await _idle(containerd, effort.idle_seconds)
    turns = max(1, effort.creations // CREATIONS_PER_TURN)
    say(f"end to end: {turns} turns of {CREATIONS_PER_TURN} creations for each")
    found: dict[str, list[Percentiles]] = {"none": [], "go-plugin": [], "fractiond": []}
    async with containerd.cri() as cri:
        creator = _Creator(cri, await cri.run_pod("trainer", annotations=ANNOTATIONS))
        for _ in range(turns):
            await creator.wait_for(fenced=False)
            found["none"].append(await creator.create_many())
            for contestant in (go_plugin(validates=True), FRACTIOND):
                found[contestant.name].append(await _with_plugin(containerd, contestant, creator))
        await cri.remove_all_pods()
        burst = await _burst(containerd, cri)
    return Node(
        idle,
        turns * CREATIONS_PER_TURN,
        tuple(found["none"]),
        tuple(found["go-plugin"]),
        tuple(found["fractiond"]),
        burst,
    )


async def _idle(containerd: Containerd, seconds: float) -> Sides:
    """
    Let both be connected at once, and do nothing.
    """
    say(f"idle: {seconds:g} s")
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="bench-", dir=SCRATCH)))
        services = [
            await stack.enter_async_context(each.service(_place(containerd, directory / each.name)))
            for each in (go_plugin(validates=True), FRACTIOND)
        ]
        await services[1].wait_for_log("synchronized")
        await asyncio.sleep(SETTLE_SECONDS)
        before, began = [cpu_seconds(each.pid) for each in services], time.perf_counter()
        await asyncio.sleep(seconds)
        took = time.perf_counter() - began
        used = [cpu_seconds(each.pid) - earlier for each, earlier in zip(services, before, strict=True)]
    go, ours = (100 * each / took for each in used)
    return Sides((go,), (ours,))


async def _with_plugin(containerd: Containerd, contestant: Contestant, creator: _Creator) -> Percentiles:
    with TemporaryDirectory(prefix="bench-", dir=SCRATCH) as directory:
        # The one before is gone from the runtime's list by then.
        await creator.wait_for(fenced=False)
        async with contestant.service(_place(containerd, Path(directory))):
            await creator.wait_for(fenced=True)
            return await creator.create_many()


async def _burst(containerd: Containerd, cri: Cri) -> PodBurst:
    """
    Start pods side by side, and ask fractiond itself how long each creation waited for it.
    """
    say(f"burst: {BURST_PODS} pods, {AT_ONCE} at once")
    with TemporaryDirectory(prefix="bench-", dir=SCRATCH) as directory:
        async with Fractiond(containerd, directory=Path(directory)) as fractiond:
            await fractiond.ready()
            containers = await fractional.run_many(cri, BURST_PODS, at_once=AT_ONCE)
            in_time, answered = await fractiond.answered_within(LATE_SECONDS)
            unfenced = await fractional.unfenced(cri, containers)
            await cri.remove_all_pods()
    if unfenced or answered != BURST_PODS:
        raise LabError(f"of {BURST_PODS} creations {answered} were fractiond's, and {len(unfenced)} are not fenced")
    return PodBurst(BURST_PODS, AT_ONCE, answered - in_time)


def _place(containerd: Containerd, directory: Path) -> Place:
    return Place(containerd.nri_socket, containerd.cri_socket, directory)


@attrs.define
class _Creator:
    """
    Creates containers in one pod and removes them at once.
    """

    _cri: Cri
    _pod: str
    _attempts: Iterator[int] = attrs.field(factory=itertools.count)

    async def create_many(self) -> Percentiles:
        """
        Time creations one after the other, in milliseconds.
        """
        return percentiles([await self._timed() for _ in range(CREATIONS_PER_TURN)])

    async def wait_for(self, *, fenced: bool) -> None:
        """
        Wait until a plugin is at work, or none is.
        """

        async def is_so() -> bool:
            return await self._is_fenced() is fenced

        await waiting.until_awaited(is_so, what=f"fenced={fenced} containers", timeout_seconds=CONNECT_SECONDS)

    async def _is_fenced(self) -> bool | None:
        try:
            container = await self._create()
        except CriError:
            return None  # the runtime has just noticed that a plugin is gone
        values = (await self._cri.status(container)).values_of(INJECTED)
        await self._cri.remove(container)
        return bool(values)

    async def _timed(self) -> float:
        began = time.perf_counter()
        container = await self._create()
        took = time.perf_counter() - began
        await self._cri.remove(container)
        return took * 1000

    async def _create(self) -> str:
        return await self._cri.create_container(self._pod, "main", attempt=next(self._attempts))


def cpu_seconds(pid: int) -> float:
    """
    Add up the processor time of a process's threads; `stat` counts in hundredths, too coarse for an idle one.
    """
    nanoseconds = 0
    for thread in (Path("/proc") / str(pid) / "task").iterdir():
        nanoseconds += int((thread / "schedstat").read_text().split()[0])
    return nanoseconds / 1e9
