from __future__ import annotations

import attrs
import pytest
from clusterlab.outcomes import Outcome
from faultstable import render

OUTCOME = Outcome(
    name="fractiond killed",
    what="it is killed",
    pods_made=12,
    tenants_ended=0,
    unfenced_containers=3,
    unfenced_seconds=7.25,
    unfenced_seconds_after=0.0,
    audit_seconds=4.1,
    records_lost=0,
    recovery_seconds=14.6,
)


class TestRender:
    def test_a_row(self) -> None:
        """
        A fault's row tells what happened, how much was made meanwhile, and what became of it.
        """
        expected = "| fractiond killed | it is killed | 12 | 0 | 3 | 7.2 | 4.1 | 0.0 | 0 | 15 |"

        assert expected == render([OUTCOME], load=0.0).splitlines()[2]

    def test_every_fault(self) -> None:
        """
        Faults stand in the order in which they were suffered.
        """
        outcomes = [attrs.evolve(OUTCOME, name=name) for name in ("b", "a")]

        assert ["b", "a"] == [line.split("|")[1].strip() for line in render(outcomes, load=0.0).splitlines()[2:4]]

    def test_simulated(self) -> None:
        """
        What is simulated is said.
        """
        assert "GPUs, driver and NVIDIA's runtime simulated" in render([], load=0.0)


class TestHolds:
    @pytest.mark.parametrize(
        ("outcome", "holds"),
        [
            pytest.param(OUTCOME, True, id="both bars met"),
            pytest.param(attrs.evolve(OUTCOME, unfenced_seconds_after=0.25), False, id="unfenced after the window"),
            pytest.param(attrs.evolve(OUTCOME, records_lost=1), False, id="record lost"),
        ],
    )
    def test_bars(self, outcome: Outcome, *, holds: bool) -> None:
        """
        Nothing is unfenced after the window, and no record is lost.
        """
        assert holds is outcome.holds
