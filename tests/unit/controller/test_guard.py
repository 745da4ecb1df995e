from __future__ import annotations

import pytest
from controller.guard import GuardedApi, MayNotWrite
from controller.nodesource import NODES
from fractioning_core.kube.transport import Request
from fractioning_core.testing.cluster import FakeCluster


@pytest.fixture
async def cluster() -> FakeCluster:
    made = FakeCluster()
    made.put(NODES, {"metadata": {"name": "a"}})
    return made


class TestAsk:
    """
    What passes.
    """

    async def test_reading(self, cluster: FakeCluster) -> None:
        """
        Reading is always allowed.
        """
        api = GuardedApi(cluster, may_write=lambda: False)

        assert "a" == (await api.ask(Request("GET", NODES.item_path("a"))))["metadata"]["name"]

    @pytest.mark.parametrize("verb", ["POST", "PUT", "PATCH", "DELETE"])
    async def test_writing(self, cluster: FakeCluster, verb: str) -> None:
        """
        Without the lead no write reaches the server.
        """
        api = GuardedApi(cluster, may_write=lambda: False)
        with pytest.raises(MayNotWrite) as raised:
            await api.ask(Request(verb, NODES.item_path("a"), body={}))

        assert (MayNotWrite(f"{verb} /api/v1/nodes/a"), []) == (raised.value, cluster.asked)

    async def test_leading(self, cluster: FakeCluster) -> None:
        """
        With the lead, writes pass.
        """
        await GuardedApi(cluster, may_write=lambda: True).ask(Request("DELETE", NODES.item_path("a")))

        assert [] == cluster.all(NODES)
