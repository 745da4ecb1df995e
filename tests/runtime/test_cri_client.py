"""The SDK's CRI client against real runtimes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from lab.containerd import Containerd
from lab.cri import Cri
from nri_aio import cri as sdk
from nri_aio.errors import CriUnavailable


@pytest.fixture
async def client(containerd: Containerd) -> AsyncIterator[sdk.Client]:
    async with sdk.Client(str(containerd.cri_socket)) as connected:
        yield connected


async def test_version(client: sdk.Client, containerd: Containerd) -> None:
    """It tells which runtime answers."""
    version = await client.version()

    assert version.runtime_name == "containerd"
    assert version.runtime_version.startswith(containerd.version)


async def test_lists_and_status(client: sdk.Client, cri: Cri) -> None:
    """Pods come with their annotations, containers with their state, and a status with the spec."""
    pod = await cri.run_pod("p", namespace="team", uid="u-1", annotations={"a": "b"})
    container = await cri.create_container(pod, "main", env=[("K", "1"), ("K", "2")], mounts=[("/tmp", "/mnt")])
    [listed_pod] = await client.list_pod_sandboxes()
    [listed] = await client.list_containers()
    status = await client.container_status(container)

    assert (listed_pod.id, listed_pod.name, listed_pod.namespace, listed_pod.uid) == (pod, "p", "team", "u-1")
    assert listed_pod.annotations["a"] == "b"
    assert (listed.id, listed.pod_sandbox_id, listed.state) == (container, pod, sdk.ContainerState.CREATED)
    assert status is not None
    assert [entry for entry in status.env or () if entry.startswith("K=")] == ["K=1", "K=2"]
    assert ("/tmp", "/mnt") in (status.mounts or ())


async def test_stop(client: sdk.Client, cri: Cri) -> None:
    """A running container ends; one that is gone or never was counts as stopped."""
    pod = await cri.run_pod("p")
    container = await cri.create_container(pod, "main")
    await cri.start(container)
    await client.stop_container(container, grace_seconds=5)
    await client.stop_container(container, grace_seconds=5)
    await client.stop_container("0" * 64, grace_seconds=5)

    assert (await cri.status(container)).state == "exited"
    assert await client.container_status("0" * 64) is None


async def test_events(client: sdk.Client, cri: Cri) -> None:
    """A container's life arrives as events, in order."""
    pod = await cri.run_pod("p")
    heard: list[sdk.ContainerEvent] = []

    async def follow() -> None:
        async for event in client.container_events():
            heard.append(event)
            if event.type is sdk.EventType.DELETED and event.container_id == container:
                return

    container = ""
    async with asyncio.TaskGroup() as group:
        group.create_task(follow())
        # The stream says nothing when it begins: make events until one comes through, so that none of ours is missed.
        while not heard:
            await cri.remove(await cri.create_container(pod, "probe"))
        container = await cri.create_container(pod, "main")
        await cri.start(container)
        await cri.stop(container)
        await cri.remove(container)
    seen = [event.type for event in heard if event.container_id == container]

    created_started_stopped_deleted = [
        sdk.EventType.CREATED,
        sdk.EventType.STARTED,
        sdk.EventType.STOPPED,
        sdk.EventType.DELETED,
    ]
    assert seen == created_started_stopped_deleted


async def test_a_runtime_that_went_away_and_came_back(client: sdk.Client, containerd: Containerd, cri: Cri) -> None:
    """Calls fail while it is gone, and the same client goes on when it is back."""
    await client.version()
    await containerd.stop()
    with pytest.raises(CriUnavailable):
        await client.version()
    await containerd.start()

    assert (await client.version()).runtime_name == "containerd"
