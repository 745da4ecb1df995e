from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
import structlog
from controller import removal
from controller.configreading import CONFIGS
from fractioning_core.kube.errors import ApiUnreachable
from fractioning_core.kube.objects import Objects
from fractioning_core.testing.cluster import FakeCluster

pytestmark = pytest.mark.looptime

NAME = "default"
GONE = ApiUnreachable("https://10.96.0.1:443", "Connect call failed")


def config(*finalizers: str) -> Mapping[str, Any]:
    return {"metadata": {"name": NAME, "finalizers": list(finalizers)}, "spec": {}}


@pytest.fixture
async def cluster() -> FakeCluster:
    return FakeCluster()


async def remove(cluster: FakeCluster) -> bool:
    return await removal.remove(Objects(cluster, field_manager="tests"), timeout_seconds=120)


class TestRemove:
    """
    How the resource goes.
    """

    async def test_nothing_there(self, cluster: FakeCluster) -> None:
        """
        Without a resource there is nothing to do, nor to wait for.
        """
        assert (True, 1) == (await remove(cluster), len(cluster.asked))

    async def test_at_once(self, cluster: FakeCluster) -> None:
        """
        One that nobody cleans up after is gone when it is deleted.
        """
        cluster.put(CONFIGS, config())

        assert (True, None) == (await remove(cluster), cluster.get(CONFIGS, NAME))

    async def test_cleaned_up(self, cluster: FakeCluster) -> None:
        """
        One with a finalizer is deleted once and waited for.
        """
        cluster.put(CONFIGS, config("ours"))
        async with asyncio.TaskGroup() as group:
            removing = group.create_task(remove(cluster))
            await asyncio.sleep(60)
            is_waiting = not removing.done()
            cluster.remove(CONFIGS, NAME)
        deletions = [request for request in cluster.asked if request.verb == "DELETE"]

        assert (True, True, 1) == (is_waiting, removing.result(), len(deletions))

    async def test_nobody_cleans_up(self, cluster: FakeCluster) -> None:
        """
        After its time it gives up, and says what it waited for and what to do.
        """
        cluster.put(CONFIGS, config("ours"))
        with structlog.testing.capture_logs() as lines:
            is_gone = await remove(cluster)

        assert (False, 120) == (is_gone, asyncio.get_running_loop().time())
        assert [
            {
                "event": "config_not_removed",
                "log_level": "warning",
                "after_seconds": 120,
                "cause": "its finalizers: ours",
                "by_hand": removal.BY_HAND,
            }
        ] == lines

    async def test_outage(self, cluster: FakeCluster) -> None:
        """
        A server that is away for a while is asked again.
        """
        cluster.put(CONFIGS, config())
        cluster.refuse = lambda _: GONE
        async with asyncio.TaskGroup() as group:
            removing = group.create_task(remove(cluster))
            await asyncio.sleep(60)
            cluster.refuse = lambda _: None

        assert (True, None) == (removing.result(), cluster.get(CONFIGS, NAME))

    async def test_another_one(self, cluster: FakeCluster) -> None:
        """
        One that somebody makes under the name meanwhile is left alone.
        """
        cluster.put(CONFIGS, config("ours"))
        async with asyncio.TaskGroup() as group:
            removing = group.create_task(remove(cluster))
            await asyncio.sleep(10)
            cluster.remove(CONFIGS, NAME)
            cluster.put(CONFIGS, config())
        found = cluster.get(CONFIGS, NAME)

        assert (True, config()["spec"]) == (removing.result(), found and found["spec"])
