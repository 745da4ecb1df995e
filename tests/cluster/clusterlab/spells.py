"""
What a row of looks at containers says about their fences and records. Pure: looks in, sums out.

A spell is a time in which a container that is to be fenced ran without its fence. Its detection window is open until
fractiond's audit has stopped the container: from the first Synchronize of that worker's fractiond since the spell
began, the audit has `AUDIT_SECONDS`, and `STOP_SECONDS` for every container that it finds, since it stops them one
after another. While a fault goes on such spells are what the product promises to end, not to prevent; whatever of a
spell lies behind its window counts against it. Without such a Synchronize the window ends with the recovery, and a
spell that began after that has none at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import attrs

AUDIT_SECONDS = 10.0
"""
How long after a Synchronize the audit may take, on a machine that is busy with starting pods.
"""
STOP_SECONDS = 2.0
"""
How much longer for each container that it finds: it waits a second between two, and a stop takes its time.
"""


@attrs.frozen
class Spell:
    """
    One container without its fence.

    Args:
        worker: Where.
        container_id: Which.
        lacks: What was missing.
        since: The last look at which it was not seen so.
        last: The last look at which it was.
    """

    worker: str
    container_id: str
    lacks: tuple[str, ...]
    since: float
    last: float

    @property
    def seconds(self) -> float:
        """
        How long it was.
        """
        return self.last - self.since

    def seconds_after(self, end: float) -> float:
        """
        Tell how much of it was behind this time.
        """
        return max(0.0, self.last - max(self.since, end))


@attrs.frozen
class Times:
    """
    When all was well again after a fault, and when each worker's fractiond was synchronized meanwhile.
    """

    recovered: float
    synchronized: Mapping[str, Sequence[float]]

    def audited(self, spell: Spell) -> float | None:
        """
        Tell when fractiond was synchronized first since a spell began; None where it was not before the recovery.
        """
        times = self.synchronized.get(spell.worker, ())
        return min((at for at in times if spell.since <= at <= self.recovered), default=None)

    def window_end(self, spell: Spell, spells: Sequence[Spell]) -> float:
        """
        Tell when the detection window of a spell, one of these, ends.
        """
        if spell.since > self.recovered:
            return spell.since
        audited = self.audited(spell)
        if audited is None:
            return self.recovered
        found = [each for each in spells if each.worker == spell.worker and each.since <= audited <= each.last]
        return audited + AUDIT_SECONDS + STOP_SECONDS * len(found)


@attrs.frozen
class Account:
    """
    The sums over all containers.
    """

    unfenced_containers: int
    unfenced_seconds: float
    unfenced_seconds_after: float
    records_lost: int
    audit_seconds: float = 0.0
    """
    From a Synchronize until the last container that the audit has found was stopped.
    """


@attrs.define
class Journal:
    """
    All looks so far.
    """

    spells: list[Spell] = attrs.field(factory=list)
    """
    Those that are over.
    """
    _open: dict[str, Spell] = attrs.field(factory=dict)
    _now: dict[str, Mapping[str, tuple[str, ...]]] = attrs.field(factory=dict)
    _looked: dict[str, float] = attrs.field(factory=dict)
    _recorded: dict[str, AbstractSet[str]] = attrs.field(factory=dict)
    _known: set[str] = attrs.field(factory=set)
    _lost: set[str] = attrs.field(factory=set)

    def note(self, worker: str, at: float, found: Mapping[str, tuple[str, ...]], *, records: AbstractSet[str]) -> None:
        """
        Take down a look.

        Args:
            worker: Where.
            at: When.
            found: The running containers that are to be fenced, each with what its fence lacks.
            records: The containers with a record, listed before `found` was.
        """
        since = self._looked.get(worker, at)
        unfenced = {container: lacks for container, lacks in found.items() if lacks}
        for container, lacks in unfenced.items():
            former = self._open.get(container)
            first = since if former is None else former.since
            self._open[container] = Spell(worker, container, lacks, first, at)
        for container, spell in list(self._open.items()):
            if spell.worker == worker and container not in unfenced:
                self.spells.append(self._open.pop(container))
        # Alive after the records were listed, so that its record was to be among them.
        self._lost |= (self._known & found.keys()) - records
        self._known |= found.keys() & records
        self._now[worker], self._looked[worker], self._recorded[worker] = found, at, records

    def running(self) -> set[str]:
        """
        List the containers that ran at the last look.
        """
        return {container for found in self._now.values() for container in found}

    def lacks(self, container: str) -> tuple[str, ...]:
        """
        Tell what the fence of a running container lacked at the last look.
        """
        return next(found[container] for found in self._now.values() if container in found)

    def fenced(self) -> set[str]:
        """
        List the containers that ran with their fence at the last look.
        """
        return {container for container in self.running() if not self.lacks(container)}

    def unrecorded(self) -> set[str]:
        """
        List the containers that had no record at the last look.
        """
        return {container for worker, found in self._now.items() for container in found.keys() - self._recorded[worker]}

    def account(self, times: Times) -> Account:
        """
        Sum up, once all is over.
        """
        spells = [*self.spells, *self._open.values()]
        audits = [(spell, times.audited(spell)) for spell in spells]
        return Account(
            unfenced_containers=len({spell.container_id for spell in spells}),
            unfenced_seconds=sum(spell.seconds for spell in spells),
            unfenced_seconds_after=sum(spell.seconds_after(times.window_end(spell, spells)) for spell in spells),
            records_lost=len(self._lost | self.unrecorded()),
            audit_seconds=max(
                (spell.last - at for spell, at in audits if at is not None and at < spell.last), default=0.0
            ),
        )
