"""
The records of this node's fractional containers, kept on disk as they should be.

State, not events: handlers say synchronously what should be there, and one worker makes the directory so, in a thread.
What could not be written stays due and is tried again, so a full or read-only disk costs nothing but time, and the
queue can never be longer than there are containers. Injection does not wait for any of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Protocol

import structlog
from fractioning_core.errors import Unavailable
from fractioning_core.record import Record
from fractioning_core.service.backoff import Schedule

from fractiond.metrics import Metrics

# Far above what one node can run (the kubelet's default is 110 pods); a bound against a runtime gone mad.
MAX_RECORDS = 10_240
RETRY = Schedule(first=0.5, cap=15.0)
# The runtime validates within a millisecond of a creation, and a thread that writes meanwhile competes for the
# interpreter: such a creation took 1.7 times as long as with a Go plugin, and with this pause no longer.
GATHER_SECONDS = 0.05


class Directory(Protocol):
    """The blocking store that the worker writes to."""

    def write(self, container_id: str, record: Record) -> None:
        """Write one record, whole or not at all."""

    def delete(self, container_id: str) -> None:
        """Remove one record; absent is fine."""

    def sweep(self, keep: Collection[str]) -> None:
        """Remove the records of all containers but these."""


class Records:
    """Wanted records in memory, and the worker that writes what changed."""

    def __init__(self, directory: Directory, *, metrics: Metrics, log_events: bool) -> None:
        self._directory = directory
        self._metrics = metrics
        self._log_events = log_events
        self._log = structlog.get_logger()
        self._wanted: dict[str, Record] = {}
        self._due: dict[str, None] = {}
        self._existing: frozenset[str] | None = None
        self._changed = asyncio.Event()
        self._settled = asyncio.Event()
        self._settled.set()

    @property
    def depth(self) -> int:
        """How many records are still to be written or removed."""
        return len(self._due)

    def put(self, container_id: str, record: Record) -> None:
        """Want this record; it is written soon."""
        if len(self._wanted) >= MAX_RECORDS and container_id not in self._wanted:
            self._metrics.records_dropped.inc()
            self._log.warning("record_dropped", container_id=container_id, held=len(self._wanted))
            return
        if self._wanted.get(container_id) != record:
            self._wanted[container_id] = record
            self._mark(container_id)

    def put_new(self, container_id: str, record: Record) -> None:
        """Want this record of a creation; one from the container's start came later and knows more."""
        if container_id not in self._wanted:
            self.put(container_id, record)

    def drop(self, container_id: str) -> None:
        """Want no record of this container; unknown is fine."""
        if self._wanted.pop(container_id, None) is not None:
            self._mark(container_id)

    def replace(self, records: Mapping[str, Record], *, spare: Collection[str]) -> None:
        """
        Want these, and write each again: the disk may have lost any while nobody looked.

        Args:
            records: the wanted ones.
            spare: containers whose records stay as they are; those of all others go.
        """
        self.retain({*records, *spare})
        for container_id, record in records.items():
            self.put(container_id, record)
            self._mark(container_id)

    def retain(self, existing: Collection[str]) -> None:
        """Want no record, in memory or on disk, of a container that is not among `existing`."""
        for container_id in self._wanted.keys() - set(existing):
            self.drop(container_id)
        self._existing = frozenset(existing)
        self._settled.clear()
        self._changed.set()

    async def run(self) -> None:
        """Write what is due, for ever."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(GATHER_SECONDS)
            attempt = 0
            while not await self._write_due():
                await asyncio.sleep(RETRY.delay(attempt))
                attempt += 1

    async def flush(self) -> None:
        """Wait until nothing is due; the caller sets the bound."""
        await self._settled.wait()

    def _mark(self, container_id: str) -> None:
        self._due[container_id] = None
        self._settled.clear()
        self._changed.set()

    async def _write_due(self) -> bool:
        """Try everything that is due once; tell whether all of it went through."""
        self._changed.clear()
        complete = await self._sweep()
        due = {container_id: self._wanted.get(container_id) for container_id in self._due}
        # One trip to the thread for all: it costs more than writing a record does.
        failures = await asyncio.to_thread(self._apply, due) if due else {}
        for container_id, record in due.items():
            if container_id in failures:
                self._metrics.record_errors.inc()
                self._log.warning("record_failed", container_id=container_id, error=str(failures[container_id]))
            else:
                self._done(container_id, record)
        if not self._due and self._existing is None:
            self._settled.set()
        return complete and not failures

    async def _sweep(self) -> bool:
        """Remove what lies on disk for containers that are gone: written by a fractiond before us."""
        existing = self._existing
        if existing is None:
            return True
        try:
            await asyncio.to_thread(self._directory.sweep, existing | self._wanted.keys())
        except Unavailable as error:
            self._metrics.record_errors.inc()
            self._log.warning("records_not_swept", error=str(error))
            return False
        if self._existing is existing:
            self._existing = None
        return True

    def _apply(self, due: Mapping[str, Record | None]) -> dict[str, Unavailable]:
        """Write or remove each, blocking; give the failures."""
        failures = {}
        for container_id, record in due.items():
            try:
                if record is None:
                    self._directory.delete(container_id)
                else:
                    self._directory.write(container_id, record)
            except Unavailable as error:
                failures[container_id] = error
        return failures

    def _done(self, container_id: str, record: Record | None) -> None:
        # The container may have changed again while the thread was writing: then it stays due.
        if self._wanted.get(container_id) == record:
            self._due.pop(container_id, None)
        if self._log_events:
            event = "record_removed" if record is None else "record_written"
            self._log.info(event, container_id=container_id, pod=record.pod if record else None)
