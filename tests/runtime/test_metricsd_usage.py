"""
Whose use of a GPU is whose: real processes in real containers, whose (simulated) use NVML tells by their process ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import attrs
import pytest
import pytest_asyncio
from lab import gpunode, gpuprocess
from lab.containerd import Containerd
from lab.cri import Cri
from lab.gpunode import GPU_BYTES, GpuNode, Sharing
from lab.metricsd import PREFIX, Metricsd, Samples, by_pod, tells_of_pods
from simgpu import processes
from simgpu.processes import Allocation

# What is asked here is no question to the runtime, so that one version will do.
pytestmark = pytest.mark.parametrize("containerd", ["2.3"], indirect=True, scope="session")

MIB = 1 << 20
MEMORY = "gpu_memory_used_bytes"
SM = "gpu_sm_utilization_percent"
NORMALIZED = "gpu_sm_utilization_percent_normalized"
HALF = f"{GPU_BYTES // 2 // MIB}Mi"
QUARTER = f"{GPU_BYTES // 4 // MIB}Mi"
SMALL = "2Gi"


@pytest_asyncio.fixture
async def node(containerd: Containerd, cri: Cri, tmp_path: Path) -> AsyncIterator[GpuNode]:
    async with GpuNode(containerd, cri, tmp_path) as running:
        yield running


async def shows_sm(metricsd: Metricsd, expected: Mapping[str, float]) -> Samples:
    return await metricsd.shows(f"SM use {expected}", lambda page: expected == by_pod(page, SM))


class TestThePage:
    async def test_of_an_empty_node(self, node: GpuNode) -> None:
        """It is there and tells of the GPUs, and of nobody who uses them."""
        metricsd = await node.watched()
        answer = await metricsd.get("/metrics")
        page = await metricsd.page()

        assert 200 == answer.status
        assert not tells_of_pods(page)
        assert {node.first.uuid, node.second.uuid} == {
            sample.labels["gpu_uuid"] for sample in page[f"{PREFIX}gpu_memory_total_bytes"]
        }


class TestOnePod:
    async def test_single_attribution(self, node: GpuNode) -> None:
        """What its process holds is told to the byte, under the pod's own names and the GPU's, with NVML's index."""
        gpu = node.first.uuid
        await node.run_pod("trainer", Sharing("16Gi", [25]), gpu=gpu, memory="8192Mi", uid="3f2a-uid")
        metricsd = await node.watched()
        page = await shows_sm(metricsd, {"trainer": 25})
        (sample,) = page[PREFIX + MEMORY]

        assert 8192.0 * MIB == sample.value
        assert {
            "namespace": "team-ml",
            "pod": "trainer",
            "pod_uuid": "3f2a-uid",
            "gpu_uuid": gpu,
            "gpu": "1",
        } == sample.labels

    async def test_unmatched_process(self, node: GpuNode) -> None:
        """A process of the host on the same GPU is counted as one, and adds nothing to the pod."""
        gpu = node.first.uuid
        await node.run_pod("trainer", Sharing("4Gi", [25]), gpu=gpu, memory="2048Mi")
        with processes.started(Allocation((gpu,), memory="1024Mi", sm_percent=50)):
            metricsd = await node.watched()
            page = await metricsd.shows_value("metricsd_processes_unattributed", 1, reason="host")

        assert {"trainer": 2048.0 * MIB} == by_pod(page, MEMORY)
        assert {"trainer": 25.0} == by_pod(page, SM)

    async def test_processes_of_one_container(self, node: GpuNode) -> None:
        """A container's processes are added up, whether they compute or draw."""
        gpu = node.first.uuid
        pod = await node.cri.run_pod("trainer", annotations=gpunode.fraction("main", gpu))
        drawing = Allocation((gpu,), memory="256Mi", sm_percent=5, is_graphics=True)
        both = attrs.evolve(Allocation((gpu,), memory="512Mi", sm_percent=10), command=drawing.argv(gpuprocess.PROGRAM))
        await node.run(pod, "main", both)
        metricsd = await node.watched()
        page = await shows_sm(metricsd, {"trainer": 15})

        assert {"trainer": 768.0 * MIB} == by_pod(page, MEMORY)

    async def test_on_both_gpus(self, node: GpuNode) -> None:
        """A container with both GPUs has a series for each, with what it uses there."""
        both = (node.first.uuid, node.second.uuid)
        pod = await node.cri.run_pod("trainer", annotations=gpunode.fraction("main", ",".join(both)))
        await node.run(pod, "main", Allocation(both, memory="512Mi", sm_percent=10))
        metricsd = await node.watched()
        page = await metricsd.shows("two series", lambda page: len(page.get(PREFIX + MEMORY, ())) == 2)

        assert {("1", node.first.uuid, 512.0 * MIB), ("0", node.second.uuid, 512.0 * MIB)} == {
            (sample.labels["gpu"], sample.labels["gpu_uuid"], sample.value) for sample in page[PREFIX + MEMORY]
        }
        assert [1.0] == [sample.value for sample in page[f"{PREFIX}metricsd_processes_seen"]]
        assert [1.0, 1.0] == [sample.value for sample in page[f"{PREFIX}container_gpu_memory_limit_enforced"]]

    @pytest.mark.parametrize(
        "annotations",
        [
            pytest.param({}, id="no annotation"),
            pytest.param({"nvidia.com/container.main.gpu-mem.limit": "2Gi"}, id="near-miss key"),
        ],
    )
    async def test_that_is_not_fractional(self, node: GpuNode, annotations: dict[str, str]) -> None:
        """It has the GPU as a whole, or so it seems: there are no series, and its process is counted as such."""
        pod = await node.cri.run_pod("whole", annotations=annotations)
        await node.run(pod, "main", Allocation((node.first.uuid,), memory="1Gi", sm_percent=90))
        metricsd = await node.watched()
        page = await metricsd.shows_value("metricsd_processes_unattributed", 1, reason="unannotated")

        assert not tells_of_pods(page)
        assert node.fractiond.service.exit_code is None

    async def test_init_container_without_annotation(self, node: GpuNode) -> None:
        """Fractions go by the container's name: what another container of the pod does is not charged to it."""
        gpu = node.first.uuid
        pod = await node.cri.run_pod("trainer", annotations=gpunode.fraction("main", gpu))
        await node.run(pod, "prep", Allocation((gpu,), memory="3Gi", sm_percent=30))
        await node.run(pod, "main", Allocation((gpu,), memory="1Gi", sm_percent=20))
        metricsd = await node.watched()
        page = await shows_sm(metricsd, {"trainer": 20})

        assert {"main"} == {sample.labels["container"] for sample in page[f"{PREFIX}container_gpu_memory_used_bytes"]}
        assert {"trainer": 1024.0 * MIB} == by_pod(page, MEMORY)

    async def test_sidecar_restarted(self, node: GpuNode) -> None:
        """A container that is started again under a new id counts once, with what the new one holds."""
        gpu = node.first.uuid
        pod = await node.cri.run_pod("trainer", annotations=gpunode.fraction("main", gpu))
        former = await node.run(pod, "main", Allocation((gpu,), memory="1Gi", sm_percent=20))
        metricsd = await node.watched()
        await shows_sm(metricsd, {"trainer": 20})
        await node.cri.stop(former)
        await node.run(pod, "main", Allocation((gpu,), memory="512Mi", sm_percent=40), attempt=1)
        await metricsd.shows_value("container_gpu_memory_used_bytes", 512 * MIB)
        page = await shows_sm(metricsd, {"trainer": 40})

        assert [512.0 * MIB] == [sample.value for sample in page[f"{PREFIX}container_gpu_memory_used_bytes"]]
        assert {"trainer": 512.0 * MIB} == by_pod(page, MEMORY)
        assert [1.0] == [sample.value for sample in page[f"{PREFIX}container_gpu_memory_limit_enforced"]]


