"""The loop, in virtual time, with a driver and a node that do what the test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, MutableMapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import attrs
import pytest
from fractioning_core.errors import FileUnavailable, Unavailable
from fractioning_core.nvml.errors import NvmlError, NvmlSilent, NvmlUnavailable, returned
from fractioning_core.nvml.samples import (
    CallTime,
    Device,
    DeviceSample,
    LimitsQuery,
    LostDevice,
    MemoryLimits,
    ProcessMemory,
    Sample,
)
from fractioning_core.nvml.worker import Overdue
from fractioning_core.record import GpuDevice, Record
from fractioning_core.service.http import Readiness
from metricsd import families
from metricsd.collectors import collectors
from metricsd.cycle import DEADLINE_SECONDS, LEAST_PAUSE_SECONDS, Clocks, Cycle, Output, Rhythm
from metricsd.families import PodNames
from metricsd.health import Health, Outcome
from metricsd.limits import Plan
from metricsd.metrics import Metrics
from metricsd.node import Sight
from metricsd.page import Page, Renderer
from metricsd.world import ContainerOnGpu, NoCgroup, Origin
from prometheus_client import CollectorRegistry

T = TypeVar("T")
LogLines = list[MutableMapping[str, Any]]

pytestmark = pytest.mark.looptime

INTERVAL = 5.0
GIB = 2**30
UNKNOWN = returned(999, name="UNKNOWN", function="DeviceGetCount")
MISMATCH = returned(18, name="LIB_RM_VERSION_MISMATCH", function="Init")
DENIED = FileUnavailable("list", "/map", "Permission denied")

FENCED, LOOSE = f"{1:064x}", f"{2:064x}"
RECORD = Record(
    "train", "team", "uid-1", (GpuDevice(uuid="GPU-1"),), 4096, "main", memory_request_mib=4096, memory_limit_mib=8192
)
SIGHT = Sight(
    records={LOOSE: attrs.evolve(RECORD, container="side"), FENCED: RECORD},
    unreadable=0,
    origins={7: Origin((f"/kubepods/podU/{FENCED}",))},
    plan=Plan(
        asked={ContainerOnGpu(FENCED, 0): LimitsQuery(0, "/cgroup/fenced")},
        unasked={ContainerOnGpu(LOOSE, 0): NoCgroup("no cgroup at /x")},
    ),
)


def a_sample(*, used_bytes: int = 2 * GIB) -> Sample:
    device = Device(0, "GPU-1", minor=0, memory_total_bytes=16 * GIB)
    processes = (ProcessMemory(7, used_bytes),) if used_bytes else ()
    return Sample("615.43.02", (DeviceSample(device, compute=processes),))


def now() -> float:
    return asyncio.get_running_loop().time()


@attrs.define
class Driver:
    """NVML that answers late where it is told to, or fails."""

    answer: Sample = attrs.field(factory=a_sample)
    seconds: float = 0.0
    fault: NvmlError | None = None
    limits_fault: NvmlError | None = None
    asked_at: list[float] = attrs.field(factory=list)

    async def sample(self) -> Sample:
        """Answer."""
        self.asked_at.append(now())
        await asyncio.sleep(self.seconds)
        if self.fault is not None:
            raise self.fault
        return self.answer

    async def memory_limits(self, queries: Sequence[LimitsQuery]) -> tuple[MemoryLimits | NvmlUnavailable, ...]:
        """Hold each cgroup to what the record says."""
        if self.limits_fault is not None:
            raise self.limits_fault
        return tuple(MemoryLimits(4 * GIB, 8 * GIB, GIB) for _ in queries)

    def take_calls(self) -> tuple[CallTime, ...]:
        """Tell of one call."""
        return (CallTime("DeviceGetCount", 0.001),)


@attrs.define
class Files:
    """Records and processes, in a thread that hangs where it is told to."""

    sight: Sight = SIGHT
    fault: Exception | None = None
    hangs: bool = False
    sampled_at: list[float] = attrs.field(factory=list)
    met: list[Collection[ContainerOnGpu]] = attrs.field(factory=list)

    def look(self, sample: Sample, *, sampled_at: float, met: Collection[ContainerOnGpu]) -> Sight:
        """Look."""
        self.sampled_at.append(sampled_at)
        self.met.append(met)
        if self.fault is not None:
            raise self.fault
        return self.sight

    def mismatch(self) -> str:
        """Tell."""
        return "library 1, module 2; reboot"

    async def do(self, job: Callable[[], T], *, deadline_seconds: float) -> T:
        """Do a job, without a thread."""
        if self.hangs:
            await asyncio.sleep(deadline_seconds)
            raise Overdue(deadline_seconds)
        return job()


@attrs.define
class Scene:
    """A cycle, and everything that it tells to."""

    driver: Driver = attrs.field(factory=Driver)
    files: Files = attrs.field(factory=Files)
    registry: CollectorRegistry = attrs.field(factory=CollectorRegistry)
    health: Health = attrs.field(init=False)
    page: Page = attrs.field(init=False)

    def cycle(self) -> Cycle:
        """Make one; inside the loop, whose time it goes by."""
        self.health = Health(now, interval_seconds=INTERVAL)
        parts = collectors(PodNames(), with_containers=True)
        metrics = Metrics(self.registry, vitals=self.health, collectors=parts)
        self.page = Page(self.registry, has_figures=lambda: self.health.snapshot_age_seconds() is not None)
        return Cycle(
            self.driver,
            node=self.files,
            thread=self.files,
            output=Output(
                Renderer(parts, metrics=metrics, clock=now).render,
                page=self.page,
                health=self.health,
                metrics=metrics,
            ),
            rhythm=Rhythm(INTERVAL),
            clocks=Clocks(elapsed=now, boot=lambda: 100.0 + now()),
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run it beside the test."""
        task = asyncio.create_task(self.cycle().run())
        # So that times of the test fall between those of the cycle.
        await asyncio.sleep(0.5)
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def used(self, container: str = "") -> float | None:
        """Read from the page what the pod, or a container of it, uses."""
        labels = 'namespace="team",pod="train",pod_uuid="uid-1",gpu_uuid="GPU-1",gpu="0"'
        name = PodNames().memory_used
        if container:
            labels = labels.replace(",gpu_uuid", f',container="{container}",gpu_uuid')
            name = families.CONTAINER_USED.name
        return self.value(f"{name}{{{labels}}}")

    def value(self, sample: str) -> float | None:
        """Read from the page the value of a sample."""
        for line in self.page.text().decode().splitlines():
            name, _, value = line.rpartition(" ")
            if name == sample:
                return float(value)
        return None

    def up(self) -> tuple[float | None, bool, float | None]:
        """Tell whether NVML is up on the page, whether we are ready, and what the pod uses."""
        return self.value(families.NVML_UP.name), self.health.readiness().ready, self.used()

    def cycles(self) -> dict[Outcome, int]:
        """Count the cycles by how they ended."""
        values = {one: self.value(f'{families.CYCLES.name}{{outcome="{one.value}"}}') for one in Outcome}
        return {outcome: int(value) for outcome, value in values.items() if value}


