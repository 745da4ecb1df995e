"""
What to ask the driver about the limits of containers, and whose the answers are.

The driver keeps limits by cgroup and GPU. The cgroup is the container's own directory, which carries the limit, also
where a runtime puts its processes into one below.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import attrs
from fractioning_core.nvml.errors import NvmlUnavailable
from fractioning_core.nvml.samples import Device, LimitsQuery, MemoryLimits
from fractioning_core.record import Record

from metricsd import containers, devicemap
from metricsd.containers import MAX_CONTAINER_SERIES
from metricsd.world import ContainerOnGpu, Limits, NoCgroup


@attrs.frozen
class Plan:
    """
    Questions, and what needs none.

    Args:
        asked: Each container on each of its GPUs, with the question.
        unasked: Those of which nothing can be asked, and why.
    """

    asked: Mapping[ContainerOnGpu, LimitsQuery]
    unasked: Mapping[ContainerOnGpu, NoCgroup]

    @property
    def queries(self) -> tuple[LimitsQuery, ...]:
        """
        The questions, in the order in which `answered` takes the answers.
        """
        return tuple(self.asked.values())

    def answered(self, answers: Iterable[MemoryLimits | NvmlUnavailable]) -> dict[ContainerOnGpu, Limits]:
        """
        Give each container its answer.
        """
        return {**self.unasked, **dict(zip(self.asked, answers, strict=True))}


NOTHING = Plan({}, {})


class Planner:
    """
    Plans anew where something is another than for the plan before, which is mostly nothing.
    """

    def __init__(self) -> None:
        self._given: tuple[object, ...] = ()
        self._plan = NOTHING

    def plan(
        self,
        records: Mapping[str, Record],
        devices: Sequence[Device],
        directories: Mapping[str, str | NoCgroup],
        met: Collection[ContainerOnGpu],
    ) -> Plan:
        """
        Do what the function `plan` does.
        """
        given = (records, devices, directories, met)
        if given != self._given:
            self._given, self._plan = given, plan(records, devices, directories, met)
        return self._plan


def plan(
    records: Mapping[str, Record],
    devices: Sequence[Device],
    directories: Mapping[str, str | NoCgroup],
    met: Collection[ContainerOnGpu],
) -> Plan:
    """
    Ask about every container on each GPU of its record, and on those where it was met all the same; beyond the bound
    on series about none that has no series.

    Args:
        records: By bare container id.
        devices: Of the node.
        directories: What `cgroupfs.directories` gives for these records.
        met: On which GPUs processes of containers were found before.
    """
    asked: dict[ContainerOnGpu, LimitsQuery] = {}
    unasked: dict[ContainerOnGpu, NoCgroup] = {}
    places = _places(records, devices, met)
    if len(places) > MAX_CONTAINER_SERIES:
        members, _ = containers.gather(places, records, {device.index: device for device in devices})
        places = [candidate.place for member in members for candidate in member.candidates]
    for place in places:
        directory = directories[place.container_id]
        if isinstance(directory, NoCgroup):
            unasked[place] = directory
        else:
            asked[place] = LimitsQuery(place.gpu_index, directory)
    return Plan(asked, unasked)


def _places(
    records: Mapping[str, Record], devices: Sequence[Device], met: Collection[ContainerOnGpu]
) -> list[ContainerOnGpu]:
    """
    Give each place once, in a steady order.
    """
    here = {device.index for device in devices}
    places = dict.fromkeys(
        ContainerOnGpu(container_id, index)
        for container_id, record in records.items()
        for index in devicemap.indices(record, devices)
    )
    found = sorted(place for place in met if place.container_id in records and place.gpu_index in here)
    return list(places | dict.fromkeys(found))
