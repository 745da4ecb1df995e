"""
What a Lease says, and when it may be taken: the pure half of the election.

Nobody's wall clock is compared with ours. A lease counts as live until its record has stayed the same for as long as
it is to last, measured by our own monotonic clock from when we first saw it so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import attrs

from fractioning_core.kube.collections import Collection

LEASES = Collection("coordination.k8s.io", "v1", "leases")

# What a holder that gives the lease back leaves behind; a duration has to be above zero.
_RELEASED_SECONDS = 1


@attrs.frozen
class Lease:
    """
    The record of a Lease.

    Args:
        holder: Who leads; empty when nobody does.
        duration_seconds: How long it lasts without renewal.
        transitions: How often another holder took it.
        acquired_at: When the holder took it, as the holder wrote it.
        version: Which state of the object this is.
    """

    holder: str
    duration_seconds: float
    transitions: int
    acquired_at: str | None
    version: str

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> Self:
        """
        Read an object; what is missing or odd is as if nobody held it.
        """
        spec = manifest.get("spec") or {}
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        return cls(
            holder=spec.get("holderIdentity") or "",
            duration_seconds=duration if isinstance(duration, int) else 0,
            transitions=transitions if isinstance(transitions, int) else 0,
            acquired_at=spec.get("acquireTime"),
            version=manifest["metadata"]["resourceVersion"],
        )


@attrs.frozen
class Pod:
    """
    The pod that a candidate runs in. A Lease that it holds goes with it: then nothing is left of an installation that
    is removed, and the next one need not wait for a lease that nobody gave back.
    """

    name: str
    uid: str

    def as_owner(self) -> dict[str, str]:
        """
        Make the owner reference. It does not hold up the pod's deletion.
        """
        return {"apiVersion": "v1", "kind": "Pod", "name": self.name, "uid": self.uid}


@attrs.frozen
class Sighting:
    """
    A record, and when it was first seen as it is.
    """

    lease: Lease
    since: float

    def then(self, lease: Lease, now: float) -> Sighting:
        """
        See it again.
        """
        return self if lease == self.lease else Sighting(lease, now)

    def is_free(self, now: float) -> bool:
        """
        Say whether the lease may be taken.
        """
        return not self.lease.holder or now >= self.since + self.lease.duration_seconds


def held(
    name: str, *, by: str, duration_seconds: float, before: Lease | None, now: str, pod: Pod | None = None
) -> dict[str, Any]:
    """
    Make the object with which a lease is taken or renewed.

    Args:
        name: The Lease.
        by: Who holds it from now on.
        duration_seconds: How long it lasts.
        before: What it says now; None when there is none yet.
        now: The time as a `MicroTime`, for people to read.
        pod: Whose pod it goes with; None where that is not known, and then it stays.
    """
    is_mine = before is not None and before.holder == by
    transitions = 0 if before is None else before.transitions
    spec = {
        "holderIdentity": by,
        "leaseDurationSeconds": int(duration_seconds),
        "acquireTime": before.acquired_at if is_mine and before else now,
        "renewTime": now,
        "leaseTransitions": transitions if is_mine or before is None else transitions + 1,
    }
    return _manifest(name, spec, before, pod)


def released(name: str, before: Lease, *, now: str, pod: Pod | None = None) -> dict[str, Any]:
    """
    Make the object with which a lease is given back.
    """
    spec = {
        "holderIdentity": "",
        "leaseDurationSeconds": _RELEASED_SECONDS,
        "acquireTime": now,
        "renewTime": now,
        "leaseTransitions": before.transitions,
    }
    return _manifest(name, spec, before, pod)


def _manifest(name: str, spec: Mapping[str, Any], before: Lease | None, pod: Pod | None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if before is not None:
        metadata["resourceVersion"] = before.version
    if pod is not None:
        metadata["ownerReferences"] = [pod.as_owner()]
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