class TestSmUse:
    @pytest.mark.parametrize(
        ("pods", "raw", "normalized"),
        [
            pytest.param(
                {"a": Sharing(SMALL, [20, 30]), "b": Sharing(SMALL, [10, 15, 20])},
                {"a": 50.0, "b": 45.0},
                {"a": 100.0, "b": 100.0},
                id="aggregation",
            ),
            pytest.param({"a": Sharing(SMALL, [70, 60])}, {"a": 100.0}, {"a": 100.0}, id="clamp"),
            pytest.param({"a": Sharing(QUARTER, [95])}, {"a": 95.0}, {"a": 100.0}, id="fraction does not throttle"),
            pytest.param({"a": Sharing(HALF, [80])}, {"a": 80.0}, {"a": 100.0}, id="normalised cap"),
            pytest.param({"a": Sharing(HALF, [40])}, {"a": 40.0}, {"a": 80.0}, id="normalised proportional"),
            pytest.param(
                {"a": Sharing(HALF, [60]), "b": Sharing(HALF, [40])},
                {"a": 60.0, "b": 40.0},
                {"a": 100.0, "b": 80.0},
                id="two pods one GPU",
            ),
        ],
    )
    async def test_on_one_gpu(
        self,
        node: GpuNode,
        pods: Mapping[str, Sharing],
        raw: Mapping[str, float],
        normalized: Mapping[str, float],
    ) -> None:
        """It is added up by pod, to 100 at most, and normalised by the fraction that the pod's memory is."""
        for pod, sharing in pods.items():
            await node.run_pod(pod, sharing, gpu=node.first.uuid)
        metricsd = await node.watched()
        page = await shows_sm(metricsd, raw)

        assert normalized == pytest.approx(by_pod(page, NORMALIZED))
        assert {node.first.uuid} == {sample.labels["gpu_uuid"] for sample in page[PREFIX + SM]}

    async def test_two_gpus(self, node: GpuNode) -> None:
        """Each pod has a series for its own GPU, by NVML's index and not by the minor number, and no other ever."""
        await node.run_pod("a", Sharing(HALF, [70]), gpu=node.first.uuid)
        await node.run_pod("b", Sharing(HALF, [30]), gpu=node.second.uuid)
        metricsd = await node.watched()
        await shows_sm(metricsd, {"a": 70, "b": 30})
        page = await metricsd.turned()

        assert {("a", "1", 70.0), ("b", "0", 30.0)} == {
            (sample.labels["pod"], sample.labels["gpu"], sample.value) for sample in page[PREFIX + SM]
        }


