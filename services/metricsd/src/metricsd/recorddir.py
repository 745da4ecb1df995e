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

# More than the clock of any file system that holds such a directory takes from tick to tick.
_TICK_SECONDS = 1.0
_RESCAN_SECONDS = 60.0

_Stamp = tuple[int, int]
"""A directory's inode, and when it or a name in it changed last, which nobody can set."""


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


@attrs.frozen
class _Scan:
    """
    What a scan found.

    Args:
        stamp: Of the directory, before it.
        first_seen: When that stamp was met first.
        began: When the scan began.
        reading: What it found.
    """

    stamp: _Stamp | None
    first_seen: float
    began: float
    reading: Reading

    def holds(self, stamp: _Stamp | None, now: float) -> bool:
        """
        Tell whether another scan would find the same.

        Every record is put in place under a new name or taken away, which the directory's stamp tells; but a change
        within the same tick of the file system's clock leaves the stamp as it is, so the scan must have begun later.
        What is no record may be mended where it lies.
        """
        is_settled = self.stamp is not None and self.began - self.first_seen >= _TICK_SECONDS
        is_fresh = self.stamp == stamp and now - self.began < _RESCAN_SECONDS
        return is_settled and is_fresh and not self.reading.unreadable


class RecordDir:
    """
    The directory that fractiond writes.

    It is scanned again when something in it came or went, and once a minute in any case.

    Args:
        path: Of it; one that is missing holds no records.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reader = MapReader(path)
        self._last: _Scan | None = None
        self._said: frozenset[Problem] = frozenset()
        self._log = structlog.get_logger()

    def read(self, *, now: float) -> Reading:
        """
        Read what is there, and say of each file once why it is no record.

        Args:
            now: In seconds, of a clock that is never set.

        Returns: the very same as before where nothing changed.

        Raises:
            Unavailable: The directory itself cannot be read.
        """
        stamp, last = _stamp(self._path), self._last
        if last is not None and last.holds(stamp, now):
            return last.reading
        reading = self._scanned()
        if last is not None and last.reading == reading:
            reading = last.reading
        first_seen = last.first_seen if last is not None and last.stamp == stamp else now
        self._last = _Scan(stamp, first_seen, now, reading)
        return reading

    def _scanned(self) -> Reading:
        records, problems = self._reader.read()
        for problem in problems:
            if problem not in self._said:
                self._log.warning("record_unreadable", file=problem.file, reason=problem.reason)
        self._said = frozenset(problems)
        return Reading(records, len(problems))


def _stamp(path: Path) -> _Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns
