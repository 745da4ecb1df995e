"""
Reads the directory of container records again and again, at little cost where little changed.

Everything here blocks; an asyncio caller runs it in a thread.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple

import attrs

from fractioning_core import mapdir, record
from fractioning_core.errors import InvalidRecord, escaped
from fractioning_core.record import Record

# A pipe that was put in the place of a record would be waited for, and a link could lead anywhere.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


@attrs.frozen(order=True)
class Problem:
    """
    A file in the directory that could not be read as a record.
    """

    file: str
    reason: str

    def __str__(self) -> str:
        return f"{escaped(self.file)}: {self.reason}"


class _Version(NamedTuple):
    """
    What tells that a file is another than before, without opening it.

    Each is written as a new file, but its inode may be that of the one before the last. The time is that of any
    change, so that a file whose mode was mended is seen anew.
    """

    inode: int
    size: int
    changed_ns: int

    @classmethod
    def of(cls, found: os.stat_result) -> _Version:
        return cls(found.st_ino, found.st_size, found.st_ctime_ns)


@attrs.frozen
class _Content:
    version: _Version
    outcome: Record | InvalidRecord


class MapReader:
    """
    The records in one directory, for one thread at a time.

    A file that did not change since the last reading is not opened.

    Args:
        path: the directory.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._before: dict[str, _Content] = {}

    def read(self) -> tuple[dict[str, Record], tuple[Problem, ...]]:
        """
        Read every record, keyed by file stem, which is the bare container id.

        Returns: the records, and the files that are none though they look it, both by name.

        Raises:
            Unavailable: the directory itself cannot be read.
        """
        contents: dict[str, _Content] = {}
        problems: list[Problem] = []
        for entry in mapdir.entries(self.path):
            try:
                contents[entry.name] = self._content(entry)
            except FileNotFoundError:
                continue  # its container ended since the directory was listed, or it is no file any more
            except OSError as error:
                problems.append(Problem(entry.name, mapdir.cause(error)))
        self._before = contents
        records: dict[str, Record] = {}
        for name, content in contents.items():
            if isinstance(content.outcome, Record):
                records[name.removesuffix(record.FILE_SUFFIX)] = content.outcome
            else:
                problems.append(Problem(name, str(content.outcome)))
        return records, tuple(sorted(problems))

    def _content(self, entry: os.DirEntry[str]) -> _Content:
        before = self._before.get(entry.name)
        if before is not None and before.version == _Version.of(entry.stat(follow_symlinks=False)):
            return before
        descriptor = os.open(entry.path, _FLAGS)
        try:
            # Of what was opened: it may be another file than was listed.
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise FileNotFoundError
            return _Content(_Version.of(found), _decoded(os.read(descriptor, record.MAX_RECORD_BYTES + 1)))
        finally:
            os.close(descriptor)


def _decoded(data: bytes) -> Record | InvalidRecord:
    try:
        return record.decode(data)
    except InvalidRecord as error:
        return error