@pytest.fixture
def scene() -> Scene:
    return Scene()


class TestRhythm:
    @pytest.mark.parametrize(
        ("seconds", "expected"),
        [
            pytest.param(0.0, [0.0, 5.0, 10.0], id="at once"),
            pytest.param(2.0, [0.0, 5.0, 10.0], id="within the interval"),
            pytest.param(7.0, [0.0, 7.0 + LEAST_PAUSE_SECONDS], id="longer than the interval"),
        ],
    )
    async def test_interval(self, scene: Scene, seconds: float, expected: list[float]) -> None:
        """Cycles begin one interval after each other, however long they take, with a pause at least."""
        scene.driver.seconds = seconds
        async with scene.running():
            await asyncio.sleep(11.0)

        assert pytest.approx(expected) == scene.driver.asked_at

    async def test_retries(self, scene: Scene) -> None:
        """After a failure it is tried again sooner, then ever later, and never later than in health."""
        scene.driver.fault = UNKNOWN
        async with scene.running():
            await asyncio.sleep(17.0)

        assert pytest.approx([0.0, 1.0, 3.0, 7.0, 12.0, 17.0]) == scene.driver.asked_at

    async def test_retries_begin_anew(self, scene: Scene) -> None:
        """A cycle that completed ends a row of failures."""
        scene.driver.fault = UNKNOWN
        async with scene.running():
            await asyncio.sleep(2.0)
            scene.driver.fault = None
            await asyncio.sleep(1.0)
            scene.driver.fault = UNKNOWN
            await asyncio.sleep(6.5)

        assert pytest.approx([0.0, 1.0, 3.0, 8.0, 9.0]) == scene.driver.asked_at

    async def test_start_of_sampling(self, scene: Scene) -> None:
        """What is read of processes is read for the moment before NVML was asked."""
        scene.driver.seconds = 2.0
        async with scene.running():
            await asyncio.sleep(8.0)

        assert pytest.approx([100.0, 105.0]) == scene.files.sampled_at

    async def test_where_containers_were_met(self, scene: Scene) -> None:
        """A cycle is told on which GPUs the one before met processes of which container."""
        async with scene.running():
            await asyncio.sleep(8.0)

        assert [[], [ContainerOnGpu(FENCED, 0)]] == [list(met) for met in scene.files.met]


