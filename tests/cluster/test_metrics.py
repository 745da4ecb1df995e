"""
What metricsd attributes to pods: real containers with processes that hold simulated GPU memory.

The values are read where Prometheus would read them, on metricsd's page, through the API server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import attrs
import pytest
from clusterlab import nvidia
from clusterlab import pods as pods_of
from clusterlab.client import Object
from clusterlab.metricspage import MEMORY, SM, SM_NORMALIZED, Page
from clusterlab.pods import Container, Pods
from clusterlab.release import FRACTIOND, PODS, Release
from fractioning_core import names
from prometheus_client.parser import text_string_to_metric_families
from simgpu.state import GpuProcess

NODE = "gpu-1"
MIB = 1 << 20
WHOLE, HALF, QUARTER = "40960Mi", "20480Mi", "10240Mi"
# What is not to appear is given three cycles.
QUIET_SECONDS = 15.0


@pytest.fixture
def page(release: Release) -> Page:
    """
    The metrics of the node that the tests use.
    """
    return Page(release, NODE)


@pytest.fixture
def gpus(release: Release) -> Sequence[str]:
    """
    The UUIDs of its GPUs.
    """
    return release.cluster.worker(NODE).worker.gpus


def using(
    name: str, gpu: str, *, share: str = HALF, memory: str = "512Mi", sms: Sequence[int] = (0,), fraction: bool = True
) -> Object:
    """
    Give a pod with a container for each share of SMs, which all use one GPU.
    """
    containers = [Container(f"c{n}", pods_of.simgpu(gpu, memory=memory, sm=sm)) for n, sm in enumerate(sms)]
    asked: dict[str, str] = {}
    for one in containers:
        asked |= pods_of.memory(request=share, container=one.name)
        asked[f"{names.ANNOTATION_PREFIX}{one.name}{names.GPU_DEVICES_SUFFIX}"] = gpu
    return pods_of.manifest(name, *containers, annotations=asked if fraction else {})


def labels_of(pod: Object, gpu: str, index: int) -> Mapping[str, str]:
    """
    Give the labels of a pod's series on one GPU.
    """
    metadata = pod["metadata"]
    return {
        "namespace": metadata["namespace"],
        "pod": metadata["name"],
        "pod_uuid": metadata["uid"],
        "gpu_uuid": gpu,
        "gpu": str(index),
    }


class TestThePage:
    async def test_endpoint_smoke(self, page: Page) -> None:
        """
        It parses, pods or none.
        """
        families = [family.name for family in text_string_to_metric_families(await page.text())]

        assert "gpu_fractioning_nvml_up" in families

    async def test_single_attribution(self, pods: Pods, page: Page, gpus: Sequence[str]) -> None:
        """
        A process's memory is its pod's, to the byte.
        """
        pod = await pods.run(using("single", gpus[0], memory="8192Mi"))

        (series,) = await page.until(MEMORY, [8192 * MIB], pod="single")
        assert labels_of(pod, gpus[0], 0) == series.labels

    async def test_unmatched_process(self, release: Release, pods: Pods, page: Page, gpus: Sequence[str]) -> None:
        """
        A process of the node's own is nobody's.
        """
        worker = release.cluster.worker(NODE)
        machine = nvidia.machine(worker.worker)
        first = attrs.evolve(machine.devices[0], processes=(GpuProcess(pid=1, memory_used_bytes=1024 * MIB),))
        state = nvidia.state(worker.files)
        try:
            state.write(attrs.evolve(machine, devices=(first, *machine.devices[1:])))
            await pods.run(using("unmatched", gpus[0], memory="2048Mi"))

            await page.until(MEMORY, [2048 * MIB], pod="unmatched")
            await page.until("gpu_fractioning_metricsd_processes_unattributed", [1], reason="host")
        finally:
            state.write(machine)

    async def test_no_annotation(self, pods: Pods, page: Page, gpus: Sequence[str]) -> None:
        """
        A pod that asked for no fraction has no series, though its process uses the GPU.
        """
        pod = using("whole-gpu", gpus[0], fraction=False)
        pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": NODE}
        pod["spec"]["containers"][0]["env"] = [{"name": names.ENV_VISIBLE_DEVICES, "value": gpus[0]}]
        await pods.run(pod)
        await page.until("gpu_fractioning_metricsd_processes_unattributed", [1], reason="unannotated")

        await asyncio.sleep(QUIET_SECONDS)
        assert [] == await page.series(MEMORY, pod="whole-gpu")

    async def test_near_miss_key(self, release: Release, pods: Pods, page: Page) -> None:
        """
        A key that only looks like ours is nobody's, and harms nobody.
        """
        before = await release.restarts(FRACTIOND)
        pod = pods_of.manifest("near-miss", annotations={"nvidia.com/container.main.gpu-mem.limit": "8Gi"})
        pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": NODE}
        await pods.run(pod)

        await asyncio.sleep(QUIET_SECONDS)
        assert ([], before) == (await page.series(MEMORY, pod="near-miss"), await release.restarts(FRACTIOND))


class TestSms:
    async def test_aggregation(self, pods: Pods, page: Page, gpus: Sequence[str]) -> None:
        """
        A pod's share is the sum of its containers'.
        """
        await pods.run(using("two-containers", gpus[0], share="4Gi", sms=(20, 30)))
        await pods.run(using("three-containers", gpus[0], share="4Gi", sms=(10, 15, 20)))

        await page.until(SM, [50], pod="two-containers")
        await page.until(SM, [45], pod="three-containers")

    async def test_clamp(self, pods: Pods, page: Page, gpus: Sequence[str]) -> None:
        """
        No pod uses more than the whole.
        """
        await pods.run(using("clamp", gpus[0], share="4Gi", sms=(70, 60)))

        await page.until(SM, [100], pod="clamp")

    async def test_fraction_does_not_throttle(self, pods: Pods, page: Page, gpus: Sequence[str]) -> None:
        """
        A part of the memory is not a part of the SMs.
        """
        await pods.run(using("not-throttled", gpus[0], share=QUARTER, sms=(95,)))

        await page.until(SM, [95], pod="not-throttled")

    @pytest.mark.parametrize(
        ("share", "sm", "normalized"),
        [
            pytest.param(HALF, 80, 100, id="cap"),
            pytest.param(HALF, 40, 80, id="proportional"),
        ],
    )
    async def test_normalised(
        self, pods: Pods, page: Page, gpus: Sequence[str], share: str, sm: int, normalized: int
    ) -> None:
        """
        Normalised, a pod's share counts against its fraction, and ends at 100.
        """
        # The series of a pod that is gone may stay for a minute, under its name.
        name = f"normalised-{normalized}"
        await pods.run(using(name, gpus[0], share=share, sms=(sm,)))

        await page.until(SM_NORMALIZED, [normalized], pod=name)

    async def test_two_pods_one_gpu(self, pods: Pods, page: Page, gpus: Sequence[str]) -> None:
        """
        Of two pods on one GPU, each has its own.
        """
        await pods.run(using("first", gpus[0], sms=(60,)))
        await pods.run(using("second", gpus[0], sms=(40,)))

        await page.until(SM, [60], pod="first", gpu_uuid=gpus[0])
        await page.until(SM, [40], pod="second", gpu_uuid=gpus[0])

    async def test_two_gpus(self, pods: Pods, page: Page, gpus: Sequence[str]) -> None:
        """
        A pod has series of its own GPU only.
        """
        await pods.run(using("on-0", gpus[0], sms=(70,)))
        await pods.run(using("on-1", gpus[1], sms=(30,)))
        await page.until(SM, [70], pod="on-0")
        await page.until(SM, [30], pod="on-1")

        await asyncio.sleep(QUIET_SECONDS)
        assert [("0", 70.0)] == [(each.labels["gpu"], each.value) for each in await page.series(SM, pod="on-0")]
        assert [("1", 30.0)] == [(each.labels["gpu"], each.value) for each in await page.series(SM, pod="on-1")]


class TestLife:
    async def test_lifecycle(self, release: Release, pods: Pods, page: Page, gpus: Sequence[str]) -> None:
        """
        A pod has a series of zero before it uses anything, then one with what it uses, and none once it is gone.
        """
        start = release.cluster.worker(NODE).files.simgpu / "start"
        waits = f"while [ ! -e {nvidia.ROOT}/start ]; do sleep 0.2; done; "
        pod = using("lifecycle", gpus[0], sms=(55,))
        command = pod["spec"]["containers"][0]["command"]
        command[-1] = waits + command[-1]
        try:
            await pods.run(pod)
            await page.until(SM, [0], pod="lifecycle")
            start.touch()
            await page.until(SM, [55], pod="lifecycle")
        finally:
            start.unlink(missing_ok=True)
        await pods.delete("lifecycle")

        await page.until(SM, [], pod="lifecycle")
        await page.until(MEMORY, [], pod="lifecycle")

    async def test_fractiond_restart(self, release: Release, pods: Pods, page: Page, gpus: Sequence[str]) -> None:
        """
        After all of fractiond's pods were replaced, the series of running pods are there again.
        """
        await pods.run(using("survivor", gpus[0], memory="1024Mi", sms=(25,)))
        await page.until(SM, [25], pod="survivor")
        for pod in await release.pods(FRACTIOND):
            await release.api.delete(f"{PODS}/{pod['metadata']['name']}")
            await release.api.until_gone(f"{PODS}/{pod['metadata']['name']}", timeout_seconds=60)
        await release.steady()

        await page.until(SM, [25], pod="survivor")
        await page.until(MEMORY, [1024 * MIB], pod="survivor")
        await page.until(SM_NORMALIZED, [50], pod="survivor")

    async def test_deletion_under_scrape(self, release: Release, pods: Pods, page: Page, gpus: Sequence[str]) -> None:
        """
        Pods that go while the page is read all the time disturb no reading.
        """
        before = await release.restarts(FRACTIOND)
        for name in ("leaving-1", "leaving-2"):
            await pods.run(using(name, gpus[0], share="4Gi", sms=(10,)))
            await page.until(SM, [10], pod=name)
        for name in ("leaving-1", "leaving-2"):
            await release.api.delete(f"/api/v1/namespaces/default/pods/{name}", grace_seconds=0)
        # Reads again and again, and ends with the first reading that fails.
        await page.until(SM, [], pod="leaving-1")
        await page.until(SM, [], pod="leaving-2")

        assert before == await release.restarts(FRACTIOND)

    async def test_same_name_new_uid(self, pods: Pods, page: Page, gpus: Sequence[str]) -> None:
        """
        A pod of a former one's name is another pod.
        """
        first = await pods.run(using("again", gpus[0], sms=(10,)))
        await page.until(SM, [10], pod="again")
        await pods.delete("again")
        await page.until(SM, [], pod="again")
        second = await pods.run(using("again", gpus[0], sms=(20,)))
        await page.until(SM, [20], pod="again")

        assert first["metadata"]["uid"] != second["metadata"]["uid"]
        await asyncio.sleep(QUIET_SECONDS)
        assert [second["metadata"]["uid"]] == [each.labels["pod_uuid"] for each in await page.series(SM, pod="again")]
