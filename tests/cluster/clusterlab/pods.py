"""
Pods as their authors write them, and what the kubelet makes of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import attrs
from fractioning_core import names
from fractioning_core.errors import Unavailable
from lab import waiting
from lab.image import BUSYBOX_IMAGE

from clusterlab import binder
from clusterlab.client import Client, Object

NAMESPACE = "default"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
RUNNING_SECONDS = 60.0
_SHOWN = "environment: end"
SHOW = f"env; echo {_SHOWN}"
"""
Prints the environment as the container has it, for `Pods.environment`.
"""
SHOW_AND_STAY = f"{SHOW}; exec sleep 100000"


@attrs.frozen
class Container:
    """
    A container: its name, and what its shell runs.
    """

    name: str = "main"
    script: str = SHOW_AND_STAY


def simgpu(gpu: str, *, memory: str, sm: int = 0) -> str:
    """
    Give a script that shows the environment, and then holds simulated memory of a GPU.
    """
    share = f" --sm={sm}" if sm else ""
    return f"{SHOW}; exec /usr/bin/simgpu-run --gpu={gpu} --memory={memory}{share}"


def manifest(
    name: str,
    *containers: Container,
    annotations: Mapping[str, str] | None = None,
    scheduler: str = binder.NAME,
    runtime_class: str | None = "nvidia",
) -> Object:
    """
    Give a pod's manifest.
    """
    return {
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": dict(annotations or {})},
        "spec": {
            "schedulerName": scheduler,
            # As the scheduler's admission webhook adds it where `nvidia` is not the default.
            **({"runtimeClassName": runtime_class} if runtime_class else {}),
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {"name": one.name, "image": BUSYBOX_IMAGE.name, "command": ["/bin/sh", "-c", one.script]}
                for one in containers or (Container(),)
            ],
        },
    }


def memory(*, request: str = "", limit: str = "", container: str = "main", prefix: str = "") -> dict[str, str]:
    """
    Give the annotations that ask for memory.
    """
    key = f"{prefix or names.ANNOTATION_PREFIX}{container}"
    asked = {names.GPU_MEMORY_REQUEST_SUFFIX: request, names.GPU_MEMORY_LIMIT_SUFFIX: limit}
    return {f"{key}{suffix}": value for suffix, value in asked.items() if value}


@attrs.frozen
class Pods:
    """
    The pods of one test.
    """

    api: Client
    made: list[str] = attrs.field(factory=list)

    async def create(self, pod: Object) -> Object:
        """
        Make a pod; the test's end removes it.
        """
        self.made.append(pod["metadata"]["name"])
        return await self.api.create(PODS, pod)

    async def run(self, pod: Object) -> Object:
        """
        Make a pod, and wait until it runs.
        """
        await self.create(pod)
        return await self.running(pod["metadata"]["name"])

    async def running(self, name: str, *, timeout_seconds: float = RUNNING_SECONDS) -> Object:
        """
        Wait until every container of a pod runs.
        """
        return await self.api.until(f"{PODS}/{name}", all_run, what=f"{name} to run", timeout_seconds=timeout_seconds)

    async def refused(self, name: str, *, timeout_seconds: float = RUNNING_SECONDS) -> str:
        """
        Wait until the kubelet says why a container does not start; gives what it says.
        """

        def why(found: Object) -> bool:
            return any(_reason(each) not in _STARTING for each in _statuses(found))

        found = await self.api.until(
            f"{PODS}/{name}", why, what=f"a reason for {name}", timeout_seconds=timeout_seconds
        )
        waiting_states = [each.get("state", {}).get("waiting", {}) for each in _statuses(found)]
        return "\n".join(f"{each.get('reason')}: {each.get('message')}" for each in waiting_states)

    async def environment(self, name: str, container: str = "main") -> Mapping[str, str]:
        """
        Read the environment of a container, which it printed when it began, as `SHOW` does.
        """
        text = await self.wait_for_output(name, _SHOWN, container)
        return dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line)

    async def wait_for_output(self, name: str, part: str, container: str = "main") -> str:
        """
        Wait until a container has printed something; gives all it printed.
        """

        async def printed() -> str | None:
            text = await self.output(name, container)
            return text if part in text else None

        return await waiting.until_awaited(printed, what=f"{name} to print {part!r}", timeout_seconds=RUNNING_SECONDS)

    async def output(self, name: str, container: str = "main") -> str:
        """
        Read what a container has printed.
        """
        return await self.api.text(f"{PODS}/{name}/log", container=container)

    async def delete(self, name: str) -> None:
        """
        Delete a pod, and wait until it is gone; the API server may be on its way back from a fault.
        """

        async def is_gone() -> bool:
            try:
                await self.api.delete(f"{PODS}/{name}", grace_seconds=0)
                return await self.api.get(f"{PODS}/{name}") is None
            except Unavailable:
                return False

        await waiting.until_awaited(is_gone, what=f"the end of {name}", timeout_seconds=RUNNING_SECONDS)

    async def delete_all(self) -> None:
        """
        Delete the test's pods.
        """
        for name in self.made:
            await self.delete(name)


@asynccontextmanager
async def of_test(api: Client) -> AsyncIterator[Pods]:
    """
    Give a test its pods, and remove them after it.
    """
    pods = Pods(api)
    try:
        yield pods
    finally:
        await pods.delete_all()


_STARTING = (None, "ContainerCreating", "PodInitializing")


def _statuses(pod: Object) -> Sequence[Object]:
    statuses: Sequence[Object] = pod["status"].get("containerStatuses", [])
    return statuses


def all_run(pod: Object) -> bool:
    """
    Tell whether every container of a pod runs.
    """
    statuses = _statuses(pod)
    return bool(statuses) and all("running" in each["state"] for each in statuses)


def _reason(status: Object) -> str | None:
    reason: str | None = status.get("state", {}).get("waiting", {}).get("reason")
    return reason
