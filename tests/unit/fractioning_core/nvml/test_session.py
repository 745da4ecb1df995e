# ruff: noqa: D102 - what a function of the fake does is said where the real one is
from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest
from fractioning_core.nvml import errors
from fractioning_core.nvml.errors import DriverMismatch, NvmlUnavailable
from fractioning_core.nvml.functions import Functions, Handle, Utilization
from fractioning_core.nvml.samples import (
    Device,
    DeviceSample,
    LimitsQuery,
    LostDevice,
    MemoryLimits,
    ProcessMemory,
    Sample,
    SmUse,
)
from fractioning_core.nvml.session import READINGS_WITH_LOSS, TRIES, Session

NAMES = {
    1: "UNINITIALIZED",
    2: "INVALID_ARGUMENT",
    3: "NOT_SUPPORTED",
    6: "NOT_FOUND",
    7: "INSUFFICIENT_SIZE",
    9: "DRIVER_NOT_LOADED",
    13: "FUNCTION_NOT_FOUND",
    15: "GPU_IS_LOST",
    17: "OPERATING_SYSTEM",
    18: "LIB_RM_VERSION_MISMATCH",
    999: "UNKNOWN",
}
VERSION = "615.43.02"
NOW = 1_000_000.0
NOW_US = 1_000_000_000_000
CGROUP = "/sys/fs/cgroup/kubepods.slice/a.scope"
LIMITS = MemoryLimits(1 << 30, 2 << 30, 5)


def an_error(code: int, function: str) -> NvmlUnavailable:
    """
    Make the error that a function returns.
    """
    return errors.returned(code, name=NAMES[code], function=function)


@attrs.define
class FakeGpu:
    """
    A GPU that a test decides on; `errors` are codes by function, `races` says how often a list has grown meanwhile.
    """

    uuid: str
    minor: int = 0
    memory_total_bytes: int | None = 80 << 30
    compute: tuple[ProcessMemory, ...] = ()
    graphics: tuple[ProcessMemory, ...] = ()
    used: tuple[Utilization, ...] = ()
    limits: Mapping[str, MemoryLimits] = attrs.field(factory=dict)
    errors: Mapping[str, int] = attrs.field(factory=dict)
    races: int = 0


class FakeNvml(Functions):
    """
    NVML as it behaves: nothing works before the start, and a handle counts for its session only.
    """

    def __init__(self, *gpus: FakeGpu) -> None:
        super().__init__(on_call=lambda *_: None)
        self.gpus = list(gpus)
        self.errors: dict[str, int] = {}
        self.sessions = 0
        self.is_open = False
        self.asked: list[str] = []

    def start(self) -> None:
        assert not self.is_open
        self._enter("Init")
        self.sessions += 1
        self.is_open = True

    def shutdown(self) -> None:
        assert self.is_open
        self.is_open = False

    def driver_version(self) -> str:
        self._enter("SystemGetDriverVersion")
        return VERSION

    def device_count(self) -> int:
        self._enter("DeviceGetCount")
        return len(self.gpus)

    def handle(self, index: int) -> Handle:
        self._enter("DeviceGetHandleByIndex")
        if index >= len(self.gpus):
            raise an_error(2, "DeviceGetHandleByIndex")
        self._enter_gpu("DeviceGetHandleByIndex", self.gpus[index])
        return Handle((self.sessions, index))

    def uuid(self, device: Handle) -> str:
        return self._gpu("DeviceGetUUID", device).uuid

    def minor(self, device: Handle) -> int:
        return self._gpu("DeviceGetMinorNumber", device).minor

    def memory_total(self, device: Handle) -> int | None:
        return self._gpu("DeviceGetMemoryInfo", device).memory_total_bytes

    def compute_processes(self, device: Handle) -> tuple[ProcessMemory, ...]:
        return self._list("DeviceGetComputeRunningProcesses", device).compute

    def graphics_processes(self, device: Handle) -> tuple[ProcessMemory, ...]:
        return self._list("DeviceGetGraphicsRunningProcesses", device).graphics

    def utilization(self, device: Handle, since_us: int) -> tuple[Utilization, ...]:
        gpu = self._list("DeviceGetProcessUtilization", device)
        used = tuple(entry for entry in gpu.used if entry.timestamp_us > since_us)
        if not used:
            raise an_error(6, "DeviceGetProcessUtilization")
        return used

    def memory_limits(self, device: Handle, cgroup: str) -> MemoryLimits:
        gpu = self._gpu("DeviceGetMemoryLimits", device)
        if cgroup not in gpu.limits:
            raise an_error(6, "DeviceGetMemoryLimits")
        return gpu.limits[cgroup]

    def _enter(self, function: str) -> None:
        self.doing = function
        self.asked.append(function)
        if code := self.errors.get(function):
            raise an_error(code, function)
        if function != "Init" and not self.is_open:
            raise an_error(1, function)

    def _enter_gpu(self, function: str, gpu: FakeGpu) -> None:
        if code := gpu.errors.get(function, gpu.errors.get("all", 0)):
            raise an_error(code, function)

    def _gpu(self, function: str, device: Handle) -> FakeGpu:
        self._enter(function)
        for index, gpu in enumerate(self.gpus):
            if device == Handle((self.sessions, index)):
                self._enter_gpu(function, gpu)
                return gpu
        raise an_error(2, function)

    def _list(self, function: str, device: Handle) -> FakeGpu:
        gpu = self._gpu(function, device)
        if gpu.races:
            gpu.races -= 1
            raise an_error(7, function)
        return gpu


