"""
What each pod uses of each GPU.

A pod is on the GPUs that its containers' records name and on those where a process of it is seen; so an idle pod has
zeros and not nothing. Its fraction of a GPU is what all of its containers there requested together, each of them in
full on each of its GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fractioning_core.record import Record

from metricsd import attribution
from metricsd.attribution import UNUSED, Use
from metricsd.gpus import Gpus
from metricsd.snapshot import PodOnGpu
from metricsd.world import ContainerOnGpu

MIB = 2**20
MAX_PERCENT = 100.0
# As many characters as the tools of container runtimes show of an id.
_SHORT_ID = 12


class Parts(NamedTuple):
    """
    What a pod is on a GPU.

    Args:
        places: Its containers there.
        fraction: What they requested together, as a part of the GPU; 0 where that is not known.
    """

    places: tuple[ContainerOnGpu, ...]
    fraction: float


NOWHERE = Parts((), 0.0)


def container_name(container_id: str, record: Record) -> str:
    """
    Name a container; by its id where the record is of the old form, which has no name.
    """
    return record.container or container_id[:_SHORT_ID]


def by_pod(places: Iterable[ContainerOnGpu], *, records: Mapping[str, Record], gpus: Gpus) -> dict[PodOnGpu, Parts]:
    """
    Give each pod on each GPU its containers.

    Args:
        places: Which containers are on which GPUs, each pair once.
        records: Of these containers.
        gpus: All that `places` name.
    """
    found: dict[PodOnGpu, list[ContainerOnGpu]] = {}
    for place in places:
        record = records[place.container_id]
        key = PodOnGpu(record.namespace, record.pod, record.pod_uid, gpus[place.gpu_index].uuid, place.gpu_index)
        found.setdefault(key, []).append(place)
    return {
        key: Parts(tuple(on), _fraction(on, records, gpus[key.gpu_index].memory_total_bytes))
        for key, on in found.items()
    }


def _fraction(places: Iterable[ContainerOnGpu], records: Mapping[str, Record], total_bytes: int | None) -> float:
    # One that was started again has two records for a time, and requested once.
    requested_mib: dict[str, int] = {}
    for place in places:
        record = records[place.container_id]
        container = container_name(place.container_id, record)
        requested_mib[container] = max(record.requested_memory_mib, requested_mib.get(container, 0))
    return sum(requested_mib.values()) * MIB / total_bytes if total_bytes else 0.0


def used(places: Sequence[ContainerOnGpu], uses: Mapping[ContainerOnGpu, Use]) -> Use:
    """
    Add up what containers use; one that is not told of uses nothing.
    """
    if len(places) == 1:
        return uses.get(places[0], UNUSED)
    several = [uses.get(place, UNUSED) for place in places]
    return Use(attribution.total(use.memory_bytes for use in several), sum(use.sm_percent for use in several))


def normalized(sm_percent: float, fraction: float) -> float:
    """
    Give the SM use in per cent of the pod's own fraction; of the whole GPU where the fraction is not known.
    """
    return min(MAX_PERCENT, sm_percent / (fraction or 1.0))
