"""What to ask the driver about limits, and whose the answers are."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from fractioning_core.nvml.errors import NvmlUnavailable
from fractioning_core.nvml.samples import Device, LimitsQuery, MemoryLimits
from fractioning_core.record import GpuDevice
from fractioning_core.testing.builders import a_record
from metricsd import limits
from metricsd.containers import MAX_CONTAINER_SERIES
from metricsd.limits import Plan, Planner
from metricsd.world import ContainerOnGpu, NoCgroup

DEVICES = tuple(Device(index=index, uuid=f"GPU-{index}", minor=index, memory_total_bytes=None) for index in range(2))
BOTH = a_record(gpu_devices=(GpuDevice(uuid="GPU-1"), GpuDevice(uuid="GPU-0")))
ONE = a_record(gpu_devices=(GpuDevice(minor_number=1),))
NO_CGROUP = NoCgroup("no cgroup at /sys/fs/cgroup/x")


class TestPlan:
    def test_each_container_on_each_gpu(self) -> None:
        """A container on two GPUs is asked about on both, another on its one."""
        planned = limits.plan({"a": BOTH, "b": ONE}, DEVICES, {"a": "/cg/a", "b": "/cg/b"}, ())

        assert (
            Plan(
                asked={
                    ContainerOnGpu("a", 1): LimitsQuery(1, "/cg/a"),
                    ContainerOnGpu("a", 0): LimitsQuery(0, "/cg/a"),
                    ContainerOnGpu("b", 1): LimitsQuery(1, "/cg/b"),
                },
                unasked={},
            )
            == planned
        )

    def test_without_a_cgroup_nothing_is_asked(self) -> None:
        """The reason stands in for the answer, on each GPU."""
        planned = limits.plan({"a": BOTH}, DEVICES, {"a": NO_CGROUP}, ())

        assert Plan(asked={}, unasked={ContainerOnGpu("a", 1): NO_CGROUP, ContainerOnGpu("a", 0): NO_CGROUP}) == planned

    def test_without_a_gpu_there_is_nothing_to_ask(self) -> None:
        """A record that names no GPU of this node has no question."""
        assert Plan({}, {}) == limits.plan({"a": a_record()}, DEVICES, {"a": "/cg/a"}, ())

    def test_where_it_was_met_all_the_same(self) -> None:
        """A container is asked about on a GPU that its record does not name, while both are here."""
        met = [ContainerOnGpu("b", 0), ContainerOnGpu("b", 1), ContainerOnGpu("gone", 0), ContainerOnGpu("b", 7)]

        planned = limits.plan({"b": ONE}, DEVICES, {"b": "/cg/b"}, met)

        assert (LimitsQuery(1, "/cg/b"), LimitsQuery(0, "/cg/b")) == planned.queries


class TestBound:
    def test_more_than_the_page_holds(self) -> None:
        """About those that have no series nothing is asked, whatever the order in which their records are read."""
        names = [f"c{number:04}" for number in range(MAX_CONTAINER_SERIES + 2)]
        records = {name: attrs.evolve(ONE, container=name) for name in reversed(names)}

        planned = limits.plan(records, DEVICES, {name: f"/cg/{name}" for name in names}, ())

        assert set(names[:MAX_CONTAINER_SERIES]) == {place.container_id for place in planned.asked}


class TestPlanner:
    GIVEN: tuple[Any, ...] = ({"b": ONE}, DEVICES, {"b": "/cg/b"}, frozenset[ContainerOnGpu]())

    def test_nothing_changed(self) -> None:
        """The same things, even as other objects, have the very same plan."""
        planner = Planner()
        records, devices, directories, met = self.GIVEN

        assert planner.plan(*self.GIVEN) is planner.plan(dict(records), tuple(devices), dict(directories), set(met))

    @pytest.mark.parametrize(
        ("position", "value"),
        [
            pytest.param(0, {"b": BOTH}, id="a record"),
            pytest.param(1, (attrs.evolve(DEVICES[1], index=0),), id="the GPUs"),
            pytest.param(2, {"b": NO_CGROUP}, id="a cgroup"),
            pytest.param(3, frozenset({ContainerOnGpu("b", 0)}), id="where a process was met"),
        ],
    )
    def test_a_change(self, position: int, value: object) -> None:
        """Where one thing is another, the plan is that of a new planner; and so it is when that is as it was."""
        planner = Planner()
        first = planner.plan(*self.GIVEN)
        changed: tuple[Any, ...] = tuple(
            value if number == position else given for number, given in enumerate(self.GIVEN)
        )

        plans = [planner.plan(*changed), planner.plan(*self.GIVEN)]

        assert [limits.plan(*changed), first] == plans
        assert plans[0] != first


class TestAnswered:
    def test_each_gets_its_answer(self) -> None:
        """Answers come in the order of the questions, errors among them, and reasons stay beside them."""
        planned = limits.plan(
            {"a": BOTH, "b": ONE, "c": ONE}, DEVICES, {"a": "/cg/a", "b": NO_CGROUP, "c": "/cg/c"}, ()
        )
        answers: dict[LimitsQuery, MemoryLimits | NvmlUnavailable] = {
            LimitsQuery(1, "/cg/a"): MemoryLimits(1, 2, 3),
            LimitsQuery(0, "/cg/a"): NvmlUnavailable(6, "NOT_FOUND", "DeviceGetMemoryLimits"),
            LimitsQuery(1, "/cg/c"): MemoryLimits(0, None, 0),
        }

        assert {
            ContainerOnGpu("a", 1): MemoryLimits(1, 2, 3),
            ContainerOnGpu("a", 0): NvmlUnavailable(6, "NOT_FOUND", "DeviceGetMemoryLimits"),
            ContainerOnGpu("b", 1): NO_CGROUP,
            ContainerOnGpu("c", 1): MemoryLimits(0, None, 0),
        } == planned.answered([answers[query] for query in planned.queries])

    def test_an_answer_too_few_is_a_fault(self) -> None:
        """Answers that do not fit the questions are given to nobody."""
        planned = limits.plan({"a": BOTH}, DEVICES, {"a": "/cg/a"}, ())

        with pytest.raises(ValueError, match="shorter"):
            planned.answered([MemoryLimits(0, None, 0)])
