"""
What can go wrong with the cluster itself; its programs' own failures are the lab's `Died`, `Overdue`, `CommandFailed`.
"""

# ruff: noqa: N818 - the root says that these are errors; the names say which.

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lab.errors import LabError


class NotPossibleHere(LabError):
    """
    This machine lacks something.
    """

    def __init__(self, lacks: Sequence[str]) -> None:
        super().__init__(lacks)
        self.lacks = lacks

    def __str__(self) -> str:
        return "no cluster can run here:" + "".join(f"\n  {lack}" for lack in self.lacks)


class AlreadyUp(LabError):
    """
    There is something of a cluster in the directory, be it whole or not.
    """

    def __init__(self, base: Path, found: Sequence[str]) -> None:
        super().__init__(base, found)
        self.base = base
        self.found = found

    def __str__(self) -> str:
        some = ", ".join(self.found[:5]) + (", …" if len(self.found) > 5 else "")
        return f"{self.base} has a cluster, or what is left of one ({some}); remove it with: scripts/cluster down"


class NotUp(LabError):
    """
    There is no cluster to do something with.
    """

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self.base = base

    def __str__(self) -> str:
        return f"there is no cluster in {self.base}; make one with: scripts/cluster up"


class Remains(LabError):
    """
    Something does not go.
    """

    def __init__(self, found: Sequence[str]) -> None:
        super().__init__(found)
        self.found = found

    def __str__(self) -> str:
        return "still there after the end of the cluster:" + "".join(f"\n  {each}" for each in self.found)


class Unexpected(LabError):
    """
    An object of the cluster is not as it was to be.
    """
