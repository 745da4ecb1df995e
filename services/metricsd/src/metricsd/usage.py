"""
What each pod uses of each GPU.

A pod is on the GPUs that its containers' records name and on those where a process of it is seen; so an idle pod has
zeros and not nothing. Its fraction of a GPU is what all of its containers there requested together, each of them in
full on each of its GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs
from fractioning_core.record import Record

from metricsd.attribution import UNUSED, Use
from metricsd.gpus import Gpus
from metricsd.snapshot import PodOnGpu, PodUse
from metricsd.world import ContainerOnGpu

MIB = 2**20
MAX_PERCENT = 100.0
# As many characters as the tools of container runtimes show of an id.
_SHORT_ID = 12


@attrs.define(eq=False)
class Load:
    """
    What a pod uses of a GPU, while it is being added up.

    Args:
        memory_bytes: Of all its processes there.
        sm_percent: The same, which may be more than 100.
        requested_mib: By container name.
    """

    memory_bytes: int = 0
    sm_percent: int = 0
    requested_mib: dict[str, int] = attrs.field(factory=dict)

    def add(self, container: str, record: Record, use: Use) -> None:
        """
        Add a container. One that was started again has two records for a time, and requested once.
        """
        self.memory_bytes += use.memory_bytes
        self.sm_percent += use.sm_percent
        before = self.requested_mib.get(container, 0)
        self.requested_mib[container] = max(record.requested_memory_mib, before)

    def fraction_of(self, total_bytes: int | None) -> float:
        """
        Give the fraction of a GPU that was requested; 0 where it is not known.
        """
        return sum(self.requested_mib.values()) * MIB / total_bytes if total_bytes else 0.0


def container_name(container_id: str, record: Record) -> str:
    """
    Name a container; by its id where the record is of the old form, which has no name.
    """
    return record.container or container_id[:_SHORT_ID]


def by_pod(
    places: Iterable[ContainerOnGpu],
    *,
    records: Mapping[str, Record],
    uses: Mapping[ContainerOnGpu, Use],
    gpus: Gpus,
) -> dict[PodOnGpu, Load]:
    """
    Add up the containers of each pod on each GPU.

    Args:
        places: Which containers are on which GPUs, each pair once.
        records: Of these containers.
        uses: What there is; a container without uses nothing.
        gpus: All that `places` name.
    """
    loads: dict[PodOnGpu, Load] = {}
    for place in places:
        record = records[place.container_id]
        key = PodOnGpu(record.namespace, record.pod, record.pod_uid, gpus[place.gpu_index].uuid, place.gpu_index)
        load = loads.get(key)
        if load is None:
            load = loads[key] = Load()
        load.add(container_name(place.container_id, record), record, uses.get(place, UNUSED))
    return loads


def normalized(sm_percent: float, fraction: float) -> float:
    """
    Give the SM use in per cent of the pod's own fraction; of the whole GPU where the fraction is not known.
    """
    return min(MAX_PERCENT, sm_percent / (fraction or 1.0))


def pod_use(key: PodOnGpu, load: Load, *, sm_percent: float, total_bytes: int | None) -> PodUse:
    """
    Put a pod's figures together.

    Args:
        key: Which.
        load: What it uses.
        sm_percent: The same, over the averaging window.
        total_bytes: Memory of the GPU; None where it is not known.
    """
    return PodUse(key, load.memory_bytes, sm_percent, normalized(sm_percent, load.fraction_of(total_bytes)))
