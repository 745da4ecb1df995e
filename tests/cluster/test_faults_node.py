"""
Faults of fractiond and of the runtime under it, while fractional pods run and new ones come.

Each row of the README's fault table is one test here or in another `test_faults_*.py`; `clusterlab.faults` says what is
measured and how. The runtime has no validator (containerd's default), so that a container whose creation fractiond does
not see starts unfenced: that is the detection window. Driver and GPUs are simulated.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta

from apilab.helm import NAMESPACE, RELEASE
from clusterlab import faults, processes, sabotage, smallrun, wallclock
from clusterlab.release import DAEMONSETS, FRACTIOND, PODS, Release
from clusterlab.worker import CONTAINERD
from lab import waiting

WORKER = "gpu-1"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
# As many as meet the runtime at once.
CROWD = 4
CONTAINERD_AWAY_SECONDS = 5
# The runtime gives a plugin 2 s for an answer, and the kubelet restarts one that does not answer its probes after 60 s.
STALL_SECONDS = 12
FULL_SECONDS = 15
DAY_SECONDS = 86400
DAY_LASTS_SECONDS = 15
NEXT_TAG = "next"


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """
    Let a process stand still while entered.
    """
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def fractiond(release: Release) -> int:
    """
    Give fractiond's process on the worker.
    """
    (pid,) = processes.running(release.cluster.worker(WORKER), "fractiond")
    return pid


async def replaced(release: Release, node: str) -> None:
    """
    Have a new pod of fractiond's on a node: the kubelet lets a container wait that has ended before.
    """
    for pod in await release.pods(FRACTIOND, node=node):
        await release.api.delete(f"{PODS}/{pod['metadata']['name']}")
        await release.api.until_gone(f"{PODS}/{pod['metadata']['name']}", timeout_seconds=60)
    await release.steady()


async def tells_tomorrow(release: Release) -> None:
    """
    Wait until controller and fractiond write times of tomorrow.
    """
    tomorrow = f"{datetime.now(UTC) + timedelta(seconds=DAY_SECONDS):%Y-%m-%dT}"

    async def both() -> bool:
        leases = await release.api.list(LEASES)
        pods = [pod["metadata"]["name"] for pod in await release.pods(FRACTIOND)]
        logs = [await release.api.text(f"{PODS}/{pod}/log", container="fractiond", tailLines="1") for pod in pods]
        return tomorrow in leases[0]["spec"]["renewTime"] and all(f'"time": "{tomorrow}' in log for log in logs)

    await waiting.until_awaited(both, what=f"the product to write {tomorrow}", timeout_seconds=60)


@asynccontextmanager
async def next_image(release: Release) -> AsyncIterator[str]:
    """
    Have fractiond's image under another tag on every worker while entered; gives its own tag.
    """
    template = (await release.daemonset(FRACTIOND))["spec"]["template"]["spec"]
    (image,) = [each["image"] for each in template["containers"] if each["name"] == "fractiond"]
    repository, _, tag = image.rpartition(":")
    async with AsyncExitStack() as stack:
        for node in release.gpu_nodes():
            worker = release.cluster.worker(node)
            await stack.enter_async_context(sabotage.tagged(worker, image, f"{repository}:{NEXT_TAG}"))
        yield tag


async def has_image(release: Release, tag: str) -> None:
    """
    Wait until the template of fractiond's DaemonSet has an image of this tag.
    """
    await release.api.until(
        f"{DAEMONSETS}/{FRACTIOND}",
        lambda found: any(
            each["name"] == "fractiond" and each["image"].endswith(f":{tag}")
            for each in found["spec"]["template"]["spec"]["containers"]
        ),
        what=f"{FRACTIOND} to have the tag {tag}",
        timeout_seconds=120,
    )


class TestRuntime:
    async def test_containerd_restart(self, release: Release) -> None:
        """
        A containerd that is killed and comes back finds every container, fence and record as they were.
        """
        worker = release.cluster.worker(WORKER)
        what = f"containerd of one worker is killed, and started {CONTAINERD_AWAY_SECONDS} s later"
        async with faults.suffered(release, name="containerd restart", what=what) as scene:
            worker.hold(CONTAINERD)
            os.kill(worker.pid_of(CONTAINERD), signal.SIGKILL)
            # They wait for it, and meet it before fractiond does.
            await scene.crowd(WORKER, CROWD)
            await asyncio.sleep(CONTAINERD_AWAY_SECONDS)
            worker.release(CONTAINERD)
            await worker.containerd_answers()

        assert scene.outcome.holds, scene.outcome
        assert 0 == scene.outcome.tenants_ended

    async def test_run_is_full(self, release: Release) -> None:
        """
        On a worker whose /run is full nothing starts and nothing ends; with space again, all that was refused runs.
        """
        what = f"no space on one worker's /run for {FULL_SECONDS} s"
        async with smallrun.on(release, WORKER) as run:
            async with faults.suffered(release, name="disk full on /run", what=what) as scene:
                with run.filled():
                    made = await scene.crowd(WORKER, CROWD)
                    await asyncio.sleep(FULL_SECONDS)
                    started = made & scene.witness.fenced_pods()

        assert scene.outcome.holds, scene.outcome
        assert (0, 0) == (scene.outcome.tenants_ended, scene.outcome.unfenced_containers)
        assert set() == started


class TestFractiond:
    async def test_killed(self, release: Release) -> None:
        """
        What starts unfenced while a killed fractiond is away is stopped once it is back, and nothing else is.
        """
        await replaced(release, WORKER)
        what = "fractiond of one worker is killed, and started again at once by the kubelet"
        async with faults.suffered(release, name="fractiond killed", what=what) as scene:
            await scene.crowd(WORKER, CROWD)
            await asyncio.sleep(0.5)
            os.kill(fractiond(release), signal.SIGKILL)
            await scene.crowd(WORKER, CROWD)

        assert scene.outcome.holds, scene.outcome
        assert 0 == scene.outcome.tenants_ended

    async def test_killed_again(self, release: Release) -> None:
        """
        The same holds for one that is killed soon after, which the kubelet lets wait.
        """
        await replaced(release, WORKER)
        before = await release.restarts(FRACTIOND, node=WORKER)
        os.kill(fractiond(release), signal.SIGKILL)
        await release.restarted(FRACTIOND, node=WORKER, more_than=before)
        await release.steady()
        what = "fractiond is killed again; the kubelet waits 10 s before it starts it"
        async with faults.suffered(release, name="fractiond killed twice", what=what) as scene:
            os.kill(fractiond(release), signal.SIGKILL)

        assert scene.outcome.holds, scene.outcome
        assert 0 == scene.outcome.tenants_ended

    async def test_stalled(self, release: Release) -> None:
        """
        What starts unfenced while fractiond hangs, for longer than the runtime waits, is stopped once it goes on.
        """
        what = f"fractiond of one worker hangs for {STALL_SECONDS} s, of which the runtime waits 2 s"
        async with faults.suffered(release, name="fractiond stalled", what=what) as scene:
            with stopped(fractiond(release)):
                await asyncio.sleep(STALL_SECONDS)

        assert scene.outcome.holds, scene.outcome
        assert 0 == scene.outcome.tenants_ended
        assert scene.outcome.unfenced_containers > 0, "none slipped through: the test proves nothing"

    async def test_evicted(self, release: Release) -> None:
        """
        A fractiond whose pod is evicted comes back as another pod, and the same holds.
        """
        what = "fractiond's pod on one worker is evicted through the API"
        (pod,) = await release.pods(FRACTIOND, node=WORKER)
        path = f"{PODS}/{pod['metadata']['name']}"
        async with faults.suffered(release, name="fractiond evicted", what=what) as scene:
            await release.api.create(f"{path}/eviction", {"metadata": {"name": pod["metadata"]["name"]}})
            scene.over()
            await scene.crowd(WORKER, CROWD)
            await release.api.until_gone(path, timeout_seconds=60)

        assert scene.outcome.holds, scene.outcome
        assert 0 == scene.outcome.tenants_ended

    async def test_upgraded_and_downgraded(self, release: Release) -> None:
        """
        Through an upgrade to another image and the way back tenants go on, and what slips through is stopped.
        """
        helm = release.helm()
        (now,) = json.loads(await helm.run("history", RELEASE, "--max=1", "--output=json"))
        async with next_image(release) as tag:
            try:
                what = "helm upgrade to another tag of the same fractiond; counted from its call"
                async with faults.suffered(release, name="fractiond upgraded", what=what) as up:
                    up.over()
                    await helm.upgrade(None, f"--set=images.fractiond.tag={NEXT_TAG}")
                    await has_image(release, NEXT_TAG)
                what = "helm rollback of that; counted from its call"
                async with faults.suffered(release, name="fractiond downgraded", what=what) as down:
                    down.over()
                    await helm.rollback(now["revision"])
                    await has_image(release, tag)
            except BaseException:
                await helm.rollback(now["revision"])
                raise

        assert (True, True) == (up.outcome.holds, down.outcome.holds), (up.outcome, down.outcome)
        assert (0, 0) == (up.outcome.tenants_ended, down.outcome.tenants_ended)

    async def test_clock_jump(self, release: Release) -> None:
        """
        Nothing hangs on the wall clock: a day ahead, and a day back, nobody notices.
        """
        what = f"the wall clock of all daemons and the controller is a day ahead for {DAY_LASTS_SECONDS} s"
        async with wallclock.movable(release) as clock:
            async with faults.suffered(release, name="clock jump", what=what) as scene:
                clock.move(DAY_SECONDS)
                await tells_tomorrow(release)
                await asyncio.sleep(DAY_LASTS_SECONDS)
                clock.move(0)

        assert scene.outcome.holds, scene.outcome
        assert (0, 0) == (scene.outcome.tenants_ended, scene.outcome.unfenced_containers)