class TestLives:
    async def test_lifecycle(self, node: GpuNode) -> None:
        """A pod that does nothing yet has a series at zero, then one with its use, and none once it is gone."""
        gpu = node.first.uuid
        pod = await node.cri.run_pod("trainer", annotations=gpunode.fraction("main", gpu))
        idle = await node.run(pod, "main", None)
        metricsd = await node.watched()
        zero = await shows_sm(metricsd, {"trainer": 0})
        await node.cri.remove(idle)
        await node.run(pod, "main", Allocation((gpu,), memory="1Gi", sm_percent=55), attempt=1)
        busy = await shows_sm(metricsd, {"trainer": 55})
        await node.cri.remove_pod(pod)
        await metricsd.shows("no pod", lambda page: not tells_of_pods(page))

        assert {"trainer": 0.0} == by_pod(zero, MEMORY)
        assert 1 == len(busy[PREFIX + SM])

    async def test_process_ends(self, node: GpuNode) -> None:
        """A pod whose process has ended keeps its series, at zero, while the pod is there."""
        gpu = node.first.uuid
        pod = await node.cri.run_pod("trainer", annotations=gpunode.fraction("main", gpu))
        container = await node.run(pod, "main", Allocation((gpu,), memory="1Gi", sm_percent=55))
        metricsd = await node.watched()
        await shows_sm(metricsd, {"trainer": 55})
        await node.cri.stop(container)
        page = await shows_sm(metricsd, {"trainer": 0})

        assert {"trainer": 0.0} == by_pod(page, MEMORY)

    async def test_fractiond_restart(self, node: GpuNode) -> None:
        """The records outlive fractiond, and so do the series."""
        await node.run_pod("trainer", Sharing(HALF, [55]), gpu=node.first.uuid)
        metricsd = await node.watched()
        await shows_sm(metricsd, {"trainer": 55})
        await node.fractiond.service.end()
        without = await metricsd.turned()
        await node.fractiond.start()
        await node.fractiond.ready()
        after = await metricsd.turned()

        assert {"trainer": 55.0} == by_pod(without, SM)
        assert {"trainer": 55.0} == by_pod(after, SM)
        assert {"trainer": 100.0} == by_pod(after, NORMALIZED)

    async def test_deletion_under_scrape(self, node: GpuNode) -> None:
        """Scrapes go on without an error while pods go, and then none of them is left."""
        pods = [await node.run_pod(f"pod-{number}", Sharing(SMALL, [10]), gpu=node.first.uuid) for number in range(3)]
        metricsd = await node.watched()
        await metricsd.shows("three pods", lambda page: len(by_pod(page, SM)) == 3)
        statuses: list[int] = []

        async def scrape() -> None:
            page = None
            while page is None or tells_of_pods(page):
                statuses.append((await metricsd.get("/metrics")).status)
                page = await metricsd.page()
                await asyncio.sleep(0.1)

        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            group.create_task(scrape())
            for pod in pods:
                await node.cri.remove_pod(pod)

        assert {200} == set(statuses)
        assert len(statuses) > 3
        assert metricsd.service.exit_code is None

    async def test_same_name_new_uid(self, node: GpuNode) -> None:
        """A pod that is made anew under its name is another one: the old UID never returns."""
        gpu = node.first.uuid
        former = await node.run_pod("trainer", Sharing(HALF, [20]), gpu=gpu, uid="old-uid")
        metricsd = await node.watched()
        await shows_sm(metricsd, {"trainer": 20})
        await node.cri.remove_pod(former)
        await node.run_pod("trainer", Sharing(HALF, [30]), gpu=gpu, uid="new-uid")
        await shows_sm(metricsd, {"trainer": 30})
        page = await metricsd.turned()

        assert {"new-uid"} == {
            sample.labels["pod_uuid"] for samples in page.values() for sample in samples if "pod" in sample.labels
        }
