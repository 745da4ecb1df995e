"""
Faults of mpsd, the driver, the API server and nodes, while fractional pods run and new ones come.

Each row of the README's fault table is one test here or in another `test_faults_*.py`; `clusterlab.faults` says what is
measured and how. GPUs and driver are simulated, and tenants' programs are no clients of MPS: what the end of a control
daemon does to those of a real GPU is not seen here.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import ExitStack

from clusterlab import client, faults, processes, sabotage
from clusterlab.client import NODES
from clusterlab.faults import TENANTS_PER_WORKER, Scene
from clusterlab.placement import NODE_CONDITION
from clusterlab.release import FRACTIOND, MPSD, Release
from clusterlab.worker import RunningWorker
from fractioning_core import names
from lab import waiting

WORKER, OTHER = "gpu-1", "gpu-2"
SECONDS = 60.0
# mpsd waits 5, 10 and 20 s after these.
CRASHES = 3
# No wait of the product's is longer than 60 s: mpsd's with the node's label, fractiond's with the runtime.
OUTAGE_SECONDS = 75.0
UNKNOWN_ERROR = 999
UPGRADED = "616.10.01"


async def kill(worker: RunningWorker, service: str) -> None:
    """
    Kill one of the product's services on a worker.
    """
    os.kill(await processes.only(worker, service), signal.SIGKILL)


def records(worker: RunningWorker) -> set[str]:
    """
    List the containers that have a record.
    """
    return {path.stem for path in (worker.files.run / "gpu-fractioning" / "map").glob("*.json")}


async def fenced_again(scene: Scene, pod: str, former: set[str]) -> None:
    """
    Wait until a container of a pod runs fenced that is none of the former ones.
    """

    def is_there() -> bool:
        return any(scene.witness.pod_of(each) == pod for each in scene.witness.journal.fenced() - former)

    await waiting.until(is_there, what=f"{pod} to run fenced again", timeout_seconds=SECONDS)


async def gone_from(release: Release, node: str) -> None:
    """
    Wait until no daemon is on a node any more, and nothing says that fractions are enforced there.
    """

    async def is_gone() -> bool:
        # Not the controller: it may well be there, and stays.
        return not [pod for name in (FRACTIOND, MPSD) for pod in await release.pods(name, node=node)]

    await waiting.until_awaited(is_gone, what=f"no daemon on {node}", timeout_seconds=SECONDS)
    await release.api.until(
        f"{NODES}/{node}",
        lambda one: client.condition(one, NODE_CONDITION) is None,
        what=f"no {NODE_CONDITION} on {node}",
        timeout_seconds=SECONDS,
    )


class TestMpsd:
    async def test_killed(self, release: Release) -> None:
        """
        An mpsd that is killed comes back with a control daemon, and no fence has hung on it.
        """
        before = await release.restarts(MPSD, node=WORKER)
        what = "mpsd of one worker is killed, and its control daemon with it"
        async with faults.suffered(release, name="mpsd killed", what=what) as scene:
            await kill(release.cluster.worker(WORKER), "mpsd")
            scene.over()
            await release.restarted(MPSD, node=WORKER, more_than=before)

        assert scene.outcome.holds, scene.outcome
        assert 0 == scene.outcome.tenants_ended

    async def test_crash_loop(self, release: Release) -> None:
        """
        A control daemon that dies at every start takes its node out of use, and neither mpsd nor a fence with it.
        """
        worker = release.cluster.worker(WORKER)
        before = await release.restarts(MPSD, node=WORKER)
        what = f"the control daemon of one worker is killed at each of {CRASHES} starts"
        async with faults.suffered(release, name="control daemon in a crash loop", what=what) as scene:
            former = await processes.kill_control_daemon(worker)
            for _ in range(CRASHES - 1):
                former = await processes.another_control_daemon(worker, former)
                os.kill(former, signal.SIGKILL)
            scene.over()
            await release.node_is(WORKER, "False")
            await release.condition_is("MpsdReady", "False")
            await release.node_is(OTHER, "True", timeout_seconds=0)

        assert scene.outcome.holds, scene.outcome
        assert 0 == scene.outcome.tenants_ended
        assert before == await release.restarts(MPSD, node=WORKER)


class TestDriver:
    async def test_nvml_lost(self, release: Release) -> None:
        """
        An NVML that fails takes its node out of use with its own words, and neither the control daemon nor a fence.
        """
        worker = release.cluster.worker(WORKER)
        before = processes.control_daemons(worker)
        what = "every NVML call on one worker fails, then says that the driver is not loaded"
        async with faults.suffered(release, name="NVML lost", what=what) as scene:
            with sabotage.driver_says(worker, error=UNKNOWN_ERROR):
                await sabotage.node_says(release, WORKER, "UNKNOWN (999)")
            with sabotage.driver_says(worker, driver=""):
                await sabotage.node_says(release, WORKER, "DRIVER_NOT_LOADED")
            scene.over()

        assert scene.outcome.holds, scene.outcome
        assert 0 == scene.outcome.tenants_ended
        assert before == processes.control_daemons(worker)

    async def test_upgrade(self, release: Release) -> None:
        """
        The daemons leave a node for the upgrade of its driver and come back after it; tenants are the GPU Operator's to
        drain, and one that it leaves there keeps its fence and its record.
        """
        worker = release.cluster.worker(WORKER)
        what = "the driver of one worker is upgraded as by the GPU Operator, but tenants stay"
        with ExitStack() as afterwards:
            async with (
                faults.suffered(release, name="driver upgrade", what=what) as scene,
                sabotage.under_upgrade(release.api, WORKER) as labels,
            ):
                fenced = scene.witness.journal.fenced()
                await labels.move("cordon-required")
                await labels.move("pod-restart-required", client=sabotage.PAUSED)
                upgrading = await release.condition_is("DriverUpgradeInProgress", "True")
                await gone_from(release, WORKER)
                afterwards.enter_context(sabotage.driver_says(worker, driver=UPGRADED))
                await labels.move("validation-required")
                await labels.move("uncordon-required", is_cordoned=False)
                await release.node_is(OTHER, "True", timeout_seconds=0)
                assert fenced <= scene.witness.journal.fenced()
                scene.over()
                await labels.move("upgrade-done", is_cordoned=False)
                await release.api.until(
                    f"{NODES}/{WORKER}",
                    lambda one: one["metadata"]["labels"][names.DRIVER_LABEL] == UPGRADED.partition(".")[0],
                    what=f"the label of {UPGRADED}",
                    timeout_seconds=SECONDS,
                )

        assert upgrading["message"].endswith(f"its managed daemons are drained: {WORKER}")
        assert scene.outcome.holds, scene.outcome
        assert 0 == scene.outcome.tenants_ended


class TestControlPlane:
    async def test_api_server_gone(self, release: Release) -> None:
        """
        With no API server, for longer than any back-off lasts, fractiond and tenants start again on their node, fenced.

        How long the recovery takes is up to the kubelets, which see new pods within a minute after the outage.
        """
        worker = release.cluster.worker(WORKER)
        alone, together = f"tenant-{WORKER}-0", f"tenant-{WORKER}-1"
        what = f"no API server for {OUTAGE_SECONDS:g} s, in which fractiond and two tenants of one worker are killed"
        async with faults.suffered(release, name="API server gone", what=what) as scene:
            before = scene.witness.journal.fenced()
            async with sabotage.without_server(release.cluster):
                ends = asyncio.get_running_loop().time() + OUTAGE_SECONDS
                await kill(worker, "fractiond")
                await sabotage.kill_tenant(worker, together)
                await fenced_again(scene, together, before)
                await sabotage.kill_tenant(worker, alone)
                await fenced_again(scene, alone, before)
                await asyncio.sleep(ends - asyncio.get_running_loop().time())
                scene.over()
            await release.cluster.plane.serves()

        assert scene.outcome.holds, scene.outcome
        assert 2 == scene.outcome.tenants_ended


class TestNode:
    async def test_reboot(self, release: Release) -> None:
        """
        A node that loses its power comes back with its pods fenced, and with no record of what ran before.
        """
        worker = release.cluster.worker(WORKER)
        before = await release.restarts(MPSD, node=WORKER)
        what = "one worker loses power: all of its processes and /run; its disk stays"
        async with faults.suffered(release, name="node reboot", what=what) as scene:
            # A record comes a moment after the start that it tells of.
            former = await waiting.until(
                lambda: found if len(found := records(worker)) >= TENANTS_PER_WORKER else None,
                what="the tenants' records",
                timeout_seconds=SECONDS,
            )
            await worker.stop()
            scene.over()
            await release.cluster.start_worker(WORKER)
            await release.restarted(MPSD, node=WORKER, more_than=before)
            await release.steady()
            there = records(worker)

        assert there
        assert set() == former & there
        assert scene.outcome.holds, scene.outcome
        assert TENANTS_PER_WORKER == scene.outcome.tenants_ended
