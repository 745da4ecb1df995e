from __future__ import annotations

import random
from typing import Any

import attrs
import pytest
from fractioning_core.nvml.errors import returned
from fractioning_core.nvml.samples import (
    Device,
    DeviceSample,
    LostDevice,
    MemoryLimits,
    ProcessMemory,
    Sample,
    SmUse,
)
from fractioning_core.record import GpuDevice, Record
from metricsd import engine
from metricsd.engine import Memory
from metricsd.snapshot import Enforcement, Gpu, PodOnGpu, PodUse, SilentGpu, Snapshot, Unattributed
from metricsd.world import ContainerOnGpu, Limits, Origin, World

MIB = 2**20
GIB = 2**30
A = Device(0, "GPU-a", minor=0, memory_total_bytes=16 * GIB)
B = Device(1, "GPU-b", minor=1, memory_total_bytes=16 * GIB)
ON_A = GpuDevice(uuid="GPU-a")
ON_B = GpuDevice(uuid="GPU-b")
LOST = returned(15, name="GPU_IS_LOST", function="DeviceGetHandleByIndex")


def an_id(number: int) -> str:
    return f"{number:064x}"


def a_record(
    pod: str = "one",
    *,
    uid: str = "",
    container: str = "main",
    gpus: tuple[GpuDevice, ...] | None = (ON_A,),
    limit_mib: int = 8192,
) -> Record:
    """Record a container that asked for half of a GPU, on the first one."""
    return Record(
        pod, "team-ml", uid or f"{pod}-uid", gpus, limit_mib, container,
        memory_request_mib=limit_mib, memory_limit_mib=limit_mib,
    )  # fmt: skip


class Process:
    """
    A process of a container, or of nobody, on some GPUs.
    """

    def __init__(self, pid: int, container: int | None, *on: int, mib: int = 0, sm: int = 0) -> None:
        self.pid = pid
        self.container = container
        self.on = on or (0,)
        self.mib = mib
        self.sm = sm

    @property
    def origin(self) -> Origin:
        """Where /proc says that it belongs."""
        if self.container is None:
            return Origin(("/user.slice",))
        return Origin((f"/kubepods.slice/kubepods-podU.slice/cri-containerd-{an_id(self.container)}.scope",))


def a_world(
    records: dict[int, Record],
    *processes: Process,
    devices: tuple[Device, ...] = (A, B),
    lost: tuple[int, ...] = (),
    limits: dict[ContainerOnGpu, Limits] | None = None,
) -> World:
    """Give what a cycle reads on a node with these containers and processes."""
    sampled = tuple(
        DeviceSample(
            device,
            compute=tuple(ProcessMemory(of.pid, of.mib * MIB) for of in processes if device.index in of.on),
            sm=tuple(SmUse(of.pid, of.sm, timestamp_us=1) for of in processes if device.index in of.on),
        )
        for device in devices
    )
    return World(
        sample=Sample("615.43.02", sampled, tuple(LostDevice(index, LOST) for index in lost)),
        records={an_id(number): record for number, record in records.items()},
        unreadable=0,
        origins={of.pid: of.origin for of in processes},
        limits=limits or {},
    )


def cycles(*worlds: World, window: int = 1) -> list[Snapshot]:
    memory, snapshots = Memory(), []
    for world in worlds:
        memory, snapshot = engine.step(memory, world, window=window)
        snapshots.append(snapshot)
    return snapshots


def pods(snapshot: Snapshot) -> list[tuple[str, str, float | None, float | None, float | None]]:
    """Show the pods' figures as a page of the reference has them."""
    return [
        (of.key.pod, of.key.gpu_uuid, in_mib(of.memory_bytes), of.sm_percent, of.sm_normalized_percent)
        for of in snapshot.pods
    ]


def in_mib(value: int | None) -> float | None:
    return None if value is None else value / MIB


