"""
One leader at a time among replicas, by a Lease.

A leader may write only while nobody else can have taken the lease, and a write that it has begun has to have ended by
then, too. So three spans are measured from the moment a renewal was sent, all on the monotonic clock:

    WRITE_SECONDS    until then a write may begin; one takes DEADLINE_SECONDS at the most
    RENEW_SECONDS    not renewed until then, the leader gives up: `LeaseLost`, and the process ends
    LEASE_SECONDS    from then on, or later, another may take the lease

They are twice as long as those of client-go, so that where the server takes 5 s for each answer there is a leader, and
it writes. client-go knows no span for writes: a leader may begin one at the very end of the second span, and a slow
server carries it out after the third.

A leader that gives up ends its process, because whatever it has in hand was decided as a leader. It does not give the
lease back either: a server too slow to renew it may still have a write of ours before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import Self, TypeVar

from fractioning_core.errors import InvalidInput, ProtocolViolation, Unavailable
from fractioning_core.kube import lease, timestamps
from fractioning_core.kube.errors import ApiUnreachable, Conflict, LeaseLost, NotFound
from fractioning_core.kube.lease import LEASES, Lease, Pod, Sighting
from fractioning_core.kube.objects import Objects
from fractioning_core.kube.transport import DEADLINE_SECONDS, Api

T = TypeVar("T")

LEASE_SECONDS = 30.0
RENEW_SECONDS = 24.0
RETRY_SECONDS = 2.0
# Between the end of the last write and the first moment of another leader.
_MARGIN_SECONDS = 1.0
WRITE_SECONDS = LEASE_SECONDS - DEADLINE_SECONDS - _MARGIN_SECONDS
# As long as any other request; a second one still comes in time.
_REQUEST_SECONDS = DEADLINE_SECONDS
# A pod has little time to end, and the lease is over by itself soon.
_RELEASE_SECONDS = 2.0


class Election:
    """
    A candidate, and perhaps the leader.

    Enter it around all that writes, so that it is left when nothing is being written any more: leaving gives the lease
    back, and a standby leads within about two seconds.

    Args:
        transport: The API server.
        namespace: Where the Lease is.
        name: What it is called.
        identity: What this candidate is called, and no other that lives.
        changed: Called when it begins or ceases to lead, and when `problem` changes.
        utcnow: Tells the time, for people who read the Lease; nothing is decided by it.
        pod: The pod that the Lease is to go with; None lets it stay.
    """

    def __init__(
        self,
        transport: Api,
        *,
        namespace: str,
        name: str,
        identity: str,
        changed: Callable[[], None],
        utcnow: Callable[[], datetime],
        pod: Pod | None = None,
    ) -> None:
        self.identity = identity
        self.problem = ""
        """
        Why the lease cannot be read or written; empty when it can.
        """
        self._objects = Objects(transport, field_manager=name)
        self._collection = LEASES.within(namespace)
        self._name = name
        self._changed = changed
        self._utcnow = utcnow
        self._pod = pod
        self._seen: Sighting | None = None
        self._is_missing = False
        """Whether there was no Lease when it was last read: somebody deleted it, and its holder may not know yet."""
        self._renewed_at: float | None = None
        """When the request was sent by which we hold the lease; None while we do not lead."""

    @property
    def is_leader(self) -> bool:
        """
        Whether this candidate has the lease, as far as it knows.
        """
        return self._renewed_at is not None

    @property
    def holder(self) -> str:
        """
        Who had the lease when it was last read; empty for nobody.
        """
        return self._seen.lease.holder if self._seen else ""

    def may_write(self) -> bool:
        """
        Say whether a write that begins now ends before another can lead. Ask before each.
        """
        return self._renewed_at is not None and _now() < self._renewed_at + WRITE_SECONDS

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        has_time, self._renewed_at = self.may_write(), None
        if has_time:
            self._changed()
            with suppress(TimeoutError, Unavailable, InvalidInput, ProtocolViolation):
                async with asyncio.timeout(_RELEASE_SECONDS):
                    await self._release()

    async def run(self) -> None:
        """
        Wait for the lease, then keep it, for ever.

        Raises:
            LeaseLost: It was held and is not any more, or not for sure.
        """
        while True:
            started = _now()
            await self._attempt()
            await asyncio.sleep(max(0.0, started + RETRY_SECONDS - _now()))

    async def _attempt(self) -> None:
        """
        Take or renew the lease, if possible; give up for good when it is time to.
        """
        give_up_at = None if self._renewed_at is None else self._renewed_at + RENEW_SECONDS
        problem = ""
        try:
            async with asyncio.timeout_at(give_up_at):
                await self._take_or_renew()
        except LeaseLost:
            self._resign()
            raise
        except TimeoutError:
            problem = self.problem or "no answer from the API server"
        except (Unavailable, InvalidInput, ProtocolViolation) as error:
            problem = str(error)
        self._tell(problem)
        if self._renewed_at is not None and _now() >= self._renewed_at + RENEW_SECONDS:
            self._resign()
            raise LeaseLost(self._path, f"not renewed for {RENEW_SECONDS:g} s: {problem}")

    async def _take_or_renew(self) -> None:
        if self.is_leader:
            # Otherwise another wrote it, or we did, by a renewal whose answer got lost, or it was deleted.
            with suppress(Conflict, NotFound):
                await self._hold()
                return
        await self._look()
        if self.is_leader and self.holder not in {"", self.identity}:
            raise LeaseLost(self._path, f"{self.holder} has it")
        # One that is ours although we do not lead was held by the process before us in the same pod.
        if self._seen is None or self.holder == self.identity or self._seen.is_free(_now()):
            # Not found: it went with the pod of the former holder meanwhile.
            with suppress(Conflict, NotFound):
                await self._hold()

    async def _look(self) -> None:
        manifest = await self._soon(self._objects.get(self._path))
        if manifest is not None:
            self._saw(Lease.from_manifest(manifest))
        elif self._seen is not None and not self._is_missing:
            # Its holder may have renewed it until just now.
            self._seen = Sighting(self._seen.lease, _now())
        self._is_missing = manifest is None

    async def _hold(self) -> None:
        sent = _now()
        before = self._seen.lease if self._seen and not self._is_missing else None
        wanted = lease.held(
            self._name,
            by=self.identity,
            duration_seconds=LEASE_SECONDS,
            before=before,
            now=self._moment(),
            pod=self._pod,
        )
        if before is None:
            manifest = await self._soon(self._objects.create(self._collection.path, wanted))
        else:
            manifest = await self._soon(self._objects.replace(self._path, wanted))
        was_leader, self._renewed_at, self._is_missing = self.is_leader, sent, False
        self._saw(Lease.from_manifest(manifest))
        if not was_leader:
            self._changed()

    async def _release(self) -> None:
        try:
            await self._give_back()
        except Conflict:
            # A renewal that was broken off on our side came through all the same.
            await self._look()
            await self._give_back()

    async def _give_back(self) -> None:
        if self._seen is not None and self.holder == self.identity:
            given = lease.released(self._name, self._seen.lease, now=self._moment(), pod=self._pod)
            await self._objects.replace(self._path, given)

    async def _soon(self, answer: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                return await answer
        except TimeoutError as error:
            raise ApiUnreachable(self._path, f"nothing within {_REQUEST_SECONDS:g} s") from error

    def _saw(self, record: Lease) -> None:
        self._seen = Sighting(record, _now()) if self._seen is None else self._seen.then(record, _now())

    def _resign(self) -> None:
        self._renewed_at = None
        self._changed()

    def _tell(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            self._changed()

    @property
    def _path(self) -> str:
        return self._collection.item_path(self._name)

    def _moment(self) -> str:
        return timestamps.microseconds(self._utcnow())


def _now() -> float:
    return asyncio.get_running_loop().time()
