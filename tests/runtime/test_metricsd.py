"""
The whole way of a limit: from the annotation by fractiond and the runtime's hook into the (simulated) driver, and back
by metricsd, which says whether it is in force and, wherever the chain is broken, that it is not.

containerd, runc, NRI, fractiond and metricsd are the real ones, and so are processes and containers. The driver, its
limits and the hook that sets them are simulated.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import attrs
import pynvml
import pytest
import pytest_asyncio
from lab import gpunode
from lab.containerd import Containerd
from lab.cri import Cri
from lab.gpunode import GpuNode
from lab.metricsd import PREFIX, Metricsd, Samples
from simgpu.limits import Limit
from simgpu.processes import Allocation

MIB = 1 << 20
OLD_DRIVER = "580.95.05"
CONTAINER = f"{PREFIX}container_gpu_memory_"


@pytest_asyncio.fixture
async def node(containerd: Containerd, cri: Cri, tmp_path: Path) -> AsyncIterator[GpuNode]:
    async with GpuNode(containerd, cri, tmp_path) as running:
        yield running


async def trainer(node: GpuNode) -> str:
    """
    Run a pod with one container that uses half of what it may, on the first GPU.
    """
    pod = await node.cri.run_pod("trainer", annotations=gpunode.fraction("main", node.first.uuid))
    return await node.run(pod, "main", Allocation((node.first.uuid,), memory="1Gi", sm_percent=30))


def figures(page: Samples, pod: str) -> dict[str, float]:
    """
    Read all of the per-container families about a pod with one container on one GPU.
    """
    return {
        name.removeprefix(CONTAINER): sample.value
        for name, samples in page.items()
        for sample in samples
        if name.startswith(CONTAINER) and sample.labels["pod"] == pod
    }


def reason(page: Samples) -> list[str]:
    return [sample.labels["reason"] for sample in page.get(f"{CONTAINER}limit_enforcement_info", ())]


class TestEnforced:
    async def test_what_was_declared_is_in_force(self, node: GpuNode) -> None:
        """The annotation reaches the driver unchanged, and the page says so, in bytes, beside what is used of it."""
        await trainer(node)
        metricsd = await node.watched()
        page = await metricsd.shows_value("container_gpu_memory_used_bytes", 1024 * MIB)

        assert {
            "used_bytes": 1024.0 * MIB,
            "request_bytes": 1024.0 * MIB,
            "limit_bytes": 2048.0 * MIB,
            "effective_soft_limit_bytes": 1024.0 * MIB,
            "effective_hard_limit_bytes": 2048.0 * MIB,
            "accounted_bytes": 1024.0 * MIB,
            "pressure_ratio": 0.5,
            "limit_enforced": 1.0,
            "limit_enforcement_info": 1.0,
        } == figures(page, "trainer")
        assert ["enforced"] == reason(page)

    async def test_after_the_container(self, node: GpuNode) -> None:
        """With the container its series go, so that nobody is told of a limit that nothing is held to."""
        container = await trainer(node)
        metricsd = await node.watched()
        await metricsd.shows_value("container_gpu_memory_limit_enforced", 1)
        await node.cri.remove(container)
        page = await metricsd.shows("no container", lambda page: not figures(page, "trainer"))

        assert [] == reason(page)


async def _no_hook(node: GpuNode) -> Metricsd:
    node.publish(None)
    node.cgroup_of(await trainer(node))
    return await node.watched()


async def _misspelt(node: GpuNode) -> Metricsd:
    node.publish(node.hook(node.misspelt_hook()))
    node.cgroup_of(await trainer(node))
    return await node.watched()


async def _changed(node: GpuNode) -> Metricsd:
    directory = node.cgroup_of(await trainer(node))
    node.limits.put(Limit(node.first.uuid, directory, soft_bytes=1024 * MIB, hard_bytes=4096 * MIB))
    return await node.watched()


async def _removed(node: GpuNode) -> Metricsd:
    directory = node.cgroup_of(await trainer(node))
    node.limits.remove(node.first.uuid, directory)
    return await node.watched()


async def _old_driver(node: GpuNode) -> Metricsd:
    await trainer(node)
    node.state.write(attrs.evolve(node.machine(), driver=OLD_DRIVER))
    return await node.watched(library=node.driver.old_library)


async def _no_support(node: GpuNode) -> Metricsd:
    await trainer(node)
    node.state.write(attrs.evolve(node.machine(), memory_limits=False))
    return await node.watched()


async def _another_error(node: GpuNode) -> Metricsd:
    await trainer(node)
    refused = {"DeviceGetMemoryLimits": pynvml.NVML_ERROR_NO_PERMISSION}
    node.state.write(attrs.evolve(node.machine(), errors=refused))
    return await node.watched()


async def _cgroup_v1(node: GpuNode) -> Metricsd:
    await trainer(node)
    return await node.watched(cgroup_root=node.cgroup_root.parent)


class TestNotEnforced:
    @pytest.mark.parametrize(
        ("break_it", "why"),
        [
            pytest.param(_no_hook, "no_limit_set", id="no hook in the CDI spec"),
            pytest.param(_misspelt, "no_limit_set", id="a hook that reads the plural names"),
            pytest.param(_removed, "no_limit_set", id="the limit was removed"),
            pytest.param(_changed, "limit_differs", id="the limit was changed"),
            pytest.param(_old_driver, "driver_too_old", id="a driver of 580"),
            pytest.param(_no_support, "not_supported", id="a GPU that has no limits"),
            pytest.param(_another_error, "not_readable", id="an error of NVML"),
            pytest.param(_cgroup_v1, "no_cgroup", id="a node of cgroup v1"),
        ],
    )
    async def test_where_the_chain_is_broken(
        self, node: GpuNode, break_it: Callable[[GpuNode], Awaitable[Metricsd]], why: str
    ) -> None:
        """The container runs and declares its limit, and the page says that it is not in force, and why."""
        metricsd = await break_it(node)
        page = await metricsd.shows_value("container_gpu_memory_limit_enforced", 0)

        assert [why] == reason(page)
        assert 2048.0 * MIB == figures(page, "trainer")["limit_bytes"]
        assert 1024.0 * MIB == figures(page, "trainer")["used_bytes"]

    async def test_behind_our_back_and_back(self, node: GpuNode) -> None:
        """A limit that is changed under a running metricsd shows within a cycle, and so does its return."""
        directory = node.cgroup_of(await trainer(node))
        metricsd = await node.watched()
        await metricsd.shows_value("container_gpu_memory_limit_enforced", 1)
        node.limits.put(Limit(node.first.uuid, directory, soft_bytes=1024 * MIB, hard_bytes=2049 * MIB))
        page = await metricsd.shows_value("container_gpu_memory_limit_enforced", 0, timeout_seconds=3.5)
        node.limits.put(Limit(node.first.uuid, directory, soft_bytes=1024 * MIB, hard_bytes=2048 * MIB))
        await metricsd.shows_value("container_gpu_memory_limit_enforced", 1)

        assert ["limit_differs"] == reason(page)
        assert 2049.0 * MIB == figures(page, "trainer")["effective_hard_limit_bytes"]