@attrs.define
class Clock:
    """
    A clock that a test sets.
    """

    now: float = NOW

    def __call__(self) -> float:
        return self.now


def a_session(nvml: FakeNvml, clock: Clock | None = None) -> Session:
    """
    Make a session of readings five seconds apart.
    """
    return Session(nvml, interval_seconds=5.0, clock=clock or Clock())


def never() -> bool:
    """
    Leave time for all.
    """
    return False


def used(pid: int, sm: int, *, timestamp_us: int = NOW_US - 1) -> Utilization:
    """
    Make an entry of what a process used.
    """
    return Utilization(pid, timestamp_us, sm, 0, 0, 0)


def idle(uuid: str, index: int = 0) -> DeviceSample:
    """
    Give what is read of a GPU that nobody uses.
    """
    return DeviceSample(Device(index, uuid, 0, 80 << 30))


class TestSample:
    def test_a_busy_gpu(self) -> None:
        """
        A sample has the driver, and for each GPU what it is, who is on it and what they use.
        """
        compute = (ProcessMemory(7, 1 << 30), ProcessMemory(8, None))
        graphics = (ProcessMemory(7, 1 << 20),)
        gpu = FakeGpu("GPU-1", minor=3, compute=compute, graphics=graphics, used=(used(7, 40),))

        sample = a_session(FakeNvml(gpu, FakeGpu("GPU-2"))).sample()

        device = Device(0, "GPU-1", 3, 80 << 30)
        busy = DeviceSample(device, compute, graphics, (SmUse(7, 40, NOW_US - 1),))
        assert Sample(VERSION, (busy, idle("GPU-2", 1))) == sample

    def test_no_gpu(self) -> None:
        """
        A driver without GPUs is an answer.
        """
        assert Sample(VERSION, ()) == a_session(FakeNvml()).sample()

    def test_unified_memory(self) -> None:
        """
        A GPU that does not tell its memory keeps its place, and is asked each time.
        """
        gpu = FakeGpu("GPU-1", memory_total_bytes=None)
        session = a_session(FakeNvml(gpu))
        before = session.sample()
        gpu.memory_total_bytes = 1 << 30

        totals = [device.device.memory_total_bytes for device in (*before.devices, *session.sample().devices)]
        assert [None, 1 << 30] == totals

    def test_identity_is_read_once(self) -> None:
        """
        A second sample asks for nothing that does not change.
        """
        nvml = FakeNvml(FakeGpu("GPU-1"))
        session = a_session(nvml)
        session.sample()
        nvml.asked.clear()
        session.sample()

        assert nvml.asked == [
            "SystemGetDriverVersion",
            "DeviceGetCount",
            "DeviceGetComputeRunningProcesses",
            "DeviceGetGraphicsRunningProcesses",
            "DeviceGetProcessUtilization",
        ]