class TestPods:
    @pytest.mark.parametrize(
        ("world", "expected"),
        [
            pytest.param(a_world({}, Process(7, 1, mib=1024, sm=25)), [], id="no containers"),
            pytest.param(
                a_world({1: a_record(gpus=())}, Process(7, 1, mib=1024, sm=25)),
                [("one", "GPU-a", 1024, 25.0, 50.0)],
                id="one process",
            ),
            pytest.param(
                a_world(
                    {1: a_record(container="a"), 2: a_record(container="b")},
                    Process(7, 1, mib=1024, sm=10),
                    Process(8, 2, mib=2048, sm=20),
                ),
                [("one", "GPU-a", 3072, 30.0, 30.0)],
                id="two containers",
            ),
            pytest.param(
                a_world(
                    {1: a_record(container="a", limit_mib=4096), 2: a_record(container="b", limit_mib=4096)},
                    Process(7, 1, sm=10),
                    Process(8, 1, sm=10),
                    Process(9, 2, sm=10),
                ),
                [("one", "GPU-a", 0, 30.0, 60.0)],
                id="two quarters, one with two processes",
            ),
            pytest.param(
                a_world({1: a_record()}, Process(7, 1, sm=70), Process(8, 1, sm=60)),
                [("one", "GPU-a", 0, 100.0, 100.0)],
                id="more than all of the SMs",
            ),
            pytest.param(
                a_world({1: a_record()}, Process(7, 1, mib=2048), Process(1, None, mib=1024, sm=50)),
                [("one", "GPU-a", 2048, 0.0, 0.0)],
                id="beside a process of the host",
            ),
            pytest.param(
                a_world(
                    {1: a_record("one"), 2: a_record("two")},
                    Process(7, 1, sm=60),
                    Process(8, 2, sm=40),
                ),
                [("one", "GPU-a", 0, 60.0, 100.0), ("two", "GPU-a", 0, 40.0, 80.0)],
                id="two pods on one GPU",
            ),
            pytest.param(
                a_world(
                    {1: a_record("one"), 2: a_record("two", gpus=(ON_B,))},
                    Process(7, 1, 0, sm=70),
                    Process(8, 2, 1, sm=30),
                ),
                [("one", "GPU-a", 0, 70.0, 100.0), ("two", "GPU-b", 0, 30.0, 60.0)],
                id="two pods on two GPUs, no cross series",
            ),
            pytest.param(
                a_world({1: a_record(gpus=(ON_A, ON_B), limit_mib=4096)}, Process(7, 1, 0, 1, mib=10, sm=20)),
                [("one", "GPU-a", 10, 20.0, 80.0), ("one", "GPU-b", 10, 20.0, 80.0)],
                id="one process on two GPUs",
            ),
            pytest.param(
                a_world({1: a_record(limit_mib=4096)}, Process(7, 1, sm=95)),
                [("one", "GPU-a", 0, 95.0, 100.0)],
                id="a fraction does not throttle",
            ),
            pytest.param(
                a_world({1: a_record(limit_mib=0)}, Process(7, 1, sm=40)),
                [("one", "GPU-a", 0, 40.0, 40.0)],
                id="request not known",
            ),
            pytest.param(
                a_world(
                    {1: a_record()}, Process(7, 1, mib=2048, sm=40), devices=(attrs.evolve(A, memory_total_bytes=None),)
                ),
                [("one", "GPU-a", 2048, 40.0, 40.0)],
                id="size of the GPU not known",
            ),
        ],
    )
    def test_figures(self, world: World, expected: list[tuple[str, str, int, float, float]]) -> None:
        """Memory and SM use of a pod on a GPU are those of its processes there, and of nobody else."""
        (snapshot,) = cycles(world)

        assert expected == pods(snapshot)

    def test_labels(self) -> None:
        """A pod is named with everything that the page tells it apart by."""
        (snapshot,) = cycles(a_world({1: a_record(uid="3f2a-uid", gpus=(ON_B,))}))

        assert (PodUse(PodOnGpu("team-ml", "one", "3f2a-uid", "GPU-b", 1), 0, 0.0, 0.0),) == snapshot.pods


