"""What the other tests in this folder rely on, and what `scripts/cluster` promises."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from clusterlab import pods as pods_of
from clusterlab import processes
from clusterlab.cluster import Cluster
from clusterlab.errors import AlreadyUp, NotUp
from clusterlab.layout import Layout
from clusterlab.pods import Container, Pods
from clusterlab.worker import CONTAINERD
from clusterlab.workers import WORKERS
from lab import sweep


@pytest_asyncio.fixture
async def other(tmp_path: Path) -> AsyncIterator[Cluster]:
    """
    A second cluster beside the one of the run, with a single worker, that is not up yet.
    """
    other = Cluster(Layout(tmp_path / "other"), workers=WORKERS[:1])
    yield other
    await other.down()


class TestUpAndDown:
    async def test_leaves_nothing(self, other: Cluster) -> None:
        """
        A cluster that was up leaves no process, mount, cgroup or file.
        """
        await other.up()
        kinds = {each.split()[0] for each in other.remains()}
        await other.down()

        assert {"process", "cgroup", "directory"} == kinds
        assert [] == other.remains()
        assert [] == sweep.cgroup_directories(other.layout.cgroup(WORKERS[0].name))

    async def test_killed_run(self, other: Cluster) -> None:
        """
        What a killed run has left is named by `up`, and removed by `down`.
        """
        await other.begin()
        os.kill(other.plane.gateway_pid, signal.SIGKILL)

        with pytest.raises(AlreadyUp, match="scripts/cluster down"):
            await other.up()
        await other.down()
        assert [] == other.remains()

    async def test_not_up(self, other: Cluster) -> None:
        """
        Where there is none, nothing can be asked of it.
        """
        with pytest.raises(NotUp, match="scripts/cluster up"):
            other.admin()


class TestAWorker:
    async def test_is_on_its_own(self, cluster: Cluster) -> None:
        """
        It sees its own processes, its own /run and its own name, and nothing of the others.
        """
        names = [(await worker.run("hostname")).strip() for worker in cluster.running_workers()]
        kubelets = [await worker.run("sh", "-c", "cat /proc/1/comm; ls /run") for worker in cluster.running_workers()]

        assert [worker.name for worker in cluster.workers] == names
        assert [True] * len(names) == ["containerd" in text and text.startswith("bash") for text in kubelets]

    async def test_containers_are_found(self, cluster: Cluster, pods: Pods) -> None:
        """
        A container's processes are found from outside, on their worker alone.
        """
        pod = pods_of.manifest("found", Container(script="exec sleep 98765"))
        pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "plain-1"}
        await pods.run(pod)

        await processes.appear(cluster.worker("plain-1"), "sleep", "98765")
        found = {worker.worker.name: processes.find(worker, "sleep", "98765") for worker in cluster.running_workers()}
        assert {"gpu-1": 0, "gpu-2": 0, "plain-1": 1} == {name: len(pids) for name, pids in found.items()}

    async def test_containerd_restart(self, cluster: Cluster, pods: Pods) -> None:
        """
        A containerd that is killed comes back to the containers that it had.
        """
        worker = cluster.worker("plain-1")
        pod = pods_of.manifest("outlives", Container(script="exec sleep 98764"))
        pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "plain-1"}
        await pods.run(pod)
        before = await processes.appear(worker, "sleep", "98764")
        await worker.restart(CONTAINERD)

        assert before == processes.find(worker, "sleep", "98764")
        assert 0 == (await pods.running("outlives"))["status"]["containerStatuses"][0]["restartCount"]

    async def test_reboot(self, cluster: Cluster, pods: Pods) -> None:
        """
        A worker whose power fails comes back with its disk and its pods, and with nothing that was in memory.
        """
        worker = cluster.worker("plain-1")
        pod = pods_of.manifest("rebooted", Container(script="exec sleep 98763"))
        pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "plain-1"}
        await pods.run(pod)
        (worker.files.run / "in-memory").touch()
        await worker.stop()
        assert [] == processes.find(worker, "sleep", "98763")
        await cluster.start_worker("plain-1")

        await pods.api.until(
            f"{pods_of.PODS}/rebooted",
            lambda one: one["status"]["containerStatuses"][0]["restartCount"] > 0 and pods_of.all_run(one),
            what="the pod to run again",
            timeout_seconds=90,
        )
        assert not (worker.files.run / "in-memory").exists()


class TestTheSimulatedRuntime:
    async def test_unknown_gpu(self, pods: Pods) -> None:
        """
        A container that names a GPU which its worker does not have is refused by the simulated runtime.
        """
        annotations = {**pods_of.memory(request="1Gi")}
        pod = pods_of.manifest("unknown-gpu", annotations=annotations, scheduler="default-scheduler")
        pod["metadata"]["annotations"]["nvidia.com/container.main.gpus.devices"] = "GPU-nobody"
        pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "gpu-1"}
        await pods.create(pod)

        assert "unknown device id: GPU-nobody" in await pods.refused("unknown-gpu")

    async def test_beyond_the_limit(self, pods: Pods) -> None:
        """
        A process that asks for more than its container's limit is out of memory, as the simulated driver has it.
        """
        gpu = WORKERS[0].gpus[0]
        script = f"/usr/bin/simgpu-run --gpu={gpu} --memory=2Gi; exec sleep 100000"
        annotations = {**pods_of.memory(limit="1Gi"), "nvidia.com/container.main.gpus.devices": gpu}
        await pods.run(pods_of.manifest("greedy", Container(script=script), annotations=annotations))

        assert "out of memory" in await pods.wait_for_output("greedy", "out of memory")
