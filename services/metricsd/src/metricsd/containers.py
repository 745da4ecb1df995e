"""
What each container uses of each GPU, beside what it declared and what is in force.

A container that was started again has two records until the runtime removes the old one. They are one series, since the
labels are the same: use is added up, and what was declared and is in force is the running one's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs
from fractioning_core.nvml.samples import MemoryLimits
from fractioning_core.record import Record

from metricsd import enforcement
from metricsd.attribution import UNUSED, Use
from metricsd.gpus import Gpus
from metricsd.snapshot import ContainerInPodOnGpu, ContainerUse
from metricsd.usage import container_name
from metricsd.world import ContainerOnGpu, Limits, NoCgroup

# Several times what a node holds; each has about ten samples on the page.
MAX_CONTAINER_SERIES = 4096

Members = dict[ContainerInPodOnGpu, list[ContainerOnGpu]]
"""The containers behind each series, mostly one."""


@attrs.frozen
class Facts:
    """
    What is known of the containers.

    Args:
        records: Of all of them.
        uses: What there is; a container without uses nothing.
        limits: What the driver said, for those that it was asked about.
        driver_major: None where the driver's version is not to be understood.
    """

    records: Mapping[str, Record]
    uses: Mapping[ContainerOnGpu, Use]
    limits: Mapping[ContainerOnGpu, Limits]
    driver_major: int | None


def gather(places: Iterable[ContainerOnGpu], records: Mapping[str, Record], gpus: Gpus) -> Members:
    """
    Give each series its containers.
    """
    members: Members = {}
    for place in places:
        record = records[place.container_id]
        key = ContainerInPodOnGpu(
            record.namespace,
            record.pod,
            record.pod_uid,
            container_name(place.container_id, record),
            gpus[place.gpu_index].uuid,
            place.gpu_index,
        )
        members.setdefault(key, []).append(place)
    return members


def describe(members: Members, facts: Facts) -> tuple[tuple[ContainerUse, ...], int]:
    """
    Describe the containers in order of their keys.

    Returns: as many as the bound allows, and how many more there are.
    """
    keys = sorted(members)
    shown = keys[:MAX_CONTAINER_SERIES]
    return tuple(_container_use(key, members[key], facts) for key in shown), len(keys) - len(shown)


def _container_use(key: ContainerInPodOnGpu, places: list[ContainerOnGpu], facts: Facts) -> ContainerUse:
    leading = places[0] if len(places) == 1 else max(places, key=lambda place: _presence(place, facts))
    limits = facts.limits.get(leading)
    asked = enforcement.declared(facts.records[leading.container_id])
    read = limits if isinstance(limits, MemoryLimits) else None
    return ContainerUse(
        key=key,
        memory_bytes=sum([facts.uses.get(place, UNUSED).memory_bytes for place in places]),
        request_bytes=asked.request_bytes,
        limit_bytes=asked.limit_bytes,
        soft_limit_bytes=read.soft_bytes if read else None,
        hard_limit_bytes=read.hard_bytes if read else None,
        accounted_bytes=read.used_bytes if read else None,
        enforcement=enforcement.judge(asked, limits, facts.driver_major),
    )


def _presence(place: ContainerOnGpu, facts: Facts) -> tuple[bool, bool, bool, str]:
    """
    Order containers by the signs of life that they give; those that give none, by id.
    """
    limits = facts.limits.get(place)
    has_cgroup = limits is not None and not isinstance(limits, NoCgroup)
    return isinstance(limits, MemoryLimits), has_cgroup, place in facts.uses, place.container_id