class TestUse:
    def test_it_counts_once(self) -> None:
        """
        A use that was seen is not seen again; a newer one is.
        """
        gpu = FakeGpu("GPU-1", used=(used(7, 40),))
        clock = Clock()
        session = a_session(FakeNvml(gpu), clock)
        seen = [session.sample()]
        clock.now += 5.0
        seen.append(session.sample())
        gpu.used = (used(7, 40), used(7, 60, timestamp_us=NOW_US))
        seen.append(session.sample())

        percents = [[use.sm_percent for use in sample.devices[0].sm] for sample in seen]
        assert [[40], [], [60]] == percents

    def test_what_is_too_old_at_first(self) -> None:
        """
        The first sample goes back one interval.
        """
        before, within = NOW_US - 5_000_001, NOW_US - 4_999_999
        gpu = FakeGpu("GPU-1", used=(used(7, 1, timestamp_us=before), used(8, 2, timestamp_us=within)))

        assert (SmUse(8, 2, within),) == a_session(FakeNvml(gpu)).sample().devices[0].sm

    def test_gpus_apart(self) -> None:
        """
        What was seen of one GPU hides nothing of another.
        """
        nvml = FakeNvml(FakeGpu("GPU-1", used=(used(7, 40),)), FakeGpu("GPU-2", used=()))
        session = a_session(nvml)
        session.sample()
        nvml.gpus[1].used = (used(8, 50, timestamp_us=NOW_US - 2),)

        assert (SmUse(8, 50, NOW_US - 2),) == session.sample().devices[1].sm


class TestProblems:
    @pytest.mark.parametrize("code", [pytest.param(3, id="not supported"), pytest.param(6, id="not found")])
    @pytest.mark.parametrize(
        "function",
        ["DeviceGetComputeRunningProcesses", "DeviceGetGraphicsRunningProcesses", "DeviceGetProcessUtilization"],
    )
    def test_what_a_gpu_has_not(self, function: str, code: int) -> None:
        """
        A list that a GPU does not have is empty and no problem.
        """
        nvml = FakeNvml(FakeGpu("GPU-1", errors={function: code}))

        assert (idle("GPU-1"),) == a_session(nvml).sample().devices

    def test_of_one_call(self) -> None:
        """
        What fails is told in the order of the calls, and what does not fail counts.
        """
        failing = {"DeviceGetMemoryInfo": 999, "DeviceGetGraphicsRunningProcesses": 17}
        gpu = FakeGpu("GPU-1", compute=(ProcessMemory(7, 1),), used=(used(7, 40),), errors=failing)

        sample = a_session(FakeNvml(gpu)).sample()

        expected = DeviceSample(
            Device(0, "GPU-1", 0, None),
            compute=(ProcessMemory(7, 1),),
            sm=(SmUse(7, 40, NOW_US - 1),),
            problems=tuple(an_error(code, function) for function, code in failing.items()),
        )
        assert (expected,) == sample.devices

    def test_the_total_stays_known(self) -> None:
        """
        Memory that was told once in a session is not asked for again.
        """
        gpu = FakeGpu("GPU-1")
        session = a_session(FakeNvml(gpu))
        session.sample()
        gpu.errors = {"DeviceGetMemoryInfo": 999}

        assert (idle("GPU-1"),) == session.sample().devices

    @pytest.mark.parametrize(
        ("races", "problems"),
        [
            pytest.param(TRIES - 1, (), id="a few times"),
            pytest.param(TRIES, (an_error(7, "DeviceGetComputeRunningProcesses"),), id="without an end"),
        ],
    )
    def test_a_list_that_grows(self, races: int, problems: tuple[NvmlUnavailable, ...]) -> None:
        """
        A list that grew while it was asked for is asked for again, a bounded number of times.
        """
        gpu = FakeGpu("GPU-1", compute=(ProcessMemory(7, 1),), races=races)

        sample = a_session(FakeNvml(gpu)).sample().devices[0]

        assert (problems, () if problems else gpu.compute) == (sample.problems, sample.compute)

    def test_they_are_values(self) -> None:
        """
        A problem holds no traceback, whose frames would keep everything that was read.
        """
        nvml = FakeNvml(FakeGpu("GPU-1", errors={"DeviceGetMemoryInfo": 999}), FakeGpu("GPU-2", errors={"all": 15}))

        sample = a_session(nvml).sample()

        kept = (*sample.devices[0].problems, sample.lost[0].problem)
        assert [(None, None, None)] * 2 == [(kind.__traceback__, kind.__cause__, kind.__context__) for kind in kept]


