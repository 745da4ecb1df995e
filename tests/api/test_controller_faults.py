"""
The controller on a cluster that is in trouble: it comes through without a restart, and does no harm on the way.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from apilab import objects
from apilab.cluster import MPSD, Cluster
from apilab.gate import Gate
from apilab.objects import ServiceAccount
from apilab.scene import Scene

pytestmark = pytest.mark.asyncio(loop_scope="session")

# Longer than every wait between two attempts, the longest of which is half a minute.
LONG_OUTAGE_SECONDS = 35.0
# The longest wait, and what there is to do after it.
RECOVERY_SECONDS = 60.0


async def changes_reach(cluster: Cluster, *, timeout_seconds: float = 20.0) -> None:
    """
    Wait until a change of the resource is a change of a daemon: the whole way works.
    """
    level = random.choice(["info", "warn", "error"])  # noqa: S311 - not a secret
    wanted = random.randint(1, 10**6)  # noqa: S311
    section = {"logLevel": level, "maxRetries": wanted}
    await cluster.until(lambda: cluster.edit_config(mpsDaemon=section), what="the API server to take the change")

    async def has_come() -> bool:
        daemonset = await cluster.daemonset(MPSD) or {}
        container = daemonset["spec"]["template"]["spec"]["containers"][0]
        return str(wanted) in container.get("args", ())

    await cluster.until(has_come, what=f"--max-retries {wanted}", timeout_seconds=timeout_seconds)


class TestOutage:
    async def test_long(self, scene: Scene) -> None:
        """
        After an API server that was away longer than every wait, the same process goes on, without a write that is not
        needed.
        """
        plane = scene.cluster.plane
        async with scene.rolled_out("a") as controller:
            await plane.stop()
            await asyncio.sleep(LONG_OUTAGE_SECONDS)
            code = controller.service.exit_code
            since = scene.audited()
            await plane.start()
            # Kubernetes' own controllers wait as long as ours, which is not what this is about.
            await scene.cluster.manager.restart()
            await changes_reach(scene.cluster, timeout_seconds=RECOVERY_SECONDS)
            await scene.cluster.ready("True", "AllComponentsReady", timeout_seconds=RECOVERY_SECONDS)
            deleted = [call for call in scene.calls(controller, since=since) if call.right.verb == "delete"]

            assert (None, None, []) == (code, controller.service.exit_code, deleted)

    async def test_etcd(self, scene: Scene) -> None:
        """
        An etcd that is started anew is no reason for anything, not even for the leader to give up.
        """
        plane = scene.cluster.plane
        async with scene.rolled_out("a", flags=("--leader-elect=true",)) as controller:
            before = (await scene.cluster.daemonset(MPSD) or {})["metadata"]["generation"]
            await plane.stop_etcd()
            await asyncio.sleep(3.0)
            await plane.start_etcd()
            await scene.cluster.ready("True", "AllComponentsReady", timeout_seconds=RECOVERY_SECONDS)
            after = (await scene.cluster.daemonset(MPSD) or {})["metadata"]["generation"]
            await changes_reach(scene.cluster, timeout_seconds=RECOVERY_SECONDS)

            assert (None, before) == (controller.service.exit_code, after)


class TestWatches:
    async def test_cut(self, scene: Scene) -> None:
        """
        Watches that break off at any moment lose no change and cost no list.
        """
        async with Gate(scene.cluster.plane) as gate, scene.rolled_out("a", "b", url=gate.url) as controller:
            await scene.at_rest(controller)
            # A list is asked for once for each kind, and once more where it was cut in the middle.
            lists = _lists(gate)
            async with _cutting(gate):
                for reason in ("CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull"):
                    scene.cluster.kubelets.sicken("b", reason)
                    await scene.cluster.node_told("b", "False", reason)
                    scene.cluster.kubelets.heal("b")
                    await scene.cluster.node_told("b", "True")
            await changes_reach(scene.cluster)
            await scene.cluster.ready("True", "AllComponentsReady")

            assert lists == _lists(gate)

    async def test_swallowed(self, scene: Scene) -> None:
        """
        A watch on which nothing comes any more, though its connection stands, is noticed within two minutes, and costs
        no list.
        """
        async with Gate(scene.cluster.plane) as gate, scene.rolled_out("a", url=gate.url) as controller:
            await scene.at_rest(controller)
            lists = _lists(gate)
            gate.swallow_watches()
            await changes_reach(scene.cluster, timeout_seconds=120.0)

            assert lists == _lists(gate)


class TestRefusals:
    @pytest.mark.parametrize(
        "status",
        [
            pytest.param(409, id="conflict"),
            pytest.param(429, id="too many requests"),
            pytest.param(500, id="internal error"),
            pytest.param(503, id="unavailable"),
        ],
    )
    async def test_writes(self, scene: Scene, status: int) -> None:
        """
        A write that is refused is done the next time.
        """
        headers = {"Retry-After": "1"} if status == 429 else {}
        async with Gate(scene.cluster.plane) as gate:
            for path in ("/daemonsets", "/gpufractioningconfigs/default", "/nodes/a"):
                for verb in ("PATCH", "POST", "PUT"):
                    gate.refuse(status, verb=verb, path=path, headers=headers, times=1)
            async with scene.rolled_out("a", url=gate.url) as controller:
                assert controller.service.exit_code is None

    async def test_patience(self, scene: Scene) -> None:
        """
        A server that asks to be left alone for some seconds is.
        """
        async with Gate(scene.cluster.plane) as gate:
            gate.refuse(429, verb="PATCH", path="/daemonsets", headers={"Retry-After": "3"}, times=1)
            begun = asyncio.get_running_loop().time()
            async with scene.rolled_out("a", url=gate.url):
                took = asyncio.get_running_loop().time() - begun
            asked = [each.status for each in gate.seen if each.verb == "PATCH" and "/daemonsets" in each.path]

        assert 429 in asked
        assert took > 3.0
        # Twice for each daemon, at most, beside the refused one.
        assert len(asked) <= 5

    async def test_token(self, scene: Scene) -> None:
        """
        A token that is replaced is shown at once, by what watches as well; each path costs one refusal at most.
        """
        async with Gate(scene.cluster.plane) as gate, scene.rolled_out("a", url=gate.url) as controller:
            gate.newest = lambda: controller.pod.token
            account = ServiceAccount("gpu-fractioning", "gpu-fractioning")
            for _ in range(3):
                controller.pod.swap(await objects.issue_token(scene.cluster.admin, account))
                gate.cut_watches()
                await changes_reach(scene.cluster)
            refused = Counter(each.path.partition("?")[0] for each in gate.seen if each.status == 401)

            assert max(refused.values(), default=0) <= 3
            await scene.cluster.ready("True", "AllComponentsReady")

    async def test_invalid_token(self, scene: Scene) -> None:
        """
        A token that stays invalid is told, and is no reason to ask again and again.
        """
        async with Gate(scene.cluster.plane) as gate, scene.rolled_out("a", url=gate.url) as controller:
            gate.newest = lambda: "another"
            gate.cut_watches()
            body = await controller.not_ready("401 from the API server")
            before = len(gate.seen)
            await asyncio.sleep(10.0)
            asked = len(gate.seen) - before

        assert "401" in body
        # Seven kinds are watched, and each is asked for at 0.1, 0.2, 0.4 … s.
        assert asked < 60


def _lists(gate: Gate) -> int:
    """
    How often all of something was asked for; what does not exist is asked for again and again.
    """
    return sum(each.is_list and each.status == 200 for each in gate.seen)


@asynccontextmanager
async def _cutting(gate: Gate) -> AsyncIterator[None]:
    """
    Break off all watches again and again, at moments that nobody can foresee.
    """

    async def cut() -> None:
        while True:
            await asyncio.sleep(random.uniform(0.05, 0.6))  # noqa: S311 - not a secret
            gate.cut_watches()

    task = asyncio.get_running_loop().create_task(cut())
    try:
        yield
    finally:
        task.cancel()
