"""
metricsd's page as Prometheus reads it: every family answers a question, and promtool has nothing to say against it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import attrs
import pynvml
import pytest
import pytest_asyncio
from lab import toolchain
from lab.metricsd import PREFIX, Metricsd
from lab.papernode import LIMIT_MIB, MEMORY_USED_BYTES, REQUEST_MIB, SM_PERCENT, Watched
from lab.prometheus import Answer, Prometheus, complaints
from metricsd.families import PodNames, all_families
from simgpu.state import Gpu

MIB = 1 << 20
GPU_BYTES = 80 << 30
CONTAINER = f"{PREFIX}container_gpu_memory_"
OWN = f"{PREFIX}metricsd_"
# A question about each family, and its answer on a node with two containers, of pods trainer-0 and trainer-1, on one of
# two GPUs.
QUESTIONS: Mapping[str, tuple[str, float]] = {
    f"{PREFIX}gpu_memory_used_bytes": ("sum({name})", 2 * MEMORY_USED_BYTES),
    f"{PREFIX}gpu_sm_utilization_percent": ("sum by (gpu_uuid) ({name})", 2 * SM_PERCENT),
    f"{PREFIX}gpu_sm_utilization_percent_normalized": (
        'max({name}{{pod="trainer-0"}})',
        SM_PERCENT * GPU_BYTES / (LIMIT_MIB * MIB),
    ),
    f"{CONTAINER}used_bytes": ('sum({name}{{container="main"}})', 2 * MEMORY_USED_BYTES),
    f"{CONTAINER}request_bytes": ('sum({name}{{pod="trainer-0"}})', REQUEST_MIB * MIB),
    f"{CONTAINER}limit_bytes": ('sum({name}{{pod="trainer-0"}})', LIMIT_MIB * MIB),
    f"{CONTAINER}effective_soft_limit_bytes": ('sum({name}{{pod="trainer-0"}})', REQUEST_MIB * MIB),
    f"{CONTAINER}effective_hard_limit_bytes": ('sum({name}{{pod="trainer-0"}})', LIMIT_MIB * MIB),
    f"{CONTAINER}accounted_bytes": ('sum({name}{{pod="trainer-0"}})', MEMORY_USED_BYTES),
    f"{CONTAINER}limit_enforced": ("min({name})", 1),
    f"{CONTAINER}pressure_ratio": ('sum({name}{{pod="trainer-0"}})', MEMORY_USED_BYTES / (LIMIT_MIB * MIB)),
    f"{CONTAINER}limit_enforcement_info": ('count({name}{{reason="enforced"}})', 2),
    f"{PREFIX}gpu_up": ("sum({name})", 2),
    f"{PREFIX}gpu_memory_total_bytes": ("sum({name})", 2 * GPU_BYTES),
    f"{PREFIX}gpu_memory_size_known": ("sum({name})", 2),
    f"{PREFIX}driver_info": ('count({name}{{version=~"615[.].*"}})', 1),
    f"{PREFIX}nvml_up": ("sum({name})", 1),
    f"{OWN}processes_seen": ("sum({name})", 2),
    f"{OWN}processes_attributed": ("sum({name})", 2),
    f"{OWN}processes_unattributed": ("sum({name})", 0),
    f"{OWN}attribution_failures_total": ("sum(increase({name}[5m]))", 0),
    f"{OWN}records": ("sum({name})", 2),
    f"{OWN}records_unreadable": ("sum({name})", 0),
    f"{OWN}containers_left_out": ("sum({name})", 0),
    f"{OWN}gpus_lost": ("sum({name})", 0),
    f"{OWN}snapshot_age_seconds": ("sum({name}) < bool 10", 1),
    f"{OWN}snapshot_stale": ("sum({name})", 0),
    f"{OWN}cycle_seconds": ("histogram_quantile(0.99, sum by (le) (rate({name}_bucket[5m]))) < bool 1", 1),
    f"{OWN}cycles_total": ("sum({name}) >= bool 2", 1),
    f"{OWN}nvml_call_seconds": (
        'histogram_quantile(0.5, sum by (le) ({name}_bucket{{function="DeviceGetMemoryLimits"}})) < bool 1',
        1,
    ),
    f"{OWN}nvml_call_failures_total": (
        'sum({name}{{function="DeviceGetProcessUtilization",error="NO_PERMISSION"}}) >= bool 1',
        1,
    ),
    f"{OWN}collector_seconds": ("max({name}) < bool 1", 1),
    f"{OWN}collector_failures_total": ("sum({name})", 0),
}
FAMILIES = all_families(PodNames())


def asked_in_documents() -> list[str]:
    pages = ("README.md", "services/metricsd/README.md")
    text = "\n".join((toolchain.REPOSITORY / page).read_text() for page in pages)
    blocks = [block.partition("```")[0] for block in text.split("```promql\n")[1:]]
    return [line for block in blocks for line in block.splitlines() if not line.startswith("#")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def metricsd(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Metricsd]:
    """
    One on a node whose containers have their limits, and whose second GPU refuses one kind of call.
    """
    scene = Watched.make(tmp_path_factory.mktemp("metricsd"))
    machine = scene.node.machine()
    refusing = Gpu("GPU-refuses", errors={"DeviceGetProcessUtilization": pynvml.NVML_ERROR_NO_PERMISSION})
    scene.state.write(attrs.evolve(machine, devices=(*machine.devices, refusing)))
    scene.node.enforce(scene.state)
    async with scene.metricsd as running:
        await running.ready()
        await running.turned()
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def prometheus(metricsd: Metricsd, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Prometheus]:
    """
    One that has scraped often enough for rates.
    """
    async with Prometheus(target=metricsd.port, directory=tmp_path_factory.mktemp("prometheus")) as running:
        await running.answers(f"count_over_time({PREFIX}nvml_up[5m]) >= 4")
        yield running


def test_no_family_is_without_a_question() -> None:
    """The questions are about all families of the page, and no others."""
    assert {family.name for family in FAMILIES} == set(QUESTIONS)


@pytest.mark.asyncio(loop_scope="module")
class TestPrometheus:
    @pytest.mark.parametrize("name", QUESTIONS)
    async def test_a_question_about(self, prometheus: Prometheus, name: str) -> None:
        """Prometheus answers it with what is so on the node."""
        question, expected = QUESTIONS[name]
        answers = await prometheus.query(question.format(name=name))

        assert [pytest.approx(expected)] == [answer.value for answer in answers]

    @pytest.mark.parametrize("question", dict.fromkeys(asked_in_documents()))
    async def test_a_question_of_the_documents(self, prometheus: Prometheus, question: str) -> None:
        """What the documents tell people to ask is a question, and has an answer unless it looks for trouble."""
        answers = await prometheus.query(question)

        assert ("!" in question) == (answers == ())

    async def test_the_scrape_itself(self, prometheus: Prometheus) -> None:
        """Every scrape was taken whole."""
        assert (Answer({}, 1.0),) == await prometheus.query("min(min_over_time(up[5m]))")


@pytest.mark.asyncio(loop_scope="module")
class TestPromtool:
    async def test_accepts_the_page(self, metricsd: Metricsd) -> None:
        """Format, names, help texts and units are as Prometheus' own checker wants them."""
        assert "" == await complaints((await metricsd.get("/metrics")).body)

    async def test_can_refuse(self) -> None:
        """The checker is one that finds faults."""
        assert "no help text" in await complaints("x 1\n")
