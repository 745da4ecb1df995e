"""
Two controllers, of which one leads.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import pytest
import pytest_asyncio
from apilab.audit import Call
from apilab.controller import Controller
from apilab.gate import Gate
from apilab.scene import Scene
from fractioning_core.kube.transport import DEADLINE_SECONDS
from lab import waiting

pytestmark = pytest.mark.asyncio(loop_scope="session")

CANDIDATE = ("--leader-elect=true",)
LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/gpu-fractioning/leases/gpu-fractioning.kai.scheduler"
LEASE_SECONDS = 30.0
# Between the last moment at which a leader may begin a write and the one at which it gives up.
LATE_SECONDS = 22.5
TAKEOVER_SECONDS = LEASE_SECONDS + 5.0
RELEASE_SECONDS = 3.0
LEADER = "gpu_fractioning_controller_leader"


@pytest_asyncio.fixture(loop_scope="session")
async def pair(scene: Scene) -> AsyncIterator[tuple[Controller, Controller, Gate]]:
    """
    A leader behind a gate, and its standby.
    """
    await scene.cluster.objects.delete(LEASE_PATH)
    await scene.cluster.add_node("a")
    await scene.cluster.create_config(scene.spec)
    async with AsyncExitStack() as stack:
        gate = await stack.enter_async_context(Gate(scene.cluster.plane))
        first = await stack.enter_async_context(scene.controller(url=gate.url, flags=CANDIDATE))
        await _leads(first)
        second = await stack.enter_async_context(scene.controller(flags=CANDIDATE))
        await second.ready()
        await scene.cluster.node_told("a", "True")
        await scene.cluster.ready("True", "AllComponentsReady")
        yield first, second, gate


class TestStandby:
    async def test_idle(self, scene: Scene, pair: tuple[Controller, Controller, Gate]) -> None:
        """
        Only the leader writes; the standby is ready all the same.
        """
        first, second, _ = pair
        scene.cluster.kubelets.sicken("a", "CrashLoopBackOff")
        await scene.cluster.ready("False", "ComponentNotReady")
        scene.cluster.kubelets.heal("a")
        await scene.cluster.ready("True", "AllComponentsReady")

        assert [] == _writes(scene, second)
        assert [1.0, 0.0] == [await each.metric(LEADER) for each in (first, second)]


class TestTakeover:
    async def test_killed(self, scene: Scene, pair: tuple[Controller, Controller, Gate]) -> None:
        """
        When the leader dies without a word, the other leads before the lease and 5 s are over, and nothing was written
        by the first after the other's first write.
        """
        first, second, _ = pair
        loop = asyncio.get_running_loop()
        await first.kill()
        begun = loop.time()
        scene.cluster.kubelets.sicken("a", "CrashLoopBackOff")
        await scene.cluster.node_told("a", "False", timeout_seconds=TAKEOVER_SECONDS + 5.0)
        took = loop.time() - begun
        scene.cluster.kubelets.heal("a")
        await scene.cluster.ready("True", "AllComponentsReady")

        assert took < TAKEOVER_SECONDS
        assert 1.0 == await second.metric(LEADER)
        assert [] == _late(scene, first, second)

    async def test_terminated(self, scene: Scene, pair: tuple[Controller, Controller, Gate]) -> None:
        """
        A leader that ends in order gives the lease back, and the other leads within 3 s.
        """
        first, second, _ = pair
        first.service.signal(signal.SIGTERM)
        begun = asyncio.get_running_loop().time()
        await _leads(second)
        took = asyncio.get_running_loop().time() - begun

        assert 0 == await first.service.wait()
        assert took < RELEASE_SECONDS

    async def test_slow(self, scene: Scene, pair: tuple[Controller, Controller, Gate]) -> None:
        """
        A leader that cannot renew its lease, and whose other requests take as long as they may, begins none so late
        that the server would see it after the first write of the next.
        """
        first, second, gate = pair
        gate.refuse(503, path="/leases/")
        gate.delay_seconds = DEADLINE_SECONDS - 0.2
        await asyncio.sleep(LATE_SECONDS - await _lease_age(scene))
        scene.cluster.kubelets.sicken("a", "CrashLoopBackOff")
        await _leads(second, timeout_seconds=TAKEOVER_SECONDS)
        await scene.cluster.node_told("a", "False")
        # What the first has sent may still be on its way.
        await asyncio.sleep(gate.delay_seconds + 1.0)
        scene.cluster.kubelets.heal("a")
        await scene.cluster.node_told("a", "True")

        assert [] == _late(scene, first, second)

    async def test_slow_server(self, scene: Scene, pair: tuple[Controller, Controller, Gate]) -> None:
        """
        A leader whose every request takes 5 s goes on leading and writing.
        """
        first, second, gate = pair
        gate.delay_seconds = 5.0
        await asyncio.sleep(LEASE_SECONDS)
        scene.cluster.kubelets.sicken("a", "CrashLoopBackOff")
        await scene.cluster.node_told("a", "False", timeout_seconds=20.0)
        gate.relent()

        assert [1.0, 0.0] == [await each.metric(LEADER) for each in (first, second)]
        assert [] == _writes(scene, second)

    async def test_lease_deleted(self, scene: Scene, pair: tuple[Controller, Controller, Gate]) -> None:
        """
        A Lease that somebody deletes is made again by the leader, and never by the other.
        """
        first, second, _ = pair

        async def has_looked() -> bool:
            return any(call.right.resource == "leases" for call in scene.calls(second))

        await scene.cluster.until(has_looked, what="the other to see who leads")
        await scene.cluster.objects.delete(LEASE_PATH)

        async def is_there() -> bool:
            return await scene.cluster.objects.get(LEASE_PATH) is not None

        await scene.cluster.until(is_there, what="another Lease")
        await asyncio.sleep(5.0)

        assert [1.0, 0.0] == [await each.metric(LEADER) for each in (first, second)]
        assert [] == _writes(scene, second)


def _writes(scene: Scene, controller: Controller) -> list[Call]:
    """
    What a controller has written; what it was refused as a standby is no write.
    """
    return [call for call in scene.calls(controller) if call.is_write and call.code < 400]


def _late(scene: Scene, old: Controller, new: Controller) -> list[str]:
    """
    List what a controller has written after the one that followed it began to.
    """
    taken = min(call.at for call in _writes(scene, new))
    return [str(call.right) for call in _writes(scene, old) if call.at > taken]


async def _lease_age(scene: Scene) -> float:
    """
    Tell how many seconds ago the lease was renewed.
    """
    lease = await scene.cluster.objects.get(LEASE_PATH) or {}
    renewed = datetime.fromisoformat(lease["spec"]["renewTime"])
    return (datetime.now(UTC) - renewed).total_seconds()


async def _leads(controller: Controller, *, timeout_seconds: float = TAKEOVER_SECONDS) -> None:
    async def leads() -> bool:
        try:
            return await controller.metric(LEADER) == 1.0
        except OSError:
            return False

    await waiting.until_awaited(
        leads, what="the controller to lead", timeout_seconds=timeout_seconds, details=controller.service.output
    )
