"""
The records of this node's fractional containers, as of now.

Everything here blocks; the cycle runs it in a thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs
import structlog
from fractioning_core.mapreader import MapReader, Problem
from fractioning_core.record import Record


@attrs.frozen
class Reading:
    """
    What the directory holds.

    Args:
        records: By bare container id.
        unreadable: How many more files look like records and are none.
    """

    records: Mapping[str, Record]
    unreadable: int


class RecordDir:
    """
    The directory that fractiond writes.

    Args:
        path: Of it; one that is missing holds no records.
    """

    def __init__(self, path: Path) -> None:
        self._reader = MapReader(path)
        self._said: frozenset[Problem] = frozenset()
        self._log = structlog.get_logger()

    def read(self) -> Reading:
        """
        Read what is there, and say of each file once why it is no record.

        Raises:
            Unavailable: The directory itself cannot be read.
        """
        records, problems = self._reader.read()
        for problem in problems:
            if problem not in self._said:
                self._log.warning("record_unreadable", file=problem.file, reason=problem.reason)
        self._said = frozenset(problems)
        return Reading(records, len(problems))
