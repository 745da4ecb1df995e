from __future__ import annotations

import pytest
from fractioning_core.nvml.samples import Device, DeviceSample, ProcessMemory, Sample, SmUse
from fractioning_core.record import Record
from metricsd import attribution
from metricsd.attribution import Attribution, Owners, Use
from metricsd.snapshot import Unattributed
from metricsd.world import ContainerOnGpu, Origin, World

ID = "a" * 64
OTHER = "b" * 64
SLICE = "/kubepods.slice/kubepods-podU.slice"
IN_ID = Origin((f"{SLICE}/cri-containerd-{ID}.scope",))
IN_OTHER = Origin((f"{SLICE}/crio-{OTHER}.scope/container",), declares_limit=True)
HOST = Origin(("/system.slice/display.service",))


def a_record(cgroups_path: str = "") -> Record:
    return Record("trainer", "team-ml", "3f2a-uid", (), 2048, cgroups_path=cgroups_path)


def a_device(
    index: int = 0,
    *,
    compute: dict[int, int | None] | None = None,
    graphics: dict[int, int | None] | None = None,
    sm: tuple[tuple[int, int], ...] = (),
) -> DeviceSample:
    return DeviceSample(
        Device(index, f"GPU-{index}", minor=index, memory_total_bytes=2**30),
        compute=tuple(ProcessMemory(pid, used) for pid, used in (compute or {}).items()),
        graphics=tuple(ProcessMemory(pid, used) for pid, used in (graphics or {}).items()),
        sm=tuple(SmUse(pid, percent, timestamp_us=1) for pid, percent in sm),
    )


def attributed(
    *devices: DeviceSample,
    origins: dict[int, Origin],
    records: dict[str, Record] | None = None,
    before: Owners | None = None,
) -> Attribution:
    known = {ID: a_record()} if records is None else records
    world = World(Sample("615.43.02", devices), known, 0, origins, {})
    return attribution.attribute(world, attribution.paths(known), before or {})


def unattributed(**counts: int) -> dict[Unattributed, int]:
    return {reason: counts.get(reason.value, 0) for reason in Unattributed}


class TestMemory:
    @pytest.mark.parametrize(
        ("compute", "graphics", "expected"),
        [
            pytest.param(1024, None, 1024, id="compute alone"),
            pytest.param(1024, 4096, 4096, id="graphics larger"),
            pytest.param(4096, 1024, 4096, id="compute larger"),
            pytest.param(None, 1024, 1024, id="graphics alone tells"),
            pytest.param(1024, None, 1024, id="compute alone tells"),
            pytest.param(0, None, 0, id="nothing, by one of them"),
            pytest.param(None, None, None, id="neither tells"),
        ],
    )
    def test_the_larger_entry_counts(self, compute: int | None, graphics: int | None, expected: int | None) -> None:
        """A process in both lists uses the larger of its two figures; not known is neither of them, and not 0."""
        device = a_device(compute={7: compute}, graphics={7: graphics})

        assert {ContainerOnGpu(ID, 0): Use(expected, 0)} == attributed(device, origins={7: IN_ID}).uses

    def test_a_process_whose_memory_is_not_told(self) -> None:
        """With it the memory of its container there is not known, whatever the others use; SM use is."""
        device = a_device(compute={7: 1024, 8: None, 9: 1024}, sm=((7, 10), (8, 20)))
        records = {ID: a_record(), OTHER: a_record()}

        found = attributed(device, origins={7: IN_ID, 8: IN_ID, 9: IN_OTHER}, records=records)

        assert {ContainerOnGpu(ID, 0): Use(None, 30), ContainerOnGpu(OTHER, 0): Use(1024, 0)} == found.uses

    def test_processes_of_a_container_add_up(self) -> None:
        """A container uses what its processes use, on each GPU by itself."""
        first = a_device(0, compute={7: 1024, 8: 2048}, sm=((7, 10), (8, 20)))
        second = a_device(1, compute={7: 512}, sm=((7, 5),))

        found = attributed(first, second, origins={7: IN_ID, 8: IN_ID})

        assert {ContainerOnGpu(ID, 0): Use(3072, 30), ContainerOnGpu(ID, 1): Use(512, 5)} == found.uses


class TestSmUse:
    def test_a_process_that_no_list_has_counts(self) -> None:
        """SM use without an entry of memory is still the container's: some GPUs list no processes."""
        assert {ContainerOnGpu(ID, 0): Use(0, 35)} == attributed(a_device(sm=((7, 35),)), origins={7: IN_ID}).uses

    def test_a_process_that_ended_since_is_none(self) -> None:
        """What was used before a process ended is nobody's, and nothing that is missing."""
        assert Attribution({}, 0, 0, unattributed()) == attributed(a_device(sm=((7, 35),)), origins={})


