"""
Two controllers, of which one leads.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio
from apilab.audit import Call
from apilab.controller import Controller
from apilab.gate import Gate
from apilab.scene import Scene
from lab import waiting

pytestmark = pytest.mark.asyncio(loop_scope="session")

CANDIDATE = ("--leader-elect=true",)
LEASE_SECONDS = 15.0
TAKEOVER_SECONDS = LEASE_SECONDS + 5.0
RELEASE_SECONDS = 3.0
LEADER = "gpu_fractioning_controller_leader"


@pytest_asyncio.fixture(loop_scope="session")
async def pair(scene: Scene) -> AsyncIterator[tuple[Controller, Controller, Gate]]:
    """
    A leader behind a gate, and its standby.
    """
    lease = "/apis/coordination.k8s.io/v1/namespaces/gpu-fractioning/leases/gpu-fractioning.kai.scheduler"
    await scene.cluster.objects.delete(lease)
    await scene.cluster.add_node("a")
    await scene.cluster.create_config(scene.spec)
    async with AsyncExitStack() as stack:
        gate = await stack.enter_async_context(Gate(scene.cluster.plane))
        first = await stack.enter_async_context(scene.controller(url=gate.url, flags=CANDIDATE))
        await _leads(first)
        second = await stack.enter_async_context(scene.controller(flags=CANDIDATE))
        await second.ready()
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
        When the leader dies without a word, the other leads before the lease and 5 s are over.
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
        A leader whose every request takes 8 s ends, and what it asked for last came before the first write of the next.
        """
        first, second, gate = pair
        gate.delay_seconds = 8.0
        scene.cluster.kubelets.sicken("a", "CrashLoopBackOff")
        await _leads(second, timeout_seconds=2 * TAKEOVER_SECONDS)
        await scene.cluster.node_told("a", "False")
        # What the first has sent may still be on its way.
        await asyncio.sleep(gate.delay_seconds + 1.0)
        scene.cluster.kubelets.heal("a")
        await scene.cluster.node_told("a", "True")

        old, new = _writes(scene, first), _writes(scene, second)
        taken = min(call.at for call in new if call.right.resource == "leases")
        assert [] == [str(call.right) for call in old if call.at > taken and call.code < 400]


def _writes(scene: Scene, controller: Controller) -> list[Call]:
    """
    What a controller has written; what it was refused as a standby is no write.
    """
    return [call for call in scene.calls(controller) if call.is_write and call.code < 400]


async def _leads(controller: Controller, *, timeout_seconds: float = TAKEOVER_SECONDS) -> None:
    async def leads() -> bool:
        try:
            return await controller.metric(LEADER) == 1.0
        except OSError:
            return False

    await waiting.until_awaited(
        leads, what="the controller to lead", timeout_seconds=timeout_seconds, details=controller.service.output
    )
