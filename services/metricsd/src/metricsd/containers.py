"""
What each container uses of each GPU, beside what it declared and what is in force.

A container that was started again has two records until the runtime removes the old one. They are one series, since the
labels are the same: use is added up, and what was declared and is in force is the running one's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import attrs
from fractioning_core.nvml.samples import MemoryLimits
from fractioning_core.record import Record

from metricsd import attribution, enforcement
from metricsd.attribution import UNUSED, Use
from metricsd.enforcement import Declared
from metricsd.gpus import Gpus
from metricsd.snapshot import ContainerInPodOnGpu, ContainerUse
from metricsd.usage import container_name
from metricsd.world import ContainerOnGpu, Limits, NoCgroup

# Several times what a node holds; each has about ten samples on the page.
MAX_CONTAINER_SERIES = 4096


class Candidate(NamedTuple):
    """
    A container of a series, and what it declared.
    """

    place: ContainerOnGpu
    declared: Declared


class Member(NamedTuple):
    """
    A series, and the containers behind it, mostly one.
    """

    key: ContainerInPodOnGpu
    candidates: tuple[Candidate, ...]


@attrs.frozen
class Facts:
    """
    What is known of the containers.

    Args:
        uses: What there is; a container without uses nothing.
        limits: What the driver said, for those that it was asked about.
        driver_major: None where the driver's version is not to be understood.
    """

    uses: Mapping[ContainerOnGpu, Use]
    limits: Mapping[ContainerOnGpu, Limits]
    driver_major: int | None


def gather(
    places: Iterable[ContainerOnGpu], records: Mapping[str, Record], gpus: Gpus
) -> tuple[tuple[Member, ...], int]:
    """
    Give each series its containers, in order of their keys.

    Returns: as many as the bound allows, and how many more there are.
    """
    found: dict[ContainerInPodOnGpu, list[Candidate]] = {}
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
        found.setdefault(key, []).append(Candidate(place, enforcement.declared(record)))
    members = [Member(key, tuple(found[key])) for key in sorted(found)]
    return tuple(members[:MAX_CONTAINER_SERIES]), len(members[MAX_CONTAINER_SERIES:])


def describe(members: Iterable[Member], facts: Facts) -> tuple[ContainerUse, ...]:
    """
    Describe the containers of a cycle.
    """
    return tuple([_container_use(member, facts) for member in members])


def _container_use(member: Member, facts: Facts) -> ContainerUse:
    key, candidates = member
    uses, limits = facts.uses, facts.limits
    if len(candidates) == 1:
        leading, asked = candidates[0]
        memory_bytes = uses.get(leading, UNUSED).memory_bytes
    else:
        leading, asked = max(candidates, key=lambda candidate: _presence(candidate.place, facts))
        memory_bytes = attribution.total([uses.get(place, UNUSED).memory_bytes for place, _ in candidates])
    found = limits.get(leading)
    verdict = enforcement.judge(asked, found, facts.driver_major, is_used=leading in uses)
    if isinstance(found, MemoryLimits):
        return ContainerUse(
            key, memory_bytes, *asked, found.soft_bytes, found.hard_bytes, found.used_bytes, enforcement=verdict
        )
    return ContainerUse(key, memory_bytes, *asked, None, None, None, enforcement=verdict)


def _presence(place: ContainerOnGpu, facts: Facts) -> tuple[bool, bool, bool, str]:
    """
    Order containers by the signs of life that they give; those that give none, by id.
    """
    limits = facts.limits.get(place)
    has_cgroup = limits is not None and not isinstance(limits, NoCgroup)
    return isinstance(limits, MemoryLimits), has_cgroup, place in facts.uses, place.container_id
