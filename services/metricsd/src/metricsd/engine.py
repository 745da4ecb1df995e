"""
From what one cycle read to what every scrape shows: the whole decision, without a clock or a file.

What one cycle must know of those before it is in `Memory`, which is handed from step to step. A cycle that could not be
read takes no step, so that a fault of NVML does not look like idle pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import TypeVar

import attrs
from fractioning_core import driver
from fractioning_core.errors import InvalidDriverVersion

from metricsd import attribution, containers, gpus, usage, windows
from metricsd.attribution import UNUSED, Owners, Use
from metricsd.containers import Facts
from metricsd.gpus import Known
from metricsd.layout import Layout
from metricsd.snapshot import ContainerUse, PodOnGpu, PodUse, Snapshot
from metricsd.usage import MAX_PERCENT, NOWHERE, Parts
from metricsd.windows import History
from metricsd.world import ContainerOnGpu, World

T = TypeVar("T", PodUse, ContainerUse)

_NO_OWNERS: Owners = {}
_IDLE = (0.0,)


@attrs.frozen
class Memory:
    """
    What one cycle leaves to the next.

    Args:
        gpus: All GPUs ever met.
        layout: Which series there are.
        owners: Whose each process is.
        history: SM use of the last cycles.
    """

    gpus: Known = attrs.field(factory=Known)
    layout: Layout = attrs.field(factory=Layout)
    owners: Owners = attrs.field(factory=dict)
    history: History = attrs.field(factory=dict)

    @property
    def met(self) -> AbstractSet[ContainerOnGpu]:
        """
        On which GPUs processes of the containers that are here were ever met, whatever their records say.
        """
        return self.layout.met


def step(memory: Memory, world: World, *, window: int = 1) -> tuple[Memory, Snapshot]:
    """
    Decide what a cycle found.

    Args:
        memory: Of the cycle before; an empty one at first.
        world: What was read.
        window: Over how many cycles to average SM use.
    """
    known = gpus.remember(memory.gpus, world.sample)
    roster = memory.layout.roster.brought_to(world.records, known)
    # By other records a process may be another's.
    owners = memory.owners if roster is memory.layout.roster else _NO_OWNERS
    found = attribution.attribute(world, roster.paths, owners)
    layout = memory.layout.brought_to(roster, found.uses.keys())
    uses = {key: usage.used(parts.places, found.uses) for key, parts in layout.pods.items()}
    sampled = gpus.telling_sm(world.sample)
    history = windows.advance(memory.history, _sm_percent(uses, sampled), window)
    facts = Facts(found.uses, world.limits, _major(world.sample.driver_version))
    silent = gpus.silent(known, world.sample)
    hidden = {(gpu.uuid, gpu.index) for gpu in silent}
    snapshot = Snapshot(
        pods=_without(hidden, _pods(layout, uses, history, sampled)),
        containers=_without(hidden, containers.describe(layout.members, facts)),
        containers_left_out=layout.left_out,
        gpus=gpus.answering(known.placed, world.sample),
        silent=silent,
        processes_seen=found.seen,
        processes_attributed=found.attributed,
        processes_unattributed=found.unattributed,
        records=len(world.records),
        records_unreadable=world.unreadable,
        driver_version=world.sample.driver_version,
    )
    return Memory(known, layout, found.owners, history), snapshot


def _sm_percent(uses: Mapping[PodOnGpu, Use], sampled: AbstractSet[int]) -> dict[PodOnGpu, float]:
    # Processes that run at the same time, as under MPS, each have the time of both.
    return {key: min(MAX_PERCENT, float(use.sm_percent)) for key, use in uses.items() if key.gpu_index in sampled}


def _pods(
    layout: Layout, uses: Mapping[PodOnGpu, Use], history: History, sampled: AbstractSet[int]
) -> tuple[PodUse, ...]:
    return tuple(
        [
            _pod_use(key, layout.pods.get(key, NOWHERE), uses.get(key, UNUSED), history.get(key, _IDLE))
            if key.gpu_index in sampled
            else PodUse(key, uses.get(key, UNUSED).memory_bytes, None, None)
            for key in layout.shown
        ]
    )


def _pod_use(key: PodOnGpu, parts: Parts, use: Use, sm_percents: tuple[float, ...]) -> PodUse:
    sm_percent = windows.mean(sm_percents)
    return PodUse(key, use.memory_bytes, sm_percent, usage.normalized(sm_percent, parts.fraction))


def _without(hidden: AbstractSet[tuple[str, int]], found: tuple[T, ...]) -> tuple[T, ...]:
    return tuple([one for one in found if (one.key.gpu_uuid, one.key.gpu_index) not in hidden]) if hidden else found


def _major(version: str) -> int | None:
    try:
        return driver.parse_major(version)
    except InvalidDriverVersion:
        return None