class TestLostDevices:
    @pytest.mark.parametrize("function", ["DeviceGetHandleByIndex", "DeviceGetUUID", "DeviceGetMinorNumber"])
    def test_without_identity(self, function: str) -> None:
        """
        A GPU that does not tell who it is is lost, and spoils no other.
        """
        nvml = FakeNvml(FakeGpu("GPU-1", errors={function: 999}), FakeGpu("GPU-2"))

        expected = Sample(VERSION, (idle("GPU-2", 1),), (LostDevice(0, an_error(999, function)),))
        assert expected == a_session(nvml).sample()

    def test_while_it_is_read(self) -> None:
        """
        A GPU that falls off the bus in a session is lost, though its identity is known.
        """
        nvml = FakeNvml(FakeGpu("GPU-1"), FakeGpu("GPU-2"))
        session = a_session(nvml)
        session.sample()
        nvml.gpus[1].errors = {"all": 15}

        lost = LostDevice(1, an_error(15, "DeviceGetComputeRunningProcesses"))
        assert Sample(VERSION, (idle("GPU-1"),), (lost,)) == session.sample()

    def test_all_of_them(self) -> None:
        """
        Where no GPU answers the whole reading fails, and the next one starts over.
        """
        nvml = FakeNvml(FakeGpu("GPU-1", errors={"all": 15}), FakeGpu("GPU-2", errors={"all": 999}))
        session = a_session(nvml)
        with pytest.raises(NvmlUnavailable) as told:
            session.sample()

        assert (an_error(15, "DeviceGetHandleByIndex"), False) == (told.value, nvml.is_open)

    def test_one_that_came_back(self) -> None:
        """
        While a GPU is lost a new session is made now and then, which alone sees the one that came back.
        """
        nvml = FakeNvml(FakeGpu("GPU-1"), FakeGpu("GPU-2", errors={"all": 15}))
        session = a_session(nvml)
        for _ in range(READINGS_WITH_LOSS):
            session.sample()
        before = nvml.sessions
        for _ in range(READINGS_WITH_LOSS):
            session.sample()

        assert (1, 2) == (before, nvml.sessions)

    def test_it_came_back_by_itself(self) -> None:
        """
        Readings without a loss in between begin the count anew.
        """
        nvml = FakeNvml(FakeGpu("GPU-1"), FakeGpu("GPU-2"))
        session = a_session(nvml)
        for number in range(READINGS_WITH_LOSS * 2):
            nvml.gpus[1].errors = {"all": 15} if number % 4 else {}
            session.sample()

        assert 1 == nvml.sessions


class TestSessions:
    def test_one_for_all_readings(self) -> None:
        """
        Readings that succeed share a session.
        """
        nvml = FakeNvml(FakeGpu("GPU-1", limits={CGROUP: LIMITS}))
        session = a_session(nvml)
        for _ in range(3):
            session.sample()
            session.memory_limits([LimitsQuery(0, CGROUP)], is_over=never)

        assert (1, True) == (nvml.sessions, nvml.is_open)

    @pytest.mark.parametrize(
        ("function", "code"),
        [
            pytest.param("Init", 999, id="the start"),
            pytest.param("SystemGetDriverVersion", 999, id="the version"),
            pytest.param("DeviceGetCount", 999, id="the count"),
            pytest.param("DeviceGetUUID", 1, id="not started, in an identity"),
            pytest.param("DeviceGetMemoryInfo", 18, id="a mismatch, in the memory"),
            pytest.param("DeviceGetComputeRunningProcesses", 9, id="no driver, in a list"),
            pytest.param("DeviceGetProcessUtilization", 18, id="a mismatch, in the use"),
        ],
    )
    def test_a_failure_of_the_whole(self, function: str, code: int) -> None:
        """
        What concerns the driver fails the reading and ends the session; the next reading is made in a new one.
        """
        nvml = FakeNvml(FakeGpu("GPU-1"))
        session = a_session(nvml)
        nvml.errors = {function: code}
        with pytest.raises(NvmlUnavailable) as told:
            session.sample()
        after = nvml.is_open
        nvml.errors = {}

        assert (an_error(code, function), False) == (told.value, after)
        assert Sample(VERSION, (idle("GPU-1"),)) == session.sample()

    def test_another_machine_afterwards(self) -> None:
        """
        Nothing that one session knew of a GPU is believed in the next.
        """
        nvml = FakeNvml(FakeGpu("GPU-1"), FakeGpu("GPU-2"))
        session = a_session(nvml)
        session.sample()
        nvml.errors = {"DeviceGetCount": 999}
        with pytest.raises(NvmlUnavailable):
            session.sample()
        nvml.errors = {}
        nvml.gpus.reverse()

        assert (idle("GPU-2"), idle("GPU-1", 1)) == session.sample().devices

    def test_the_end(self) -> None:
        """
        Closing ends the session once, however often it is done, and whether or not there was one.
        """
        nvml = FakeNvml()
        session = a_session(nvml)
        session.close()
        session.sample()
        session.close()
        session.close()

        assert (1, False) == (nvml.sessions, nvml.is_open)