class TestFigures:
    async def test_age(self, scene: Scene) -> None:
        """Figures are as old as the moment before they were read, not as their page."""
        scene.driver.seconds = 3.0
        async with scene.running():
            await asyncio.sleep(3.0)

            assert pytest.approx(3.5) == scene.value(families.SNAPSHOT_AGE.name)

    async def test_first_cycle(self, scene: Scene) -> None:
        """One cycle brings pods, containers and verdicts to the page, each limit to its container."""
        async with scene.running():
            verdicts = [line for line in scene.page.text().decode().splitlines() if "reason=" in line]

            assert (1.0, True, 2.0 * GIB) == scene.up()
            assert (2.0 * GIB, 0.0) == (scene.used("main"), scene.used("side"))
            assert [('container="main"', 'reason="enforced"'), ('container="side"', 'reason="no_cgroup"')] == [
                (next(part for part in line.split(",") if part.startswith("container=")), line.split(",")[-1][:-3])
                for line in verdicts
                if line.startswith(families.CONTAINER_ENFORCEMENT.name)
            ]

    async def test_what_was_is_remembered(self, scene: Scene) -> None:
        """A pod whose process ended is shown with zero where it was seen, over a failure in between."""
        nowhere = {FENCED: attrs.evolve(RECORD, gpu_devices=None)}
        scene.files.sight = attrs.evolve(SIGHT, records=nowhere, plan=Plan({}, {}))
        async with scene.running():
            scene.driver.answer, scene.driver.fault = a_sample(used_bytes=0), UNKNOWN
            await asyncio.sleep(INTERVAL)
            during = scene.used()
            scene.driver.fault = None
            await asyncio.sleep(INTERVAL)

            assert (None, 0.0) == (during, scene.used())

    async def test_numbers_of_the_cycles(self, scene: Scene) -> None:
        """Cycles and calls are counted."""
        async with scene.running():
            await asyncio.sleep(INTERVAL)

            assert {Outcome.COMPLETE: 2} == scene.cycles()
            assert 2.0 == scene.value(f"{families.CYCLE_SECONDS.name}_count")
            assert 2.0 == scene.value(f'{families.NVML_CALL_SECONDS.name}_count{{function="DeviceGetCount"}}')