class TestIdlePods:
    # Minors follow the order of discovery, indices the bus: here they are the other way round.
    SWAPPED = (Device(0, "GPU-a", minor=1, memory_total_bytes=GIB), Device(1, "GPU-b", minor=0, memory_total_bytes=GIB))

    @pytest.mark.parametrize(
        ("gpus", "busy_on", "expected"),
        [
            pytest.param((ON_A,), None, [("GPU-a", 0)], id="UUID"),
            pytest.param((ON_A, ON_B), None, [("GPU-a", 0), ("GPU-b", 1)], id="two"),
            pytest.param((), None, [], id="none"),
            pytest.param(None, None, [], id="not told"),
            pytest.param((GpuDevice(minor_number=0),), None, [("GPU-b", 1)], id="minor is not the index"),
            pytest.param((GpuDevice(minor_number=0),), 1, [("GPU-b", 1)], id="busy: no phantom beside it"),
            pytest.param((GpuDevice(index=1, minor_number=0),), None, [("GPU-a", 0)], id="old record: minor as index"),
            pytest.param((GpuDevice(minor_number=5),), None, [], id="no such minor"),
            pytest.param((GpuDevice(uuid="GPU-c"),), None, [], id="no such UUID"),
        ],
    )
    def test_recorded_gpus_have_series(
        self, gpus: tuple[GpuDevice, ...] | None, busy_on: int | None, expected: list[tuple[str, int]]
    ) -> None:
        """Each GPU of a record has one series of its pod, whether or not a process is there."""
        processes = [] if busy_on is None else [Process(7, 1, busy_on, mib=1)]

        (snapshot,) = cycles(a_world({1: a_record(gpus=gpus)}, *processes, devices=self.SWAPPED))

        assert expected == [(of.key.gpu_uuid, of.key.gpu_index) for of in snapshot.pods]


class TestSeries:
    def test_two_pods_come_and_go(self) -> None:
        """Processes that end leave zeros, pods that end leave nothing."""
        records = {1: a_record("one", gpus=()), 2: a_record("two", gpus=())}
        first, second = Process(7, 1, mib=512, sm=30), Process(8, 2, mib=256, sm=50)

        snapshots = cycles(
            a_world(records, first, second), a_world(records, second), a_world({2: records[2]}, second), a_world({})
        )

        assert [
            [("one", "GPU-a", 512, 30.0, 60.0), ("two", "GPU-a", 256, 50.0, 100.0)],
            [("one", "GPU-a", 0, 0.0, 0.0), ("two", "GPU-a", 256, 50.0, 100.0)],
            [("two", "GPU-a", 256, 50.0, 100.0)],
            [],
        ] == [pods(snapshot) for snapshot in snapshots]

    def test_a_pod_lasts_as_long_as_a_container_of_it(self) -> None:
        """The series goes with the last of the pod's records."""
        both = {1: a_record(container="a"), 2: a_record(container="b", gpus=())}

        snapshots = cycles(a_world(both), a_world({2: both[2]}), a_world({}))

        assert [1, 1, 0] == [len(snapshot.pods) for snapshot in snapshots]

    def test_same_name_new_uid(self) -> None:
        """A successor of the same name has series of its own, and the old UID does not return."""
        old, new = a_record(uid="old", gpus=()), a_record(uid="new", gpus=())
        process = Process(8, 2, mib=1)

        snapshots = cycles(
            a_world({1: old}, Process(7, 1, mib=1)), a_world({2: new}), a_world({2: new}, process), a_world({2: new})
        )

        assert [["old"], [], ["new"], ["new"]] == [[of.key.pod_uid for of in shown.pods] for shown in snapshots]

    def test_a_record_without_a_uid(self) -> None:
        """What no UID tells apart is shown while it is found, and no longer."""
        record = attrs.evolve(a_record(gpus=()), pod_uid="")

        snapshots = cycles(a_world({1: record}, Process(7, 1, mib=1)), a_world({1: record}))

        assert [[("one", "GPU-a", 1, 0.0, 0.0)], []] == [pods(snapshot) for snapshot in snapshots]

    def test_a_process_whose_container_is_no_more_known(self) -> None:
        """It is nobody's while the record is gone, though its origin was not read again."""
        with_record = a_world({1: a_record()}, Process(7, 1, mib=1))
        without = attrs.evolve(with_record, records={})

        snapshots = cycles(with_record, without, with_record)

        assert [(1, 0), (0, 1), (1, 0)] == [
            (of.processes_attributed, of.processes_unattributed[Unattributed.UNANNOTATED]) for of in snapshots
        ]

    def test_a_placeholder_is_replaced(self) -> None:
        """A GPU shown without a UUID at first is one series with it later."""
        nameless, record = attrs.evolve(A, uuid=""), a_record(gpus=())
        process = Process(7, 1, mib=1)

        snapshots = cycles(
            a_world({1: record}, process, devices=(nameless,)), a_world({1: record}, process, devices=(A,))
        )

        assert [[""], ["GPU-a"]] == [[of.key.gpu_uuid for of in snapshot.pods] for snapshot in snapshots]