class TestCounts:
    def test_a_process_on_two_gpus_counts_once(self) -> None:
        """The counts are of processes, not of their entries."""
        found = attributed(a_device(0, compute={7: 1}), a_device(1, graphics={7: 1}), origins={7: IN_ID})

        assert (1, 1) == (found.seen, found.attributed)

    def test_process_0_is_none(self) -> None:
        """What NVML lists as process 0 is neither counted nor asked about, though it may have an origin."""
        device = a_device(compute={0: 4096}, graphics={0: 1}, sm=((0, 50),))

        found = attributed(device, origins={0: IN_ID})

        assert Attribution({}, 0, 0, unattributed()) == found

    def test_no_processes(self) -> None:
        """With nothing on the GPUs every reason is there, at zero."""
        assert Attribution({}, 0, 0, unattributed()) == attributed(a_device(), origins={})


class TestReasons:
    @pytest.mark.parametrize(
        ("origin", "reason"),
        [
            pytest.param(HOST, "host", id="of the host"),
            pytest.param(Origin(()), "host", id="in no cgroup that could be read"),
            pytest.param(Origin(("/",)), "host", id="in the root cgroup"),
            pytest.param(Origin((f"{SLICE}/crio-conmon-{ID}.scope",)), "host", id="monitor of a recorded container"),
            pytest.param(Origin((f"{SLICE}/crio-{OTHER}.scope",)), "unannotated", id="in a container without fraction"),
            pytest.param(IN_OTHER, "no_record", id="in a fractional container whose record is missing"),
            pytest.param(None, "vanished", id="ended before it was looked at"),
        ],
    )
    def test_who_belongs_to_no_pod(self, origin: Origin | None, reason: str) -> None:
        """A process outside the recorded containers uses nothing of theirs, and is counted by the reason why."""
        origins = {} if origin is None else {7: origin}

        found = attributed(a_device(compute={7: 1024}, sm=((7, 5),)), origins=origins)

        assert Attribution({}, 1, 0, unattributed(**{reason: 1})) == found

    def test_a_record_decides_before_the_environment(self) -> None:
        """A container with a record is accounted for, whatever its processes' environment says."""
        found = attributed(a_device(compute={7: 1}), origins={7: IN_OTHER}, records={OTHER: a_record()})

        assert Attribution({ContainerOnGpu(OTHER, 0): Use(1, 0)}, 1, 1, unattributed()) == found


class TestPaths:
    def test_a_cgroup_without_the_id_in_its_path(self) -> None:
        """A process at or below the cgroup that the record names is the container's, though no id is in the path."""
        records = {"abc": a_record(cgroups_path="/tenants/one")}

        found = attributed(a_device(compute={7: 1}), origins={7: Origin(("/tenants/one/worker",))}, records=records)

        assert {ContainerOnGpu("abc", 0): Use(1, 0)} == found.uses


class TestPids:
    def test_all_lists_of_all_gpus(self) -> None:
        """Origins are wanted of every process that any list names, and not of 0."""
        first = a_device(0, compute={1: 1, 0: 1}, graphics={2: 1})
        second = a_device(1, compute={1: 1}, sm=((3, 1), (0, 1)))

        assert {1, 2, 3} == attribution.pids(Sample("615.43.02", (first, second)))


class TestOwners:
    def test_the_same_origin_has_the_same_owner(self) -> None:
        """Whose a process is, is not worked out again while it was read of the very same object."""
        before: Owners = {7: (IN_ID, OTHER)}

        found = attributed(a_device(compute={7: 1}), origins={7: IN_ID}, before=before)

        assert (before, {ContainerOnGpu(OTHER, 0): Use(1, 0)}) == (found.owners, found.uses)

    def test_a_process_that_was_read_again_is_another(self) -> None:
        """What an id was before says nothing once its origin was read anew."""
        found = attributed(a_device(compute={7: 1}), origins={7: IN_ID}, before={7: (IN_OTHER, OTHER)})

        assert ({7: (IN_ID, ID)}, {ContainerOnGpu(ID, 0): Use(1, 0)}) == (found.owners, found.uses)

    def test_those_that_are_gone_are_forgotten(self) -> None:
        """Owners are kept of the processes that are there."""
        found = attributed(a_device(), origins={}, before={7: (IN_ID, ID)})

        assert {} == found.owners
