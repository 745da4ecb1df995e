"""What is kept from cycle to cycle, and when it is made anew."""

from __future__ import annotations

from typing import ClassVar

import attrs
import pytest
from fractioning_core.nvml.samples import Device
from fractioning_core.record import GpuDevice, Record
from metricsd.gpus import Known
from metricsd.layout import Layout, Roster
from metricsd.snapshot import PodOnGpu
from metricsd.usage import Parts
from metricsd.world import ContainerOnGpu

GIB = 2**30
GPUS = {index: Device(index, f"GPU-{index}", minor=index, memory_total_bytes=4 * GIB) for index in range(2)}
RECORD = Record("one", "team-ml", "uid-1", (GpuDevice(uuid="GPU-0"),), 1024, "main", cgroups_path="/pods/own")
RECORDS = {"a": RECORD}
ON_0, ON_1 = ContainerOnGpu("a", 0), ContainerOnGpu("a", 1)
# Another GPU has index and minor of the one that the record means.
BY_BOTH = attrs.evolve(RECORD, gpu_devices=(GpuDevice(uuid="GPU-0", minor_number=0),))
FIRST_NOW = attrs.evolve(GPUS[1], index=0, minor=0)
POD_ON_0, POD_ON_1 = (PodOnGpu("team-ml", "one", "uid-1", f"GPU-{index}", index) for index in range(2))

ROSTER = Roster.of(RECORDS, Known(GPUS))


class TestRoster:
    def test_whole(self) -> None:
        """It has everything that follows from records and GPUs."""
        found = (ROSTER.paths, ROSTER.recorded, ROSTER.active_uids)

        assert ({"/pods/own": "a"}, {ON_0}, {"uid-1"}) == found

    def test_nothing_changed(self) -> None:
        """Records and GPUs that are equal to those before, even as other objects, have the very same roster."""
        assert ROSTER.brought_to(dict(RECORDS), Known(dict(GPUS))) is ROSTER

    @pytest.mark.parametrize(
        ("record", "gpus", "expected"),
        [
            pytest.param(
                attrs.evolve(RECORD, gpu_devices=(GpuDevice(uuid="GPU-1"),)), Known(GPUS), {ON_1}, id="a record"
            ),
            pytest.param(RECORD, Known({0: GPUS[1], 1: attrs.evolve(GPUS[0], index=1)}), {ON_1}, id="the GPUs"),
            pytest.param(BY_BOTH, Known({0: FIRST_NOW}), {ON_0}, id="a GPU that was never met, by its minor"),
            pytest.param(BY_BOTH, Known({0: FIRST_NOW}, {"GPU-0": GPUS[0]}), set(), id="a GPU that is gone"),
        ],
    )
    def test_a_change(self, record: Record, gpus: Known, expected: set[ContainerOnGpu]) -> None:
        """Where a record or a GPU is another, everything is worked out again."""
        assert expected == ROSTER.brought_to({"a": record}, gpus).recorded


class TestLayout:
    def test_whole(self) -> None:
        """A container has series where its record places it and where a process of it is."""
        layout = Layout().brought_to(ROSTER, {ON_1})

        assert {POD_ON_0: Parts((ON_0,), 0.25), POD_ON_1: Parts((ON_1,), 0.25)} == layout.pods
        assert ((POD_ON_0, POD_ON_1), {ON_1}, [0, 1], 0) == (
            layout.shown,
            layout.met,
            [member.key.gpu_index for member in layout.members],
            layout.left_out,
        )

    @pytest.mark.parametrize("used", [set[ContainerOnGpu](), {ON_0}, {ON_1}], ids=["idle", "recorded", "elsewhere"])
    def test_nothing_changed(self, used: set[ContainerOnGpu]) -> None:
        """With the same roster and processes in the same places it is the very same layout."""
        layout = Layout().brought_to(ROSTER, used)

        assert layout.brought_to(ROSTER, set(used)) is layout

    def test_a_process_that_ended_where_its_record_places_it(self) -> None:
        """It changes no series."""
        layout = Layout().brought_to(ROSTER, {ON_0})

        assert layout.brought_to(ROSTER, set()) is layout

    def test_a_process_that_ended_elsewhere(self) -> None:
        """The pod's series stays without its containers, and theirs stay."""
        layout = Layout().brought_to(ROSTER, {ON_1}).brought_to(ROSTER, set())

        assert ({POD_ON_0}, (POD_ON_0, POD_ON_1), frozenset({ON_1})) == (set(layout.pods), layout.shown, layout.met)
        assert [0, 1] == [member.key.gpu_index for member in layout.members]

    def test_a_process_where_its_record_places_it(self) -> None:
        """That it was met there is known from then on, though the series were there before."""
        layout = Layout().brought_to(ROSTER, set()).brought_to(ROSTER, {ON_0})

        assert {ON_0} == layout.met

    def test_containers_that_went(self) -> None:
        """Another roster is another layout, and nothing stays of what is not in it."""
        layout = Layout().brought_to(ROSTER, {ON_0, ON_1}).brought_to(Roster.of({}, Known(GPUS)), set())

        assert ({}, (), frozenset(), ()) == (layout.pods, layout.shown, layout.met, layout.members)


class TestGpusThatAreNumberedAnew:
    SWAPPED = Known({0: attrs.evolve(GPUS[1], index=0), 1: attrs.evolve(GPUS[0], index=1)})
    ONE_GONE = Known({0: attrs.evolve(GPUS[1], index=0)}, {"GPU-0": GPUS[0]})
    NAMELESS = Known({0: attrs.evolve(GPUS[0], uuid="")})
    NOWHERE: ClassVar = {"a": attrs.evolve(RECORD, gpu_devices=())}

    def numbered(self, before: Known, now: Known, used: ContainerOnGpu) -> Layout:
        """A process is met, and after it ended the GPUs are others."""
        layout = Layout().brought_to(Roster.of(self.NOWHERE, before), {used})
        return layout.brought_to(Roster.of(self.NOWHERE, now), set())

    def test_places_where_processes_were_met(self) -> None:
        """They go with their GPU to its new index, and so do the series of pods and containers."""
        layout = self.numbered(Known(GPUS), self.SWAPPED, ON_1)

        assert ({ON_0}, (POD_ON_1._replace(gpu_index=0),)) == (layout.met, layout.shown)
        assert [("GPU-1", 0)] == [(member.key.gpu_uuid, member.key.gpu_index) for member in layout.members]

    def test_a_place_on_a_gpu_that_is_gone(self) -> None:
        """It is nobody else's: the one that has its index now is another GPU."""
        layout = self.numbered(Known(GPUS), self.ONE_GONE, ON_0)

        assert (frozenset(), (), (POD_ON_0,)) == (layout.met, layout.members, layout.shown)

    def test_a_gpu_that_tells_its_uuid_at_last(self) -> None:
        """It is the same place."""
        layout = self.numbered(self.NAMELESS, Known(GPUS), ON_0)

        assert ({ON_0}, (POD_ON_0,)) == (layout.met, layout.shown)