class TestFaults:
    async def test_an_error_and_its_end(self, scene: Scene) -> None:
        """While NVML answers with errors there are no figures; they are back with its first good answer."""
        async with scene.running():
            before = scene.up()
            scene.driver.fault = UNKNOWN
            await asyncio.sleep(60.0)
            during = scene.up()
            scene.driver.fault = None
            await asyncio.sleep(INTERVAL)

            assert [(1.0, True, 2.0 * GIB), (0.0, False, None), (1.0, True, 2.0 * GIB)] == [before, during, scene.up()]

    @pytest.mark.parametrize(
        ("hangs", "more"),
        [pytest.param(False, ": library 1, module 2; reboot", id="known"), pytest.param(True, "", id="no answer")],
    )
    async def test_halves_that_do_not_match(self, scene: Scene, *, hangs: bool, more: str) -> None:
        """A mismatch is told with both versions and what mends it, where the node's files answer."""
        scene.driver.fault, scene.files.hangs = MISMATCH, hangs
        async with scene.running():
            await asyncio.sleep(DEADLINE_SECONDS)

            assert Readiness(ready=False, reason=f"{MISMATCH}{more}") == scene.health.readiness()

    async def test_an_error_in_the_middle(self, scene: Scene) -> None:
        """NVML that fails over the limits counts as failed; half a cycle is not shown."""
        scene.driver.limits_fault = UNKNOWN
        async with scene.running():
            assert (0.0, False, None) == scene.up()

    async def test_silence(self, scene: Scene) -> None:
        """While a call hangs the last figures stay, as stale ones, and go after a minute."""
        async with scene.running():
            scene.driver.seconds, scene.driver.fault = DEADLINE_SECONDS, NvmlSilent("DeviceGetCount", DEADLINE_SECONDS)
            found = []
            for until in (14.0, 15.5, 59.0, 61.0):
                await asyncio.sleep(until - now())
                found.append((*scene.up(), scene.value(families.SNAPSHOT_STALE.name)))

        assert [
            (1.0, False, 2.0 * GIB, 1.0),
            (0.0, False, 2.0 * GIB, 1.0),
            (0.0, False, 2.0 * GIB, 1.0),
            (0.0, False, None, None),
        ] == found

    async def test_a_start_that_hangs(self, scene: Scene) -> None:
        """Init that takes minutes is told with its duration, and the first figures come with the next cycle."""
        scene.driver.fault = NvmlSilent("Init", DEADLINE_SECONDS)
        async with scene.running():
            await asyncio.sleep(149.5)
            during = scene.health.readiness()
            scene.driver.fault = None
            await asyncio.sleep(INTERVAL)

            assert Readiness(ready=False, reason="driver starting, 150 s") == during
            assert (1.0, True, 2.0 * GIB) == scene.up()

    async def test_records_out_of_reach(self, scene: Scene) -> None:
        """Without records nothing can be attributed, so that the last figures age though NVML is up."""
        async with scene.running():
            scene.files.fault = DENIED
            await asyncio.sleep(11.0)
            stale = (*scene.up(), scene.value(families.SNAPSHOT_STALE.name))
            reason = scene.health.readiness().reason
            await asyncio.sleep(60.0)

            assert (1.0, False, 2.0 * GIB, 1.0) == stale
            assert str(DENIED) == reason
            assert (1.0, False, None) == scene.up()

    async def test_files_that_hang(self, scene: Scene) -> None:
        """A directory that does not answer is told, and holds up no more than its deadline."""
        scene.files.hangs = True
        async with scene.running():
            await asyncio.sleep(DEADLINE_SECONDS)

            assert {Outcome.NODE_UNREADABLE: 1} == scene.cycles()
            assert "records and processes not read within 10 s" == scene.health.readiness().reason

    async def test_a_bug(self, scene: Scene) -> None:
        """What nobody foresaw ends the service, which is then started anew."""
        scene.files.fault = LookupError("a bug")
        with pytest.raises(LookupError):
            await scene.cycle().run()

    async def test_the_end_during_a_call(self, scene: Scene) -> None:
        """It ends at once when it is cancelled, also while NVML hangs."""
        scene.driver.seconds = 3600.0
        async with scene.running():
            pass

        assert pytest.approx(0.5) == now()


class TestLog:
    async def test_gpus_that_fall_silent(self, scene: Scene, log: LogLines) -> None:
        """A GPU that is lost, and one that is back, is named once, with the error."""
        whole = scene.driver.answer
        lost = Sample("615.43.02", (), (LostDevice(0, NvmlUnavailable(15, "GPU_IS_LOST", "DeviceGetUUID")),))
        async with scene.running():
            for scene.driver.answer in (whole, lost, whole):
                await asyncio.sleep(30.0)

        assert [
            ("gpu_silent", "GPU-1", "NVML DeviceGetUUID: GPU_IS_LOST (15)"),
            ("gpu_not_silent", "GPU-1", None),
        ] == [(line["event"], line["gpu_uuid"], line.get("error")) for line in log if "gpu_uuid" in line]

    async def test_a_line_for_each_change(self, scene: Scene, log: LogLines) -> None:
        """Faults are told when they come, change and end, not at every cycle."""
        steps: list[tuple[NvmlError | None, Unavailable | None]] = [
            (None, None),
            (UNKNOWN, None),
            (NvmlSilent("Init", 1.0), None),
            (None, DENIED),
            (None, None),
        ]
        async with scene.running():
            for scene.driver.fault, scene.files.fault in steps:
                await asyncio.sleep(30.0)

        assert [
            ("node_read", None, None),
            ("node_not_read", "nvml_error", "NVML DeviceGetCount: UNKNOWN (999)"),
            ("node_not_read", "nvml_silent", "NVML Init does not answer"),
            ("node_not_read", "node_unreadable", str(DENIED)),
            ("node_read", None, None),
        ] == [(line["event"], line.get("kind"), line.get("error")) for line in log]
        assert ("615.43.02", 1, 2) == tuple(log[0][key] for key in ("driver", "gpus", "containers"))
