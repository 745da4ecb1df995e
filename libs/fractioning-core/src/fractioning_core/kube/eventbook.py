"""
What was told of objects lately, so that the same is counted instead of told again: the pure half of the recorder.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from datetime import datetime, timedelta
from typing import Any

import attrs

from fractioning_core.kube import timestamps
from fractioning_core.kube.collections import Collection

EVENTS = Collection("", "v1", "events")
# Objects of the cluster have no namespace for their events to be in; kubectl looks here.
CLUSTER_NAMESPACE = "default"

AGGREGATION = timedelta(minutes=10)
"""
How long after the first telling the same is only counted.
"""

QUEUE_LIMIT = 256
"""
What may wait to be told; of more than that, the oldest is dropped.
"""

# The remembered need a few hundred bytes each; who says more than this in ten minutes is told anew.
_MEMORY_LIMIT = 512
# As client-go cuts it.
_MESSAGE_LIMIT = 1024
# A name has at most 253 characters, of which the dot and the hash need 17.
_OBJECT_NAME_LIMIT = 236
_HASH_LENGTH = 16


@attrs.frozen
class ObjectReference:
    """
    Which object an event is about.
    """

    api_version: str
    kind: str
    name: str
    namespace: str = attrs.field(default="", kw_only=True)
    uid: str = attrs.field(default="", kw_only=True)

    def as_manifest(self) -> dict[str, str]:
        """
        Write it as an event does.
        """
        fields = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "namespace": self.namespace,
            "uid": self.uid,
        }
        return {name: value for name, value in fields.items() if value}


@attrs.frozen
class Telling:
    """
    One thing said of one object; two that are equal are the same news.
    """

    regarding: ObjectReference
    type: str
    reason: str
    message: str

    @property
    def namespace(self) -> str:
        """
        Where its event has to be.
        """
        return self.regarding.namespace or CLUSTER_NAMESPACE


@attrs.frozen
class Heard:
    """
    How often it was said, and when for the first and the last time.
    """

    count: int
    first: datetime
    last: datetime

    def again(self, count: int, at: datetime) -> Heard:
        """
        Hear it some more times.
        """
        return Heard(self.count + count, self.first, at)


@attrs.frozen
class Told:
    """
    What the API server has of it.
    """

    name: str
    heard: Heard


@attrs.define
class EventBook:
    """
    What waits to be told, oldest first, and what was told in the last minutes.
    """

    dropped: int = 0
    """
    How much was never told, because too much waited or because the server does not want it.
    """

    _waiting: OrderedDict[Telling, Heard] = attrs.field(factory=OrderedDict, init=False)
    _told: OrderedDict[Telling, Told] = attrs.field(factory=OrderedDict, init=False)

    def hear(self, telling: Telling, at: datetime) -> None:
        """
        Let it wait; what waits already is counted.
        """
        if heard := self._waiting.get(telling):
            self._waiting[telling] = heard.again(1, at)
            return
        if len(self._waiting) >= QUEUE_LIMIT:
            self._waiting.popitem(last=False)
            self.dropped += 1
        self._waiting[telling] = Heard(1, at, at)

    def next(self) -> tuple[Telling, Heard] | None:
        """
        Take what has waited longest; None when nothing does. Afterwards call `tell`, `put_back` or `drop`.
        """
        return self._waiting.popitem(last=False) if self._waiting else None

    def put_back(self, telling: Telling, heard: Heard) -> None:
        """
        It could not be told now: let it wait in its old place, unless there is no place any more.
        """
        later = self._waiting.pop(telling, None)
        if later is None and len(self._waiting) >= QUEUE_LIMIT:
            self.dropped += 1
            return
        self._waiting[telling] = heard.again(later.count, later.last) if later else heard
        self._waiting.move_to_end(telling, last=False)

    def drop(self) -> None:
        """
        It is not going to be told.
        """
        self.dropped += 1

    def told_before(self, telling: Telling, now: datetime) -> Told | None:
        """
        Find the event of the same news, if it is still to be counted there.
        """
        told = self._told.get(telling)
        if told is None or now - told.heard.first >= AGGREGATION:
            return None
        return told

    def tell(self, telling: Telling, told: Told) -> None:
        """
        Note what the server has now.
        """
        self._told[telling] = told
        self._told.move_to_end(telling)
        while len(self._told) > _MEMORY_LIMIT:
            self._told.popitem(last=False)

    def forget(self, telling: Telling) -> None:
        """
        The server has it no longer.
        """
        self._told.pop(telling, None)


def name_of(telling: Telling, heard: Heard) -> str:
    """
    Name a new event, so that one about the same news is called otherwise only when it was heard at another time.
    """
    text = "\0".join([*map(str, attrs.astuple(telling)), timestamps.microseconds(heard.first)])
    digest = hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{telling.regarding.name[:_OBJECT_NAME_LIMIT].rstrip('-.')}.{digest}"


def manifest_of(telling: Telling, heard: Heard, *, component: str) -> dict[str, Any]:
    """
    Write a new event.
    """
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name_of(telling, heard), "namespace": telling.namespace},
        "involvedObject": telling.regarding.as_manifest(),
        "type": telling.type,
        "reason": telling.reason,
        "message": telling.message[:_MESSAGE_LIMIT],
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": timestamps.seconds(heard.first),
        "lastTimestamp": timestamps.seconds(heard.last),
        "count": heard.count,
    }


def patch_of(heard: Heard) -> dict[str, Any]:
    """
    Write what changes when the same is heard again.
    """
    return {"count": heard.count, "lastTimestamp": timestamps.seconds(heard.last)}