class TestAveraging:
    def test_the_averaged_use_is_normalized(self) -> None:
        """What is more than the fraction for a moment is averaged as it is, and normalised afterwards."""
        busy = [a_world({1: a_record()}, Process(7, 1, sm=sm)) for sm in (80, 10)]

        _, last = cycles(*busy, window=4)

        assert [("one", "GPU-a", 0, 45.0, 90.0)] == pods(last)

    def test_more_than_all_is_clamped_first(self) -> None:
        """A moment counts with at most 100 % in the average."""
        both = a_world({1: a_record()}, Process(7, 1, sm=80), Process(8, 1, sm=80))
        one = a_world({1: a_record()}, Process(7, 1, sm=50))

        _, last = cycles(both, one, window=2)

        assert [("one", "GPU-a", 0, 75.0, 100.0)] == pods(last)

    def test_an_idle_recorded_gpu_goes_on_averaging(self) -> None:
        """A process that ends leaves its use in the window, where the record still has the GPU."""
        records = {1: a_record()}

        _, last = cycles(a_world(records, Process(7, 1, sm=40)), a_world(records), window=2)

        assert [("one", "GPU-a", 0, 20.0, 40.0)] == pods(last)

    @pytest.mark.parametrize(
        "away",
        [
            pytest.param({"devices": (B,), "lost": (0,)}, id="lost"),
            pytest.param({"devices": (B,)}, id="not listed"),
        ],
    )
    def test_a_gpu_that_was_away(self, away: dict[str, Any]) -> None:
        """What nobody knows is no part of the average: it begins anew."""
        busy = a_world({1: a_record()}, Process(7, 1, sm=40))

        *_, last = cycles(busy, a_world({1: a_record()}, **away), busy, window=4)

        assert [40.0] == [of.sm_percent for of in last.pods]

    def test_an_absent_series_begins_anew(self) -> None:
        """Where only the process told of the GPU, its end is the end of the window."""
        records = {1: a_record(gpus=())}
        worlds = [a_world(records, Process(7, 1, sm=40)), a_world(records), a_world(records, Process(8, 1, sm=10))]

        snapshots = cycles(*worlds, window=4)

        assert [40.0, 0.0, 10.0] == [snapshot.pods[0].sm_percent for snapshot in snapshots]


