"""
Fractional pods, as the tests of a node keep needing them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from lab.cri import Cri
from lab.errors import CriError

LIMIT = "NVIDIA_GPU_MEMORY_LIMIT"
ANNOTATIONS = {"nvidia.com/container.main.gpu-memory.limit": "1Gi"}
STUBBORN = ("/bin/sh", "-c", "trap '' TERM; exec sleep 1000000")
"""
Ignores the polite signal, so that it takes its whole grace to end. The default command ends at once.
"""


async def run(
    cri: Cri,
    name: str,
    *,
    annotations: Mapping[str, str] | None = None,
    mounts: Sequence[tuple[str, str]] = (),
) -> str:
    """
    Run a pod with one fractional container.

    Returns:
        The container's id.

    Raises:
        CriError: It was refused.
    """
    pod = await cri.run_pod(name, annotations=ANNOTATIONS | dict(annotations or {}))
    container = await cri.create_container(pod, "main", mounts=mounts)
    await cri.start(container)
    return container


async def run_if_let(cri: Cri, name: str, *, annotations: Mapping[str, str] | None = None) -> str | None:
    """
    Do the same; None where it was refused.
    """
    try:
        return await run(cri, name, annotations=annotations)
    except CriError:
        return None


async def run_many(cri: Cri, count: int, *, at_once: int) -> list[str]:
    """
    Run pods side by side, named pod-0 and so on, each with one fractional container; gives the containers' ids.
    """
    waiting = [f"pod-{number}" for number in range(count)]
    containers: list[str] = []

    async def run_some() -> None:
        while waiting:
            containers.append(await run(cri, waiting.pop()))

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(run_some())
    return containers


async def unfenced(cri: Cri, containers: Iterable[str]) -> set[str]:
    """
    Find those that have no limit in their spec.
    """
    return {container for container in containers if not (await cri.status(container)).values_of(LIMIT)}


async def states(cri: Cri) -> dict[str, str]:
    """
    Give every container's state, by id.
    """
    return {listed.id: listed.state for listed in await cri.list_containers()}


async def have_ended(cri: Cri, containers: Iterable[str]) -> bool:
    """
    Tell whether none of these runs any more.
    """
    now = await states(cri)
    return all(now.get(container) in (None, "exited") for container in containers)
