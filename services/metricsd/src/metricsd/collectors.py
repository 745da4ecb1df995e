"""
From a snapshot to the samples of its families: one function for each part of the page.

What is not known has no sample: a zero would be believed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TypeVar

from metricsd import families
from metricsd.exposition import Key, Series
from metricsd.families import PodFamilies, PodNames
from metricsd.family import Family
from metricsd.snapshot import ContainerUse, Enforcement, PodUse, Snapshot

T = TypeVar("T", PodUse, ContainerUse)

Collector = Callable[[Snapshot], Iterable[Series]]


def collectors(names: PodNames, *, with_containers: bool) -> Mapping[str, Collector]:
    """
    Give the parts of the page by name, in their order.
    """
    parts: dict[str, Collector] = {"pods": partial(pods, PodFamilies.named(names))}
    if with_containers:
        parts["containers"] = containers
    return parts | {"gpus": gpus, "findings": findings}


def pods(of: PodFamilies, snapshot: Snapshot) -> Iterator[Series]:
    """
    Give what pods use.
    """
    found = snapshot.pods
    yield _known(of.memory_used, found, lambda pod: pod.memory_bytes)
    yield _known(of.sm, found, lambda pod: pod.sm_percent)
    yield _known(of.sm_normalized, found, lambda pod: pod.sm_normalized_percent)


def containers(snapshot: Snapshot) -> Iterator[Series]:
    """
    Give what containers use, what they declared, and what the driver holds them to.
    """
    found = snapshot.containers
    yield _known(families.CONTAINER_USED, found, lambda one: one.memory_bytes)
    yield _known(families.CONTAINER_REQUEST, found, lambda one: one.request_bytes)
    yield _known(families.CONTAINER_LIMIT, found, lambda one: one.limit_bytes)
    yield _known(families.CONTAINER_SOFT_LIMIT, found, lambda one: one.soft_limit_bytes)
    yield _known(families.CONTAINER_HARD_LIMIT, found, lambda one: one.hard_limit_bytes)
    yield _known(families.CONTAINER_ACCOUNTED, found, lambda one: one.accounted_bytes)
    yield _known(families.CONTAINER_ENFORCED, found, enforced)
    yield _known(families.CONTAINER_PRESSURE, found, pressure)
    yield Series(families.CONTAINER_ENFORCEMENT, [((*one.key, one.enforcement.value), 1) for one in found])


def gpus(snapshot: Snapshot) -> Iterator[Series]:
    """
    Give what is known of GPUs and driver.
    """
    keys: list[tuple[Key, int | None]] = [((gpu.uuid, gpu.index), gpu.memory_total_bytes) for gpu in snapshot.gpus]
    up: dict[Key, int] = {key: 1 for key, _ in keys}
    up |= {(gpu.uuid, gpu.index): 0 for gpu in snapshot.silent}
    yield Series(families.GPU_UP, list(up.items()))
    yield Series(families.GPU_TOTAL, [(key, total) for key, total in keys if total is not None])
    yield Series(families.GPU_SIZE_KNOWN, [(key, int(total is not None)) for key, total in keys])
    yield Series(families.DRIVER, [((snapshot.driver_version,), 1)])


def findings(snapshot: Snapshot) -> Iterator[Series]:
    """
    Give the counts of the cycle.
    """
    unattributed = snapshot.processes_unattributed.items()
    yield _number(families.PROCESSES_SEEN, snapshot.processes_seen)
    yield _number(families.PROCESSES_ATTRIBUTED, snapshot.processes_attributed)
    yield Series(families.PROCESSES_UNATTRIBUTED, [((reason.value,), count) for reason, count in unattributed])
    yield _number(families.RECORDS, snapshot.records)
    yield _number(families.RECORDS_UNREADABLE, snapshot.records_unreadable)
    yield _number(families.CONTAINERS_LEFT_OUT, snapshot.containers_left_out)
    yield _number(families.GPUS_LOST, len(snapshot.silent))


def pressure(one: ContainerUse) -> float | None:
    """
    Give how near a container is to its hard limit; None where that is not known.
    """
    if one.accounted_bytes is None or not one.hard_limit_bytes:
        return None
    return one.accounted_bytes / one.hard_limit_bytes


def enforced(one: ContainerUse) -> int | None:
    """
    Give 1 for a container that is held to its limits, else 0; None where there is nothing left to hold.
    """
    return None if one.enforcement is Enforcement.ENDED else int(one.enforcement is Enforcement.ENFORCED)


def _known(family: Family, found: Iterable[T], read: Callable[[T], float | None]) -> Series:
    return Series(family, [(one.key, value) for one in found if (value := read(one)) is not None])


def _number(family: Family, value: int) -> Series:
    return Series(family, [((), value)])