class TestGpus:
    def test_a_size_once_told_is_kept(self) -> None:
        """The fraction goes on to be known when NVML fails to tell the size for a moment."""
        busy = Process(7, 1, sm=30)

        _, last = cycles(
            a_world({1: a_record()}, busy),
            a_world({1: a_record()}, busy, devices=(attrs.evolve(A, memory_total_bytes=None), B)),
        )

        assert [("one", "GPU-a", 0, 30.0, 60.0)] == pods(last)
        assert (Gpu(0, "GPU-a", 16 * GIB), Gpu(1, "GPU-b", 16 * GIB)) == last.gpus

    def test_a_lost_gpu(self) -> None:
        """The others are as they were; nothing is shown of the lost one, where 0 would be false, and it is counted."""
        records = {1: a_record("one"), 2: a_record("two", gpus=(ON_B,))}
        processes = (Process(7, 1, 0, mib=1), Process(8, 2, 1, mib=2))

        _, last = cycles(a_world(records, *processes), a_world(records, *processes, devices=(B,), lost=(0,)))

        assert [("two", "GPU-b", 2, 0.0, 0.0)] == pods(last)
        assert [1] == [of.key.gpu_index for of in last.containers]
        assert ((Gpu(1, "GPU-b", 16 * GIB),), (SilentGpu(0, "GPU-a", str(LOST)),)) == (last.gpus, last.silent)

    @pytest.mark.parametrize(
        ("devices", "expected", "silent"),
        [
            pytest.param((B,), [("two", "GPU-b", 1)], [A], id="the first is not listed"),
            pytest.param((attrs.evolve(B, index=0),), [("two", "GPU-b", 0)], [A], id="numbered anew without the first"),
            pytest.param((), [], [A, B], id="none is listed"),
        ],
    )
    def test_a_gpu_that_is_gone(
        self, devices: tuple[Device, ...], expected: list[tuple[str, str, int]], silent: list[Device]
    ) -> None:
        """Nothing is shown of it, and it is named; what is shown of the others is by the index they have now."""
        records = {1: a_record("one"), 2: a_record("two", gpus=(ON_B,))}

        _, last = cycles(a_world(records), a_world(records, devices=devices))

        assert expected == [(of.key.pod, of.key.gpu_uuid, of.key.gpu_index) for of in last.pods]
        assert expected == [(of.key.pod, of.key.gpu_uuid, of.key.gpu_index) for of in last.containers]
        assert [(of.index, of.uuid) for of in silent] == [(of.index, of.uuid) for of in last.silent]

    def test_numbers_that_come_back(self) -> None:
        """Each pod has one series for its GPU, from before to after a time without another one."""
        records = {1: a_record("one", gpus=()), 2: a_record("two", gpus=())}
        both = a_world(records, Process(7, 1, 0, mib=1), Process(8, 2, 1, mib=2))

        shown = cycles(both, a_world(records, devices=(attrs.evolve(B, index=0),)), a_world(records))

        assert [
            [("one", "GPU-a", 0, MIB), ("two", "GPU-b", 1, 2 * MIB)],
            [("two", "GPU-b", 0, 0)],
            [("one", "GPU-a", 0, 0), ("two", "GPU-b", 1, 0)],
        ] == [[(of.key.pod, of.key.gpu_uuid, of.key.gpu_index, of.memory_bytes) for of in each.pods] for each in shown]

    def test_a_minor_that_another_gpu_has_by_now(self) -> None:
        """A record that names a GPU by UUID and minor is not of the one that has only the minor."""
        records = {1: a_record(gpus=(GpuDevice(uuid="GPU-a", minor_number=0),))}

        _, last = cycles(a_world(records), a_world(records, devices=(attrs.evolve(B, index=0, minor=0),)))

        assert ((), ()) == (last.pods, last.containers)

    def test_sm_use_that_cannot_be_read(self) -> None:
        """It is not known there, memory is; on the other GPU all is as it was."""
        records = {1: a_record("one"), 2: a_record("two", gpus=(ON_B,))}
        world = a_world(records, Process(7, 1, 0, mib=1, sm=9), Process(8, 2, 1, mib=2, sm=10))
        first, second = world.sample.devices
        failed = returned(999, name="UNKNOWN", function="DeviceGetProcessUtilization")
        failing = attrs.evolve(first, sm=(), problems=(failed,))

        (snapshot,) = cycles(attrs.evolve(world, sample=attrs.evolve(world.sample, devices=(failing, second))))

        assert [(MIB, None, None), (2 * MIB, 10.0, 20.0)] == [use[1:] for use in snapshot.pods]
        assert () == snapshot.silent

    def test_memory_that_is_not_told(self) -> None:
        """Of one process, it makes that of its pod and container unknown; SM use is told."""
        world = a_world({1: a_record("one"), 2: a_record("two")}, Process(7, 1, mib=1, sm=9), Process(8, 2, mib=2))
        (first, second) = world.sample.devices
        first = attrs.evolve(first, compute=(ProcessMemory(7, None), *first.compute[1:]))

        (snapshot,) = cycles(attrs.evolve(world, sample=attrs.evolve(world.sample, devices=(first, second))))

        assert [(None, 9.0), (2 * MIB, 0.0)] == [(of.memory_bytes, of.sm_percent) for of in snapshot.pods]
        assert [None, 2 * MIB] == [of.memory_bytes for of in snapshot.containers]

    def test_a_gpu_that_is_back(self) -> None:
        """Series come back with the GPU, those of pods that only it has met among them."""
        records = {1: a_record("one", gpus=())}
        seen, lost = a_world(records, Process(7, 1, 0, mib=1)), a_world(records, devices=(B,), lost=(0,))

        *_, last = cycles(seen, lost, a_world(records))

        assert [("one", "GPU-a", 0, 0.0, 0.0)] == pods(last)

    @pytest.mark.parametrize("function", ["DeviceGetComputeRunningProcesses", "DeviceGetGraphicsRunningProcesses"])
    def test_a_gpu_without_its_list_of_processes(self, function: str) -> None:
        """One that does not say who is on it shows nobody's use, which is not known, and counts as lost."""
        world = a_world({1: a_record("one"), 2: a_record("two", gpus=(ON_B,))}, Process(8, 2, 1, mib=2))
        first, second = world.sample.devices
        failing = attrs.evolve(first, problems=(returned(999, name="UNKNOWN", function=function),))

        (snapshot,) = cycles(attrs.evolve(world, sample=attrs.evolve(world.sample, devices=(failing, second))))

        assert (["two"], 1) == ([of.key.pod for of in snapshot.pods], len(snapshot.silent))
        assert ["two"] == [of.key.pod for of in snapshot.containers]

    def test_an_unknown_size_is_no_size(self) -> None:
        """A GPU that shares the host's memory is shown without a size, beside one that has it."""
        (snapshot,) = cycles(a_world({}, devices=(attrs.evolve(A, memory_total_bytes=None), B)))

        assert (Gpu(0, "GPU-a", None), Gpu(1, "GPU-b", 16 * GIB)) == snapshot.gpus


