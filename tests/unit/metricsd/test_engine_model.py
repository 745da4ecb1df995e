"""
The engine and the page against counting by hand, whatever comes and goes between two cycles.

Everything is compared as a scrape shows it: text, read by Prometheus' own reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import attrs
from fractioning_core.nvml.errors import NvmlUnavailable, returned
from fractioning_core.nvml.samples import Device, DeviceSample, LostDevice, ProcessMemory, Sample, SmUse
from fractioning_core.record import GpuDevice, Record
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from metricsd import engine, families
from metricsd.collectors import collectors
from metricsd.engine import Memory
from metricsd.families import PodNames
from metricsd.metrics import Metrics
from metricsd.page import Renderer
from metricsd.snapshot import Snapshot
from metricsd.world import Origin, World
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

MIB = 2**20
# Minors are not the indices that a driver begins with.
MINORS = {"GPU-a": 1, "GPU-b": 0, "GPU-c": 2}
ON_A, ON_B = GpuDevice(uuid="GPU-a"), GpuDevice(uuid="GPU-b")
# What the minor says counts where nobody has ever seen the UUID.
BY_BOTH = GpuDevice(uuid="GPU-c", minor_number=1)
BY_MINOR = GpuDevice(minor_number=1)
TOTAL_MIB, REQUEST_MIB = 16384, 4096
NUMBERINGS = ("ab", "ba", "a", "b", "", "cab", "bc", "ac")
PARTS = collectors(PodNames(), with_containers=True)

Page = dict[str, dict[tuple[str, ...], float]]


def an_id(number: int) -> str:
    return f"{number:064x}"


@attrs.frozen
class Process:
    """
    A process of a container, or of nobody, on some GPUs; NVML may not tell its memory.
    """

    pid: int
    container: int | None
    on: frozenset[str]
    mib: int | None
    sm: int

    @property
    def origin(self) -> Origin:
        """Where /proc says that it belongs."""
        path = "/user.slice" if self.container is None else f"/kubepods/podU/{an_id(self.container)}"
        return Origin((path,))


class Vitals:
    """A health that nobody asks here."""

    is_nvml_up = True

    def snapshot_age_seconds(self) -> float | None:
        """Say nothing."""
        return None

    def is_stale(self) -> bool | None:
        """Say nothing."""
        return None


def a_renderer() -> Callable[[Snapshot], bytes]:
    metrics = Metrics(CollectorRegistry(), vitals=Vitals(), collectors=PARTS)
    return Renderer(PARTS, metrics=metrics, clock=lambda: 0.0).render


def read(text: bytes) -> Page:
    """Read a page: values by name and labels, less those that say the same of everything here."""
    page: Page = {}
    for family in text_string_to_metric_families(text.decode()):
        values = page.setdefault(family.name, {})
        for sample in family.samples:
            key = tuple(value for name, value in sample.labels.items() if name not in {"namespace", "pod"})
            assert key not in values
            values[key] = round(sample.value, 6)
    return page


def total(parts: Iterable[int | None]) -> int | None:
    """Add up, as on paper."""
    known = list(parts)
    return None if None in known else sum(part for part in known if part is not None)


def without_unknown(values: dict[tuple[str, ...], float | None]) -> dict[tuple[str, ...], float]:
    return {key: round(value, 6) for key, value in values.items() if value is not None}


class Node(RuleBasedStateMachine):
    """
    Nothing is lost, nothing is counted twice, and nothing is shown that nobody knows.
    """

    def __init__(self) -> None:
        super().__init__()
        self.memory = Memory()
        self.render = a_renderer()
        self.numbers = iter(range(1, 1_000_000))
        self.uids: dict[str, str] = {}
        self.records: dict[int, Record] = {}
        self.processes: dict[int, Process] = {}
        # The driver's numbers, and what fails.
        self.listed = ["GPU-a", "GPU-b"]
        self.lost: set[str] = set()
        self.without_list: set[str] = set()
        self.without_sm: set[str] = set()
        # What a careful reader remembers.
        self.placed: dict[int, str] = {}
        self.seen: set[str] = set()
        self.shown: set[tuple[str, str]] = set()
        self.met: set[tuple[int, str]] = set()
        self.last_index: dict[str, int] = {}

    @rule(
        pod=st.sampled_from(["one", "two", "three"]),
        container=st.sampled_from(["a", "b"]),
        gpus=st.sampled_from([None, (), (ON_A,), (ON_B,), (ON_A, ON_B), (BY_MINOR,), (BY_BOTH,)]),
    )
    def create_container(self, pod: str, container: str, gpus: tuple[GpuDevice, ...] | None) -> None:
        """A pod's first container gives it a UID."""
        uid = self.uids.setdefault(pod, f"uid-{next(self.numbers)}")
        self.records[next(self.numbers)] = Record(
            pod, "team-ml", uid, gpus, REQUEST_MIB, container, memory_request_mib=REQUEST_MIB, memory_limit_mib=8192
        )

    @precondition(lambda self: self.records)
    @rule(data=st.data())
    def restart_container(self, data: st.DataObject) -> None:
        """The runtime keeps the old one for a time, without its processes."""
        old = data.draw(st.sampled_from(sorted(self.records)))
        self._end_all_of(old)
        self.records[next(self.numbers)] = self.records[old]

    @precondition(lambda self: self.records)
    @rule(data=st.data(), leaves_processes=st.booleans())
    def delete_container(self, data: st.DataObject, *, leaves_processes: bool) -> None:
        """The runtime removes one; what it leaves running is nobody's from then on."""
        self._forget(data.draw(st.sampled_from(sorted(self.records))), leaves_processes=leaves_processes)

    @precondition(lambda self: self.uids)
    @rule(data=st.data(), leaves_processes=st.booleans())
    def delete_pod(self, data: st.DataObject, *, leaves_processes: bool) -> None:
        """The next container under this name is of another pod."""
        uid = self.uids.pop(data.draw(st.sampled_from(sorted(self.uids))))
        for number in [number for number, record in self.records.items() if record.pod_uid == uid]:
            self._forget(number, leaves_processes=leaves_processes)

    @rule(
        data=st.data(),
        on=st.sets(st.sampled_from(sorted(MINORS)), min_size=1),
        mib=st.none() | st.integers(0, 4096),
        sm=st.integers(0, 100),
    )
    def start_process(self, data: st.DataObject, on: set[str], mib: int | None, sm: int) -> None:
        """Of a container that is here, on GPUs that its record may not name, or of the host."""
        container = data.draw(st.sampled_from([None, *sorted(self.records)]))
        pid = next(self.numbers)
        self.processes[pid] = Process(pid, container, frozenset(on), mib, sm)

    @precondition(lambda self: self.processes)
    @rule(data=st.data())
    def end_process(self, data: st.DataObject) -> None:
        """One is gone by the next cycle."""
        del self.processes[data.draw(st.sampled_from(sorted(self.processes)))]

    @rule(letters=st.sampled_from(NUMBERINGS))
    def number_gpus(self, letters: str) -> None:
        """GPUs go and come back, and the driver gives them other numbers; cycles see them before and after."""
        self.sample()
        self.listed = [f"GPU-{letter}" for letter in letters]
        self.sample()

    @rule(gpu=st.sampled_from(sorted(MINORS)), what=st.sampled_from(["lost", "without_list", "without_sm"]))
    def fail_or_mend(self, gpu: str, what: str) -> None:
        """A GPU falls off the bus or does not answer one of the questions, or does again."""
        failing: set[str] = getattr(self, what)
        failing ^= {gpu}

    @rule()
    def sample(self) -> None:
        """Everything on the page is what counting by hand gives."""
        self.memory, snapshot = engine.step(self.memory, self._world())
        page = read(self.render(snapshot))
        self._remember()

        assert self._pods_by_hand() == tuple(page[name] for name in attrs.astuple(PodNames()))
        assert self._containers_by_hand() == page[families.CONTAINER_USED.name]
        assert self._up_by_hand() == page[families.GPU_UP.name]
        assert list(page[families.GPU_UP.name].values()).count(0) == page[families.GPUS_LOST.name][()]
        visible = [process for process in self.processes.values() if self._visible(process)]
        owned = [process for process in visible if process.container in self.records]
        assert (len(visible), len(owned), len(visible) - len(owned)) == (
            page[families.PROCESSES_SEEN.name][()],
            page[families.PROCESSES_ATTRIBUTED.name][()],
            sum(page[families.PROCESSES_UNATTRIBUTED.name].values()),
        )
        for keys in ([of.key for of in snapshot.pods], [of.key for of in snapshot.containers]):
            assert sorted(set(keys)) == keys

    def _world(self) -> World:
        lost = [LostDevice(index, _failed("F")) for index, gpu in enumerate(self.listed) if gpu in self.lost]
        return World(
            sample=Sample("615.43.02", tuple(self._devices()), tuple(lost)),
            records={an_id(number): record for number, record in self.records.items()},
            unreadable=0,
            origins={process.pid: process.origin for process in self.processes.values()},
            limits={},
        )

    def _devices(self) -> Iterator[DeviceSample]:
        for index, gpu in enumerate(self.listed):
            if gpu in self.lost:
                continue
            here = [process for process in self.processes.values() if gpu in process.on]
            memory = tuple(ProcessMemory(of.pid, None if of.mib is None else of.mib * MIB) for of in here)
            functions = []
            if gpu in self.without_list:
                functions.append("DeviceGetComputeRunningProcesses")
            if gpu in self.without_sm | self.without_list:
                functions.append("DeviceGetProcessUtilization")
            yield DeviceSample(
                Device(index, gpu, MINORS[gpu], TOTAL_MIB * MIB),
                compute=() if gpu in self.without_list else memory,
                sm=() if functions else tuple(SmUse(of.pid, of.sm, timestamp_us=1) for of in here),
                problems=tuple(_failed(function) for function in functions),
            )

    def _end_all_of(self, number: int) -> None:
        self.processes = {pid: of for pid, of in self.processes.items() if of.container != number}

    def _forget(self, number: int, *, leaves_processes: bool) -> None:
        del self.records[number]
        if not leaves_processes:
            self._end_all_of(number)

    def _told(self) -> dict[int, str]:
        return {index: gpu for index, gpu in enumerate(self.listed) if gpu not in self.lost}

    def _telling(self) -> dict[str, int]:
        return {gpu: index for index, gpu in self._told().items() if gpu not in self.without_list}

    def _visible(self, process: Process) -> frozenset[str]:
        return process.on & self._telling().keys()

    def _recorded(self) -> set[tuple[int, str]]:
        placed = set(self.placed.values())
        found = set()
        for number, record in self.records.items():
            for entry in record.gpu_devices or ():
                by_minor = next((gpu for gpu in MINORS if MINORS[gpu] == entry.minor_number), "")
                gpu = entry.uuid if entry.uuid in self.seen else by_minor
                if gpu in placed:
                    found.add((number, gpu))
        return found

    def _used(self) -> set[tuple[int, str]]:
        processes = [(of.container, self._visible(of)) for of in self.processes.values()]
        return {(number, gpu) for number, on in processes if number in self.records for gpu in on}

    def _remember(self) -> None:
        told = self._told()
        absent = {index: gpu for index, gpu in self.placed.items() if index not in told and gpu not in told.values()}
        self.placed = absent | told
        self.seen |= set(told.values())
        self.last_index |= {gpu: index for index, gpu in told.items()}
        here = set(self.placed.values())
        self.met = {(number, gpu) for number, gpu in self.met | self._used() if number in self.records and gpu in here}
        now = {(self.records[number].pod_uid, gpu) for number, gpu in self._recorded() | self._used()}
        active = {record.pod_uid for record in self.records.values()}
        self.shown = {(uid, gpu) for uid, gpu in self.shown | now if uid in active}

    def _pods_by_hand(self) -> tuple[dict[tuple[str, ...], float], ...]:
        telling = self._telling()
        found = [(uid, gpu, self._pod_by_hand(uid, gpu)) for uid, gpu in self.shown if gpu in telling]
        return tuple(
            without_unknown({(uid, gpu, str(telling[gpu])): values[number] for uid, gpu, values in found})
            for number in range(3)
        )

    def _pod_by_hand(self, uid: str, gpu: str) -> tuple[float | None, ...]:
        own = {number for number, record in self.records.items() if record.pod_uid == uid}
        processes = [of for of in self.processes.values() if of.container in own and gpu in of.on]
        memory = total(None if of.mib is None else of.mib * MIB for of in processes)
        if gpu in self.without_sm:
            return memory, None, None
        sm = min(100.0, sum(of.sm for of in processes))
        there = {number for number, on in self._recorded() | self._used() if number in own and on == gpu}
        requested_mib = len({self.records[number].container for number in there}) * REQUEST_MIB
        return memory, sm, min(100.0, sm * TOTAL_MIB / (requested_mib or TOTAL_MIB))

    def _containers_by_hand(self) -> dict[tuple[str, ...], float]:
        telling = self._telling()
        found: dict[tuple[str, ...], list[int | None]] = {}
        for number, gpu in self._recorded() | self.met:
            if gpu in telling:
                record = self.records[number]
                values = found.setdefault((record.pod_uid, record.container, gpu, str(telling[gpu])), [])
                own = [of for of in self.processes.values() if of.container == number and gpu in of.on]
                values += [None if of.mib is None else of.mib * MIB for of in own]
        return without_unknown({key: total(values) for key, values in found.items()})

    def _up_by_hand(self) -> dict[tuple[str, ...], float]:
        telling = self._telling()
        known: dict[tuple[str, ...], float] = {
            (gpu, str(index)): float(gpu in telling) for gpu, index in self.last_index.items()
        }
        taken = set(self.placed)
        lost = [index for index, gpu in enumerate(self.listed) if gpu in self.lost]
        # Nobody knows which GPU is lost where none was met before.
        return known | {("", str(index)): 0.0 for index in lost if index not in taken}


def _failed(function: str) -> NvmlUnavailable:
    return returned(999, name="UNKNOWN", function=function)


Node.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


TestAgainstCountingByHand = Node.TestCase
