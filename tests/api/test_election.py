"""Two candidates for one Lease on a real API server."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any, Self

import attrs
import pytest_asyncio
from apilab.controlplane import ControlPlane
from apilab.gate import Gate
from fractioning_core.kube import timestamps
from fractioning_core.kube.election import Election
from fractioning_core.kube.errors import LeaseLost
from fractioning_core.kube.lease import LEASES
from fractioning_core.kube.transport import Request, Transport
from lab import waiting

# One lease, a failed renewal, and what a busy machine adds.
SECONDS = 60.0

_numbers = itertools.count()


@attrs.define(eq=False)
class Candidate:
    """
    An election behind a gate of its own.
    """

    gate: Gate
    election: Election
    task: asyncio.Task[None]

    async def leave(self) -> None:
        """
        End it in order.
        """
        self.task.cancel()
        await asyncio.wait([self.task])
        await self.election.__aexit__(None, None, None)


@attrs.define(eq=False)
class Scene:
    """
    A namespace with a lease.
    """

    plane: ControlPlane
    admin: Transport
    namespace: str
    _stack: AsyncExitStack = attrs.field(factory=AsyncExitStack)

    async def __aenter__(self) -> Self:
        await self.admin.ask(Request("POST", "/api/v1/namespaces", body={"metadata": {"name": self.namespace}}))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def candidate(self, identity: str) -> Candidate:
        """
        Let one more stand.
        """
        gate = await self._stack.enter_async_context(Gate(self.plane))
        api = await self._stack.enter_async_context(self.plane.admin(url=gate.url))
        election = Election(
            api,
            namespace=self.namespace,
            name="controller",
            identity=identity,
            changed=lambda: None,
            utcnow=timestamps.utcnow,
        )
        task = asyncio.create_task(election.run())
        self._stack.push_async_callback(_ended, task)
        return Candidate(gate, election, task)

    async def record(self) -> Mapping[str, Any]:
        """
        Read what the Lease says.
        """
        path = LEASES.within(self.namespace).item_path("controller")
        spec: Mapping[str, Any] = (await self.admin.ask(Request("GET", path)))["spec"]
        return spec


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


async def leads(candidate: Candidate) -> None:
    """
    Wait until a candidate leads.
    """
    await waiting.until(
        lambda: candidate.election.is_leader, what=f"{candidate.election.identity} to lead", timeout_seconds=SECONDS
    )


@pytest_asyncio.fixture
async def scene(plane: ControlPlane, admin: Transport) -> AsyncIterator[Scene]:
    async with Scene(plane, admin, f"election-{next(_numbers)}") as scene:
        yield scene


class TestElection:
    """
    Who leads.
    """

    async def test_renewed(self, scene: Scene) -> None:
        """
        The first leads and renews; the second waits.
        """
        first = await scene.candidate("first")
        await leads(first)
        second = await scene.candidate("second")
        before = await scene.record()

        async def is_renewed() -> bool:
            return bool((await scene.record())["renewTime"] > before["renewTime"])

        await waiting.until_awaited(is_renewed, what="a renewal", timeout_seconds=SECONDS)
        await waiting.until(
            lambda: second.election.holder == "first", what="the second to look", timeout_seconds=SECONDS
        )

        assert (True, False) == (first.election.may_write(), second.election.is_leader)

    async def test_released(self, scene: Scene) -> None:
        """
        When the leader leaves in order, the second leads within 3 s.
        """
        first = await scene.candidate("first")
        await leads(first)
        second = await scene.candidate("second")
        await waiting.until(lambda: second.election.holder != "", what="the second to look", timeout_seconds=SECONDS)
        started = asyncio.get_running_loop().time()
        await first.leave()
        await leads(second)
        seconds = asyncio.get_running_loop().time() - started
        record = await scene.record()

        assert ("second", 1) == (record["holderIdentity"], record["leaseTransitions"])
        assert seconds < 3.0

    async def test_slow_leader(self, scene: Scene) -> None:
        """
        A leader whose calls all take 12 s gives up, and may write at no time at which the other leads.
        """
        first = await scene.candidate("first")
        await leads(first)
        second = await scene.candidate("second")
        first.gate.delay_seconds = 12.0
        overlaps = 0

        def has_changed_hands() -> bool:
            nonlocal overlaps
            if second.election.is_leader:
                overlaps += first.election.may_write()
                return first.task.done()
            return False

        await waiting.until(has_changed_hands, what="another leader", timeout_seconds=SECONDS)

        assert (0, LeaseLost) == (overlaps, type(first.task.exception()))
        assert "second" == (await scene.record())["holderIdentity"]
