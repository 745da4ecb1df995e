"""
Which series there are, and what does not change from cycle to cycle while containers and GPUs stay the same.

On a full node it takes as long to work out as all the rest of a cycle's decision, and changes when a container comes or
goes. So it is kept, and made anew when one of the values that it is made of is another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

import attrs
from fractioning_core.record import Record

from metricsd import attribution, containers, devicemap, series, usage
from metricsd.containers import Member
from metricsd.gpus import Gpus, Known
from metricsd.snapshot import PodOnGpu
from metricsd.usage import Parts
from metricsd.world import ContainerOnGpu


@attrs.frozen(eq=False)
class Roster:
    """
    What follows from records and GPUs alone.

    Args:
        records: By container id.
        known: The GPUs.
        paths: What `attribution.paths` gives.
        recorded: Which containers are on which GPUs by their records.
        active_uids: Of the pods that are here.
    """

    records: Mapping[str, Record] = attrs.field(factory=dict)
    known: Known = attrs.field(factory=Known)
    paths: Mapping[str, str] = attrs.field(factory=dict)
    recorded: AbstractSet[ContainerOnGpu] = frozenset()
    active_uids: AbstractSet[str] = frozenset()

    @classmethod
    def of(cls, records: Mapping[str, Record], known: Known) -> Roster:
        """
        Work it out.
        """
        devices, gone = tuple(known.placed.values()), known.displaced.keys()
        return cls(
            records,
            known,
            attribution.paths(records),
            frozenset(
                ContainerOnGpu(container_id, index)
                for container_id, record in records.items()
                for index in devicemap.indices(record, devices, gone=gone)
            ),
            # A record without a UID keeps nothing alive but itself.
            frozenset(record.pod_uid for record in records.values() if record.pod_uid),
        )

    @property
    def gpus(self) -> Gpus:
        """
        Those that have a place.
        """
        return self.known.placed

    def brought_to(self, records: Mapping[str, Record], known: Known) -> Roster:
        """
        Give the roster of these; itself where they are its own.
        """
        # Values that are the same objects are not compared, and those of the cycle before mostly are.
        return self if (self.records, self.known) == (records, known) else Roster.of(records, known)


@attrs.frozen(eq=False)
class Layout:
    """
    The series, and whose they are.

    Args:
        roster: The containers and GPUs.
        strays: Where processes are that no record places there.
        met: Where processes of these containers were ever met.
        pods: Of this cycle, each with its containers.
        shown: Those to show, with those that were there before, in order.
        members: The series of containers, in order.
        left_out: How many more of these there are, beyond the bound.
    """

    roster: Roster = attrs.field(factory=Roster)
    strays: AbstractSet[ContainerOnGpu] = frozenset()
    met: AbstractSet[ContainerOnGpu] = frozenset()
    pods: Mapping[PodOnGpu, Parts] = attrs.field(factory=dict)
    shown: tuple[PodOnGpu, ...] = ()
    members: tuple[Member, ...] = ()
    left_out: int = 0

    def brought_to(self, roster: Roster, used: AbstractSet[ContainerOnGpu]) -> Layout:
        """
        Give the layout of the cycle after this; itself where there is nothing new.

        Args:
            roster: What `Roster.brought_to` gives.
            used: Where processes of containers are now.
        """
        strays = used - roster.recorded
        is_met = used <= self.met
        if roster is self.roster and strays == self.strays and is_met:
            return self
        met = _here(_renumbered(self.met, self.roster.gpus, roster.gpus) | used, roster)
        pods = usage.by_pod(roster.recorded | strays, records=roster.records, gpus=roster.gpus)
        shown = series.lasting(self.shown, pods.keys(), active_uids=roster.active_uids, gpus=roster.gpus)
        members, left_out = containers.gather(roster.recorded | met, roster.records, roster.gpus)
        return Layout(roster, frozenset(strays), met, pods, tuple(sorted(shown)), members, left_out)


def _renumbered(places: AbstractSet[ContainerOnGpu], before: Gpus, now: Gpus) -> AbstractSet[ContainerOnGpu]:
    """
    Give places by the indices that their GPUs have now; those on GPUs that have none are left out.
    """
    if before is now:
        return places
    indices = {device.uuid: index for index, device in now.items()}
    moved = {index: indices.get(device.uuid) if device.uuid else index for index, device in before.items()}
    return frozenset(
        ContainerOnGpu(container_id, index)
        for container_id, before_index in places
        if (index := moved[before_index]) is not None
    )


def _here(places: Iterable[ContainerOnGpu], roster: Roster) -> AbstractSet[ContainerOnGpu]:
    return frozenset(
        place for place in places if place.container_id in roster.records and place.gpu_index in roster.gpus
    )
