"""
The directory of container records: one file per container, replaced atomically.

A reader in another process, for which there is `mapreader`, sees a whole record or none, never half of one. Everything
here blocks; an asyncio caller runs it in a thread.
"""

from __future__ import annotations

import contextlib
import operator
import os
import secrets
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from fractioning_core import record
from fractioning_core.errors import FileUnavailable, Unavailable
from fractioning_core.record import Record

_TEMP_PREFIX = ".gpu-fractioning-"
_TEMP_SUFFIX = ".tmp"


class MapDir:
    """
    The records in one directory, which is made when the first is written.

    Args:
        path: the directory.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        # A sweep takes away temporary files, and must not meet that of a write in another thread.
        self._changing = threading.Lock()
        # One is enough under the lock, and no other process has the same. A new name and pathlib for each write made
        # it three times as dear (100 µs against 35), at the expense of answers to the runtime.
        self._temporary = os.path.join(self.path, f"{_TEMP_PREFIX}{secrets.token_hex(8)}{_TEMP_SUFFIX}")  # noqa: PTH118

    def write(self, container_id: str, entry: Record) -> None:
        """
        Put a container's record in place of any former one; an empty id is passed over.

        Raises:
            Unavailable: the file system refused.
        """
        with self._changing:
            self._write(record.file_name(container_id), entry)

    def delete(self, container_id: str) -> None:
        """
        Remove a container's record; one that is not there is fine.

        Raises:
            Unavailable: the file system refused.
        """
        name = record.file_name(container_id)
        if name:
            with self._changing:
                self._unlink(name)

    def sweep(self, keep: Collection[str]) -> None:
        """
        Remove the records of all containers but these, and what a writer that was killed half-way left behind.

        One that cannot be removed does not keep the others from going.

        Raises:
            Unavailable: the file system refused at least once; this is the first refusal.
        """
        kept = {record.file_name(container_id) for container_id in keep}
        with self._changing:
            _raise_first(self._unlinked([*{entry.name for entry in entries(self.path)} - kept, *self._leftovers()]))

    def replace(self, records: Mapping[str, Record]) -> None:
        """
        Make the directory hold exactly these records, by container id.

        One that cannot be written does not keep the others from being written nor stale ones from going.

        Raises:
            Unavailable: the file system refused at least once; this is the first refusal.
        """
        failures: list[Unavailable] = []
        for container_id, entry in records.items():
            with _collected(failures):
                self.write(container_id, entry)
        with _collected(failures):
            self.sweep(records.keys())
        _raise_first(failures)

    def _write(self, name: str, entry: Record) -> None:
        if not name:
            return
        target = os.path.join(self.path, name)  # noqa: PTH118 - see above
        with _named("write", target):
            self._prepare()
            try:
                _fill(self._temporary, record.encode(entry))
                os.replace(self._temporary, target)  # noqa: PTH105 - see above
            except BaseException:
                Path(self._temporary).unlink(missing_ok=True)
                raise

    def _prepare(self) -> None:
        if not self.path.is_dir():
            self.path.mkdir(parents=True, exist_ok=True)
            # A tight umask must not lock the reader out.
            self.path.chmod(0o755)

    def _unlink(self, name: str) -> None:
        with _named("remove", self.path / name):
            (self.path / name).unlink(missing_ok=True)

    def _unlinked(self, names: Iterable[str]) -> list[Unavailable]:
        failures: list[Unavailable] = []
        for name in names:
            with _collected(failures):
                self._unlink(name)
        return failures

    def _leftovers(self) -> list[str]:
        with _named("list", self.path):
            return [path.name for path in self.path.glob(f"{_TEMP_PREFIX}*{_TEMP_SUFFIX}")]


def entries(path: Path) -> list[os.DirEntry[str]]:
    """
    List the files that look like records, by name; a missing directory has none.

    Directories, links, hidden files and other extensions are passed over.

    Raises:
        Unavailable: the directory cannot be read.
    """
    with _named("list", path):
        try:
            with os.scandir(path) as found:
                return sorted((entry for entry in found if _is_record(entry)), key=operator.attrgetter("name"))
        except FileNotFoundError:
            return []


def cause(error: OSError) -> str:
    """
    Say what the file system answered.
    """
    return error.strerror or type(error).__name__


def _is_record(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith(".") or not entry.name.endswith(record.FILE_SUFFIX):
        return False
    # A link could lead anywhere, and opening a pipe would wait for ever.
    return entry.is_file(follow_symlinks=False)


def _fill(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(descriptor, 0o644)
        os.fsync(descriptor)


@contextlib.contextmanager
def _named(action: str, path: str | Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileUnavailable(action, str(path), cause(error)) from error


@contextlib.contextmanager
def _collected(failures: list[Unavailable]) -> Iterator[None]:
    try:
        yield
    except Unavailable as error:
        failures.append(error)


def _raise_first(failures: list[Unavailable]) -> None:
    if failures:
        raise failures[0]
