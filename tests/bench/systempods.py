"""
Pods that start, and when: placed by the scheduler, at their own first line, and shown as running by the API.

All moments are of this machine's clock, which the workers share. The API's own times know whole seconds only, so a
watch tells when it shows what; the first line is dated by the runtime, in the log that the kubelet reads.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any

import attrs
from clusterlab import nvidia
from clusterlab import pods as pods_of
from clusterlab.client import Client, Object
from clusterlab.cluster import Cluster
from clusterlab.errors import Unexpected
from clusterlab.pods import PODS, Container
from fractioning_core import names
from fractioning_core.kube.transport import Request
from lab import waiting
from simgpu.limits import LimitsFile
from systemtable import Start

LIMIT_MIB = 1024
_LABELS = {"bench": "system"}
_SELECTOR = "bench=system"
_SILENCE_SECONDS = 90.0
_GONE_SECONDS = 90.0
# Tells at once that it runs and what it was given; then it is a process on its GPU, for metricsd to see.
_SCRIPT = f"echo ${names.ENV_MEMORY_LIMIT}; exec /usr/bin/simgpu-run --gpu=${names.ENV_VISIBLE_DEVICES} --memory=512Mi"


@attrs.frozen
class _Seen:
    """
    What the watch has told of one pod.
    """

    uid: str
    node: str
    placed: float
    shown: float = 0.0


@attrs.frozen
class Starter:
    """
    Starts pods on a cluster that has the product, or has not.

    Args:
        cluster: Where.
        api: The way in.
        is_served: Whether fractiond gives containers what they ask for; otherwise their pods name it themselves, so
            that the simulated runtime and its hook do the same work for both.
    """

    cluster: Cluster
    api: Client
    is_served: bool

    async def start(self, count: int) -> list[Start]:
        """
        Start so many pods at once; `remove` ends them.
        """
        pods = [self._manifest(number) for number in range(count)]
        asked: dict[str, float] = {}
        query = {"watch": "true", "labelSelector": _SELECTOR}
        async with self.api.api.stream(Request("GET", PODS, query=query), silence_seconds=_SILENCE_SECONDS) as chunks:
            async with asyncio.TaskGroup() as group:
                watch = group.create_task(_watch(chunks, count), name="watch")
                for pod in pods:
                    group.create_task(self._create(pod, asked), name=pod["metadata"]["name"])
        return [await self._start_of(name, seen, asked[name]) for name, seen in watch.result().items()]

    async def remove(self) -> None:
        """
        Remove all pods of the bench, and wait until they are gone.
        """
        for pod in await self.api.list(PODS, labelSelector=_SELECTOR):
            await self.api.delete(f"{PODS}/{pod['metadata']['name']}", grace_seconds=0)

        async def are_gone() -> bool:
            return not await self.api.list(PODS, labelSelector=_SELECTOR)

        await waiting.until_awaited(are_gone, what="the end of the pods", timeout_seconds=_GONE_SECONDS)

    def _manifest(self, number: int) -> dict[str, Any]:
        gpus = [gpu for worker in self.cluster.workers for gpu in worker.gpus]
        gpu = gpus[number % len(gpus)]
        asked = pods_of.memory(limit=f"{LIMIT_MIB}Mi")
        devices = {f"{names.ANNOTATION_PREFIX}main{names.GPU_DEVICES_SUFFIX}": gpu}
        pod = pods_of.manifest(f"start-{number}", Container(script=_SCRIPT), annotations={**asked, **devices})
        (container,) = pod["spec"]["containers"]
        given = [] if self.is_served else [{"name": key, "value": value} for key, value in _variables(gpu).items()]
        return {
            **pod,
            "metadata": {**pod["metadata"], "labels": _LABELS},
            "spec": {**pod["spec"], "containers": [{**container, "env": given}]},
        }

    async def _create(self, pod: Object, asked: dict[str, float]) -> None:
        asked[pod["metadata"]["name"]] = time.time()
        await self.api.create(PODS, pod)

    async def _start_of(self, name: str, seen: _Seen, asked: float) -> Start:
        logs = self.cluster.worker(seen.node).files.log / "pods"
        log = logs / f"{pods_of.NAMESPACE}_{name}_{seen.uid}" / "main" / "0.log"
        line = await waiting.until(lambda: log.read_text() or None, what=f"{name} to print", timeout_seconds=10.0)
        written, printed = parse(line)
        # Both sides alike, or the comparison is none.
        if printed != str(LIMIT_MIB) or not self._is_limited(seen):
            raise Unexpected(f"{name} was to have a limit of {LIMIT_MIB} MiB, in force, and was given {printed!r}")
        return Start(placed=seen.placed - asked, first_line=written - asked, shown=seen.shown - asked)

    def _is_limited(self, seen: _Seen) -> bool:
        """
        Tell whether the simulated driver was told the limit of a pod's container, as the hook does.
        """
        limits = LimitsFile(nvidia.state(self.cluster.worker(seen.node).files)).read()
        found = [each.hard_bytes for each in limits if f"pod{seen.uid}" in each.directory.parts]
        return found == [LIMIT_MIB << 20]


def parse(line: str) -> tuple[float, str]:
    """
    Read when and what a container wrote, from the first line of a log as CRI has it.
    """
    moment, _, _, text = line.splitlines()[0].split(" ", 3)
    return datetime.fromisoformat(moment).timestamp(), text


def _variables(gpu: str) -> dict[str, str]:
    """
    Give what fractiond would.
    """
    return {
        names.ENV_VISIBLE_DEVICES: gpu,
        names.ENV_MEMORY_REQUEST: str(LIMIT_MIB),
        names.ENV_MEMORY_LIMIT: str(LIMIT_MIB),
    }


async def _watch(chunks: AsyncIterator[bytes], count: int) -> Mapping[str, _Seen]:
    """
    Follow the pods until so many are shown as running.
    """
    found: dict[str, _Seen] = {}
    async for event in _events(chunks):
        pod = event["object"]
        name = pod["metadata"]["name"]
        if "nodeName" not in pod["spec"]:
            continue
        seen = found.setdefault(name, _Seen(pod["metadata"]["uid"], pod["spec"]["nodeName"], time.time()))
        if not seen.shown and pods_of.all_run(pod):
            found[name] = attrs.evolve(seen, shown=time.time())
        if sum(bool(each.shown) for each in found.values()) == count:
            return found
    raise Unexpected(f"the watch ended before {count} pods ran")


async def _events(chunks: AsyncIterator[bytes]) -> AsyncIterator[Object]:
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield json.loads(line)
