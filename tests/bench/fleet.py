"""
What the controller costs on clusters of 50, 500 and 5,000 nodes, and how fast it is there, beside a Go peer.

    scripts/bench controller            the table on standard output
    scripts/bench controller --write    the table into the README as well
    scripts/bench controller --quick    50 nodes for some seconds, to see that it works

A real API server and etcd; nodes and pods are posted, with nobody behind them. The peer (tests/bench/controller) comes
after the controller on each cluster, and writes a condition of its own. Ends with 1 where a bar is not met.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import attrs
import commandline
import fleetpeer
import machine
import readme
from apilab import audit
from apilab.cluster import CONFIGS, NODE_CONDITION, NODES
from apilab.controller import LOCAL_FLAGS, Controller
from apilab.controlplane import ControlPlane
from apilab.helm import Helm, find
from fleettable import Effort, Figures, PeerFigures, holds, render
from fractioning_core import resource
from fractioning_core.kube.objects import Objects
from fractioning_core.kube.transport import Request, Transport
from hollowfleet import HEARTBEAT_SECONDS, Fleet, node_name
from lab import waiting
from lab.process import Service

SIZES = (50, 500, 5000)
MARKERS = "controller bench"
_START_SECONDS = 300.0
_SETTLE_SECONDS = 5.0
# The page of a list whose objects are thrown away at once.
_PAGE = "250"
_API_FLAGS = ("--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000", "--event-ttl=5m")


async def measure(size: int, effort: Effort) -> Figures:
    """
    Measure on a cluster of its own.
    """
    with tempfile.TemporaryDirectory() as name:
        async with ControlPlane(flags=_API_FLAGS) as plane, plane.admin() as admin:
            bench = await Bench.make(plane, admin, Path(name), size)
            figures = await bench.run(effort)
            return attrs.evolve(figures, peer=await bench.run_peer(effort))


@attrs.frozen
class Bench:
    """
    One cluster, and the controller on it.
    """

    plane: ControlPlane
    admin: Transport
    directory: Path
    fleet: Fleet
    deployment: object

    @classmethod
    async def make(cls, plane: ControlPlane, admin: Transport, directory: Path, size: int) -> Bench:
        """
        Install the chart, let the controller make its DaemonSets, and post nodes and pods while it is away.
        """
        helm = Helm(plane.kubeconfig, directory=directory)
        await helm.install({"crdUpgrader": {"enabled": False}})
        deployment = find(await helm.manifest(), "Deployment")
        bench = cls(plane, admin, directory, Fleet(admin, size), deployment)
        async with await bench.controller():
            await bench.is_ready()
        say(f"{size} nodes: posting them and their pods")
        await bench.fleet.make()
        return bench

    async def controller(self) -> Controller:
        """
        Give a controller to enter.
        """
        return await Controller.of(
            self.deployment,  # type: ignore[arg-type]
            plane=self.plane,
            admin=self.admin,
            directory=self.directory,
            flags=LOCAL_FLAGS,
        )

    async def run(self, effort: Effort) -> Figures:
        """
        Measure.
        """
        loop = asyncio.get_running_loop()
        say(f"{self.fleet.size} nodes: first start")
        begun = loop.time()
        async with await self.controller() as controller:
            await self.all_told(NODE_CONDITION)
            await self.is_ready()
            first = loop.time() - begun
            first_peak = _peak_rss_mib(controller.service.pid)
        begun = loop.time()
        async with await self.controller() as controller:
            await controller.ready(timeout_seconds=_START_SECONDS)
            restart = loop.time() - begun
            await asyncio.sleep(_SETTLE_SECONDS)
            say(f"{self.fleet.size} nodes: {effort.steady_seconds:g} s without and with heartbeats")
            since = audit.size(self.plane.audit_log)
            idle = await self._percent(controller.service, asyncio.sleep(effort.steady_seconds))
            beating = await self._percent(controller.service, self._beat(effort.beating_seconds_of(self.fleet.size)))
            writes = sum(call.is_write for call in audit.read(self.plane.audit_log, since=since))
            changes, requests = await self._changes(NODE_CONDITION, effort.changes)
            peak = max(first_peak, _peak_rss_mib(controller.service.pid))
        return Figures(
            nodes=self.fleet.size,
            first_ready_seconds=first,
            restart_seconds=restart,
            steady_writes=writes,
            idle_percent=idle,
            beating_percent=beating,
            change_seconds=changes,
            requests_per_change=requests,
            peak_rss_mib=peak,
        )

    async def run_peer(self, effort: Effort) -> PeerFigures:
        """
        Measure the same of the peer, as far as it can be compared.
        """
        loop = asyncio.get_running_loop()
        say(f"{self.fleet.size} nodes: the peer")
        service = await fleetpeer.prepare(self.plane, self.admin, self.directory)
        begun = loop.time()
        async with service as peer:
            await self.all_told(fleetpeer.CONDITION)
            first = loop.time() - begun
            await asyncio.sleep(_SETTLE_SECONDS)
            beating = await self._percent(peer, self._beat(effort.steady_seconds))
            changes, requests = await self._changes(fleetpeer.CONDITION, effort.peer_changes)
            peak = _peak_rss_mib(peer.pid)
        return PeerFigures(
            first_told_seconds=first,
            beating_percent=beating,
            change_seconds=changes,
            requests_per_change=requests,
            peak_rss_mib=peak,
        )

    async def is_ready(self) -> None:
        """
        Wait until the resource is ready.
        """

        async def ask() -> bool:
            config = await self._objects.get(CONFIGS.item_path(resource.NAME)) or {}
            conditions = config.get("status", {}).get("conditions", ())
            return ("Ready", "True") in [(each["type"], each["status"]) for each in conditions]

        await _until(ask, "Ready True")

    async def all_told(self, kind: str) -> None:
        """
        Wait until every node has the condition; looks at the last ones first, and lists only then.
        """

        async def last() -> bool:
            return await self._node_status(self.fleet.size - 1, kind) == "True"

        async def every() -> bool:
            return await self._told_nodes(kind) == self.fleet.size

        await _until(last, "the condition on the last node", pause_seconds=0.1)
        await _until(every, "the condition on every node", pause_seconds=0.5)

    async def _changes(self, kind: str, count: int) -> tuple[tuple[float, ...], float]:
        """
        Let pods fail and recover; gives how long each took to be seen on its node, and the requests for each.
        """
        since = audit.size(self.plane.audit_log)
        took = [
            await self._seen(number % self.fleet.size, kind, is_ready=is_ready)
            for number in range(count)
            for is_ready in (False, True)
        ]
        await asyncio.sleep(_SETTLE_SECONDS)
        return tuple(took), len(audit.read(self.plane.audit_log, since=since)) / len(took)

    async def _seen(self, number: int, kind: str, *, is_ready: bool) -> float:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await self.fleet.set_ready(number, is_ready=is_ready)

        async def ask() -> bool:
            return await self._node_status(number, kind) == str(is_ready)

        await _until(ask, f"{is_ready} on node {number}")
        took = loop.time() - begun
        # Each change for itself: one that comes while the last is being dealt with waits its turn.
        await asyncio.sleep(1.0)
        return took

    async def _beat(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        begun, beats = loop.time(), 0
        while loop.time() - begun < seconds:
            await self.fleet.heartbeat(beats % self.fleet.size)
            beats += 1
            await asyncio.sleep(max(0.0, begun + beats * HEARTBEAT_SECONDS / self.fleet.size - loop.time()))

    async def _percent(self, service: Service, meanwhile: Awaitable[None]) -> float:
        loop = asyncio.get_running_loop()
        begun, before = loop.time(), service.usage().cpu_seconds
        await meanwhile
        return (service.usage().cpu_seconds - before) / (loop.time() - begun) * 100

    async def _node_status(self, number: int, kind: str) -> str:
        node = await self._objects.get(NODES.item_path(node_name(number))) or {}
        return _status(node, kind)

    async def _told_nodes(self, kind: str) -> int:
        told, token = 0, ""
        while True:
            page = await self.admin.ask(Request("GET", NODES.path, query={"limit": _PAGE, "continue": token}))
            told += sum(_status(node, kind) == "True" for node in page["items"])
            token = page["metadata"].get("continue", "")
            if not token:
                return told

    @property
    def _objects(self) -> Objects:
        return Objects(self.admin, field_manager="bench")


def _status(node: object, kind: str) -> str:
    conditions = node.get("status", {}).get("conditions", ()) if isinstance(node, dict) else ()
    return next((each["status"] for each in conditions if each["type"] == kind), "")


def _peak_rss_mib(pid: int) -> float:
    """
    Read the most memory that a process has had.
    """
    lines = (Path("/proc") / str(pid) / "status").read_text().splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(peak) / 1024


async def _until(ask: Callable[[], Awaitable[bool]], what: str, *, pause_seconds: float = 0.01) -> None:
    async def ask_slowly() -> bool:
        answer = await ask()
        if not answer:
            await asyncio.sleep(pause_seconds)
        return answer

    await waiting.until_awaited(ask_slowly, what=what, timeout_seconds=_START_SECONDS)


def say(text: str) -> None:
    """
    Tell what is under way, beside the table.
    """
    print(text, file=sys.stderr, flush=True)


async def measure_all(effort: Effort) -> list[Figures]:
    """
    Measure on one cluster after the other.
    """
    return [await measure(size, effort) for size in effort.sizes]


def main() -> int:
    """
    Measure and tell.
    """
    asked = commandline.parse(
        "controller", "what the controller costs", quick="50 nodes for some seconds, to see that it works"
    )
    effort = Effort(SIZES[:1], 5.0, 5.0, 3, 1) if asked.quick else Effort(SIZES, 60.0, 600.0, 20, 5)
    load = machine.load()
    results = asyncio.run(measure_all(effort))
    section = render(results, effort, load=load)
    print(section)
    if asked.write:
        readme.write(MARKERS, section)
    return 0 if all(map(holds, results)) else 1


if __name__ == "__main__":
    sys.exit(main())