class TestMemoryLimits:
    def test_in_the_order_of_the_queries(self) -> None:
        """
        Each query has its limits or its error, in its place.
        """
        nvml = FakeNvml(FakeGpu("GPU-1"), FakeGpu("GPU-2", limits={CGROUP: LIMITS}))
        session = a_session(nvml)
        session.sample()

        answers = session.memory_limits(
            [LimitsQuery(0, CGROUP), LimitsQuery(1, CGROUP), LimitsQuery(2, CGROUP)], is_over=never
        )

        no_such_gpu = an_error(2, "DeviceGetHandleByIndex")
        assert (an_error(6, "DeviceGetMemoryLimits"), LIMITS, no_such_gpu) == answers

    def test_no_query(self) -> None:
        """
        Nothing asked is nothing answered.
        """
        assert () == a_session(FakeNvml()).memory_limits([], is_over=never)

    def test_no_time_for_all(self) -> None:
        """
        When it is over the rest is not read, but the first always is.
        """
        session = a_session(FakeNvml(FakeGpu("GPU-1", limits={CGROUP: LIMITS})))
        is_over = iter([False, True, True]).__next__

        answers = [session.memory_limits([LimitsQuery(0, CGROUP)] * 5, is_over=is_over) for _ in range(2)]

        assert [(LIMITS, LIMITS), (LIMITS,)] == answers

    def test_before_any_sample(self) -> None:
        """
        Limits need no sample before them.
        """
        nvml = FakeNvml(FakeGpu("GPU-1", limits={CGROUP: LIMITS}))

        assert (LIMITS,) == a_session(nvml).memory_limits([LimitsQuery(0, CGROUP)], is_over=never)

    @pytest.mark.parametrize(
        ("code", "calls"),
        [
            pytest.param(13, 1, id="a library without the function"),
            pytest.param(15, 1, id="a lost GPU"),
            pytest.param(3, 5, id="not supported"),
            pytest.param(17, 5, id="a cgroup that is gone"),
        ],
    )
    def test_what_is_not_asked_again(self, code: int, calls: int) -> None:
        """
        An error that is the same for every cgroup is met once and given to each query.
        """
        nvml = FakeNvml(FakeGpu("GPU-1", errors={"DeviceGetMemoryLimits": code}))
        session = a_session(nvml)

        answers = session.memory_limits([LimitsQuery(0, CGROUP)] * 5, is_over=never)

        assert (an_error(code, "DeviceGetMemoryLimits"),) * 5 == answers
        assert calls == nvml.asked.count("DeviceGetMemoryLimits")

    def test_a_lost_gpu_and_others(self) -> None:
        """
        A GPU that is lost is passed over, and the others are asked.
        """
        lost = FakeGpu("GPU-1", errors={"DeviceGetMemoryLimits": 15})
        nvml = FakeNvml(lost, FakeGpu("GPU-2", limits={CGROUP: LIMITS}))

        answers = a_session(nvml).memory_limits([LimitsQuery(0, CGROUP), LimitsQuery(1, CGROUP)], is_over=never)

        assert (an_error(15, "DeviceGetMemoryLimits"), LIMITS) == answers

    def test_a_failure_of_the_whole(self) -> None:
        """
        What concerns the driver is raised, and ends the session.
        """
        nvml = FakeNvml(FakeGpu("GPU-1"))
        session = a_session(nvml)
        session.sample()
        nvml.errors = {"DeviceGetMemoryLimits": 18}
        with pytest.raises(DriverMismatch):
            session.memory_limits([LimitsQuery(0, CGROUP)], is_over=never)

        assert not nvml.is_open
