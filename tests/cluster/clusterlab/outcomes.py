"""
What faults have done, kept in a file of the cluster's directory by the name of the fault.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from clusterlab.layout import Layout


@attrs.frozen
class Outcome:
    """
    What one fault has done.
    """

    name: str
    what: str
    pods_made: int
    """While it went on, until the recovery."""
    tenants_ended: int
    """Of the containers that ran fenced before it."""
    unfenced_containers: int
    unfenced_seconds: float
    """Container-seconds in all."""
    unfenced_seconds_after: float
    """Of these, behind the detection window."""
    records_lost: int
    recovery_seconds: float
    """From the fault's end."""
    audit_seconds: float = 0.0
    """From fractiond's Synchronize until the audit had stopped the last that was unfenced; 0 where none was."""

    @property
    def holds(self) -> bool:
        """
        Whether both bars are met.
        """
        return self.unfenced_seconds_after == 0 and self.records_lost == 0


def ledger(layout: Layout) -> Path:
    """
    Give the file of a cluster's outcomes.
    """
    return layout.base / "faults.json"


def read(path: Path) -> Sequence[Outcome]:
    """
    Read outcomes, in the order in which their faults were first suffered.
    """
    bodies: Mapping[str, Mapping[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
    return [Outcome(**body) for body in bodies.values()]


def enter(path: Path, outcome: Outcome) -> None:
    """
    Write an outcome, in the place of a former one of this name.
    """
    bodies = {each.name: attrs.asdict(each) for each in read(path)} | {outcome.name: attrs.asdict(outcome)}
    path.write_text(json.dumps(bodies, indent=2))