class TestContainers:
    def test_an_init_container_without_annotation(self) -> None:
        """Only the container that asked for a fraction has a series; the other's process is counted."""
        (snapshot,) = cycles(a_world({2: a_record(container="main")}, Process(7, 1, mib=5), Process(8, 2, mib=9)))

        assert [("main", 9 * MIB)] == [(of.key.container, of.memory_bytes) for of in snapshot.containers]
        assert 1 == snapshot.processes_unattributed[Unattributed.UNANNOTATED]

    def test_a_restarted_sidecar_counts_once(self) -> None:
        """A sidecar with a new id is one series beside its old record, and in its pod's fraction once."""
        sidecar = a_record(container="sidecar", limit_mib=4096)
        records = {1: a_record(container="main", limit_mib=4096), 2: sidecar, 3: sidecar}

        (snapshot,) = cycles(a_world(records, Process(7, 1, mib=10, sm=20), Process(8, 3, mib=20, sm=20)))

        assert ["main", "sidecar"] == [of.key.container for of in snapshot.containers]
        assert [("one", "GPU-a", 30, 40.0, 80.0)] == pods(snapshot)

    def test_a_gpu_that_no_record_names(self) -> None:
        """A GPU on which a process of a container was met stays its own, until the container is gone."""
        records = {1: a_record(gpus=None)}

        snapshots = cycles(a_world(records), a_world(records, Process(7, 1, 1, mib=1)), a_world(records), a_world({}))

        assert [[], [("GPU-b", MIB)], [("GPU-b", 0)], []] == [
            [(of.key.gpu_uuid, of.memory_bytes) for of in snapshot.containers] for snapshot in snapshots
        ]

    def test_a_gpu_that_is_numbered_anew(self) -> None:
        """Where a process was met is where its GPU is, whatever its number is by now."""
        records = {1: a_record(gpus=None)}
        renumbered = (attrs.evolve(B, index=0),)

        _, last = cycles(a_world(records, Process(7, 1, 1, mib=1)), a_world(records, devices=renumbered))

        assert [("GPU-b", 0)] == [(of.key.gpu_uuid, of.key.gpu_index) for of in last.containers]

    @pytest.mark.parametrize(
        ("limits", "expected"),
        [
            pytest.param({0: MemoryLimits(8 * GIB, 8 * GIB, 5)}, Enforcement.ENFORCED, id="in force"),
            pytest.param({1: MemoryLimits(8 * GIB, 8 * GIB, 5)}, Enforcement.NOT_READABLE, id="on another GPU alone"),
            pytest.param({0: returned(3, name="NOT_SUPPORTED", function="F")}, Enforcement.NOT_SUPPORTED, id="refused"),
        ],
    )
    def test_enforcement(self, limits: dict[int, Limits], expected: Enforcement) -> None:
        """A container's verdict is by the limits of its own GPU."""
        read = {ContainerOnGpu(an_id(1), index): value for index, value in limits.items()}

        (snapshot,) = cycles(a_world({1: a_record()}, limits=read))

        assert [expected] == [of.enforcement for of in snapshot.containers]

    @pytest.mark.parametrize(
        ("version", "expected"),
        [
            pytest.param("570.86.15", Enforcement.DRIVER_TOO_OLD, id="old"),
            pytest.param("615.43.02", Enforcement.NOT_SUPPORTED, id="new"),
            pytest.param("unknown", Enforcement.NOT_SUPPORTED, id="not understood"),
        ],
    )
    def test_driver_version(self, version: str, expected: Enforcement) -> None:
        """Whether the driver is too old is known from its own version, and unknown for one that is no version."""
        refused = {ContainerOnGpu(an_id(1), 0): returned(3, name="NOT_SUPPORTED", function="F")}
        world = a_world({1: a_record()}, limits=dict(refused))

        (snapshot,) = cycles(attrs.evolve(world, sample=attrs.evolve(world.sample, driver_version=version)))

        assert (version, expected) == (snapshot.driver_version, snapshot.containers[0].enforcement)


class TestSnapshot:
    def test_counts(self) -> None:
        """Processes and records are counted for who looks after the exporter itself."""
        world = a_world({1: a_record()}, Process(7, 1, 0, 1), Process(8, None))

        (snapshot,) = cycles(attrs.evolve(world, unreadable=3))

        assert (2, 1, 1, 1, 3) == (
            snapshot.processes_seen,
            snapshot.processes_attributed,
            snapshot.processes_unattributed[Unattributed.HOST],
            snapshot.records,
            snapshot.records_unreadable,
        )

    def test_order_of_what_is_read_says_nothing(self) -> None:
        """The same world in another order gives the same snapshot."""
        records = {number: a_record(f"pod-{number % 5}", container=f"c{number % 3}") for number in range(40)}
        processes = [Process(100 + number, number, number % 2, mib=number, sm=number) for number in range(40)]
        shuffled = random.Random(1)  # noqa: S311  not for secrets
        numbers = list(records)
        shuffled.shuffle(numbers)
        other = shuffled.sample(processes, k=len(processes))

        in_order = cycles(a_world(records, *processes))
        out_of_order = cycles(a_world({number: records[number] for number in numbers}, *other))

        assert in_order == out_of_order
