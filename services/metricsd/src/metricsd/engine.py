"""
From what one cycle read to what every scrape shows: the whole decision, without a clock or a file.

What one cycle must know of those before it is in `Memory`, which is handed from step to step. A cycle that could not be
read takes no step, so that a fault of NVML does not look like idle pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain

import attrs
from fractioning_core import driver
from fractioning_core.errors import InvalidDriverVersion
from fractioning_core.record import Record

from metricsd import attribution, containers, devicemap, gpus, series, usage, windows
from metricsd.attribution import Attribution
from metricsd.containers import Facts
from metricsd.gpus import Gpus
from metricsd.snapshot import PodOnGpu, PodUse, Snapshot
from metricsd.usage import MAX_PERCENT, Load
from metricsd.windows import History
from metricsd.world import ContainerOnGpu, World


@attrs.frozen
class Memory:
    """
    What one cycle leaves to the next.

    Args:
        gpus: All GPUs ever met, as far as they are known.
        series: Keys of the pods' series shown last.
        met: On which GPUs processes of the containers that are here were ever met, whatever their records say.
        history: SM use of the last cycles.
    """

    gpus: Gpus = attrs.field(factory=dict)
    series: AbstractSet[PodOnGpu] = frozenset()
    met: AbstractSet[ContainerOnGpu] = frozenset()
    history: History = attrs.field(factory=dict)


def step(memory: Memory, world: World, *, window: int = 1) -> tuple[Memory, Snapshot]:
    """
    Decide what a cycle found.

    Args:
        memory: Of the cycle before; an empty one at first.
        world: What was read.
        window: Over how many cycles to average SM use.
    """
    known = gpus.remember(memory.gpus, world.sample)
    found = attribution.attribute(world)
    recorded = _recorded(world.records, known)
    loads = usage.by_pod(recorded | found.uses.keys(), records=world.records, uses=found.uses, gpus=known)
    history = windows.advance(memory.history, _sm_percent(loads), window)
    shown = series.lasting(memory.series, loads.keys(), _active_uids(world.records))
    met = _met(memory.met, found, world.records, known)
    members = containers.gather(recorded | met, world.records, known)
    facts = Facts(world.records, found.uses, world.limits, _major(world.sample.driver_version))
    described, left_out = containers.describe(members, facts)
    silent = gpus.silent(world.sample)
    snapshot = Snapshot(
        pods=tuple(pod for pod in _pods(shown, loads, history, known) if pod.key.gpu_index not in silent),
        containers=tuple(container for container in described if container.key.gpu_index not in silent),
        containers_left_out=left_out,
        gpus=gpus.answering(known, world.sample),
        gpus_lost=len(silent),
        processes_seen=found.seen,
        processes_attributed=found.attributed,
        processes_unattributed=found.unattributed,
        records=len(world.records),
        records_unreadable=world.unreadable,
        driver_version=world.sample.driver_version,
    )
    return Memory(known, shown, met, history), snapshot


def _recorded(records: Mapping[str, Record], known: Gpus) -> set[ContainerOnGpu]:
    devices = tuple(known.values())
    return {
        ContainerOnGpu(container_id, index)
        for container_id, record in records.items()
        for index in devicemap.indices(record, devices)
    }


def _met(
    before: AbstractSet[ContainerOnGpu], found: Attribution, records: Mapping[str, Record], known: Gpus
) -> AbstractSet[ContainerOnGpu]:
    places = chain(before, found.uses)
    return frozenset(place for place in places if place.container_id in records and place.gpu_index in known)


def _sm_percent(loads: Mapping[PodOnGpu, Load]) -> dict[PodOnGpu, float]:
    # Processes that run at the same time, as under MPS, each have the time of both.
    return {key: min(MAX_PERCENT, float(load.sm_percent)) for key, load in loads.items()}


def _active_uids(records: Mapping[str, Record]) -> set[str]:
    # A record without a UID keeps nothing alive but itself.
    return {record.pod_uid for record in records.values() if record.pod_uid}


def _pods(shown: Iterable[PodOnGpu], loads: Mapping[PodOnGpu, Load], history: History, known: Gpus) -> Iterable[PodUse]:
    for key in sorted(shown):
        load = loads.get(key)
        if load is None:
            yield PodUse(key, memory_bytes=0, sm_percent=0.0, sm_normalized_percent=0.0)
            continue
        total_bytes = known[key.gpu_index].memory_total_bytes
        yield usage.pod_use(key, load, sm_percent=windows.mean(history[key]), total_bytes=total_bytes)


def _major(version: str) -> int | None:
    try:
        return driver.parse_major(version)
    except InvalidDriverVersion:
        return None
