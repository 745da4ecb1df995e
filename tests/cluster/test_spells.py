"""How long containers were without their fence, of which behind the detection window; no cluster is needed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from clusterlab.spells import AUDIT_SECONDS, STOP_SECONDS, Account, Journal, Spell, Times
from clusterlab.witness import synchronizes

LACKS = ("mount",)
FENCED, UNFENCED = {"c1": ()}, {"c1": LACKS}


def journal_of(*looks: Mapping[str, tuple[str, ...]], records: frozenset[str] = frozenset({"c1"})) -> Journal:
    """
    Give a journal with a look a second.
    """
    journal = Journal()
    for at, found in enumerate(looks):
        journal.note("gpu-1", float(at), found, records=records)
    return journal


def times(recovered: float, *synchronized: float) -> Times:
    return Times(recovered, {"gpu-1": synchronized})


class TestAccount:
    def test_fenced_all_the_time(self) -> None:
        """
        A container that never was without its fence counts nothing.
        """
        assert Account(0, 0, 0, 0) == journal_of(FENCED, FENCED, {}).account(times(1))

    def test_stopped_by_the_audit(self) -> None:
        """
        A container that the audit stops within the window counts from the look before it was first seen.
        """
        journal = journal_of({}, UNFENCED, UNFENCED, {})

        assert Account(1, 2.0, 0.0, 0, audit_seconds=0.5) == journal.account(times(4, 1.5))

    def test_left_running(self) -> None:
        """
        What is left running after the audit counts for all the time behind the window.
        """
        journal = journal_of({}, *[UNFENCED] * 25)

        after = 25.0 - 2.0 - AUDIT_SECONDS - STOP_SECONDS
        assert Account(1, 25.0, after, 0, audit_seconds=23.0) == journal.account(times(3, 2.0))

    def test_one_after_another(self) -> None:
        """
        The window is longer where the audit finds more, and by as much for all of them.
        """
        found = {f"c{number}": LACKS for number in range(3)}
        journal = journal_of({}, *[found] * 25)

        window = AUDIT_SECONDS + 3 * STOP_SECONDS
        assert 3 * (25.0 - 2.0 - window) == journal.account(times(3, 2.0)).unfenced_seconds_after

    def test_never_synchronized(self) -> None:
        """
        Where fractiond was not synchronized since, the window ends with the recovery.
        """
        journal = journal_of({}, *[UNFENCED] * 5)

        assert Account(1, 5.0, 2.0, 0) == journal.account(times(3))

    def test_after_the_recovery(self) -> None:
        """
        A container that starts unfenced once all is well has no window.
        """
        journal = journal_of({}, {}, {}, UNFENCED, UNFENCED)

        assert Account(1, 2.0, 2.0, 0) == journal.account(times(1, 3.5))

    def test_two_spells(self) -> None:
        """
        A fence that comes and goes counts for each time it was away, of one container.
        """
        journal = journal_of(FENCED, UNFENCED, FENCED, UNFENCED, FENCED)

        assert Account(1, 2.0, 0.0, 0) == journal.account(times(5))

    def test_other_worker(self) -> None:
        """
        Another worker's Synchronize ends no window.
        """
        journal = journal_of({}, *[UNFENCED] * 25)

        assert 0 == journal.account(Times(25, {"gpu-2": [1.0]})).unfenced_seconds_after


class TestRecords:
    def test_lost(self) -> None:
        """
        A record that vanishes while its container runs is lost, also when there is one again later.
        """
        journal = journal_of(FENCED)
        journal.note("gpu-1", 1.0, FENCED, records=set())
        journal.note("gpu-1", 2.0, FENCED, records={"c1"})

        assert 1 == journal.account(times(3)).records_lost

    def test_goes_with_its_container(self) -> None:
        """
        A record that goes when its container has ended is not lost.
        """
        journal = journal_of(FENCED)
        journal.note("gpu-1", 1.0, {}, records=set())

        assert 0 == journal.account(times(3)).records_lost

    def test_late(self) -> None:
        """
        A container may be without a record at first, but not in the end.
        """
        journal = journal_of(FENCED, records=frozenset())
        assert {"c1"} == journal.unrecorded()
        assert 1 == journal.account(times(3)).records_lost

        journal.note("gpu-1", 1.0, FENCED, records={"c1"})

        assert 0 == journal.account(times(3)).records_lost


class TestSpell:
    @pytest.mark.parametrize(
        ("end", "seconds"),
        [
            pytest.param(5.0, 10.0, id="before it"),
            pytest.param(15.0, 5.0, id="within"),
            pytest.param(25.0, 0.0, id="behind it"),
        ],
    )
    def test_seconds_after(self, end: float, seconds: float) -> None:
        """
        Only what lies behind a time counts.
        """
        assert seconds == Spell("gpu-1", "c1", LACKS, 10.0, 20.0).seconds_after(end)


class TestSynchronizes:
    def test_of_a_log(self) -> None:
        """
        The times are of its Synchronizes alone, and by the clock of the runtime: fractiond's own may be what is wrong.
        """
        text = (
            '2026-01-01T00:00:01.500000001Z stdout F {"time": "2026-01-02T00:00:00.000000Z", "level": "info", '
            '"event": "synchronized", "service": "fractiond", "pods": 3}\n'
            '2026-01-01T00:00:09.2Z stdout F {"time": "2026-01-01T00:00:02.000000Z", "event": "container_fenced"}\n'
            "2026-01-01T00:00:09.3Z stderr F no JSON\n"
        )

        assert [1767225601.5] == synchronizes(text)
