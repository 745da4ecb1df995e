"""
Puts the parts of a Synchronize together.

A runtime cuts a state of more than 4 MiB into parts, pods and containers independently: a container can come before its
pod, and a part can be empty. A known fault of the runtimes sends thousands of empty ones, so a part must cost nothing
beyond what it holds.
"""

from __future__ import annotations

from typing import Self

import attrs

from nri_aio.errors import Refused
from nri_aio.pb import nri_pb2 as pb
from nri_aio.ttrpc import Code

MAX_PODS = 20_000
"""A kubelet runs a few hundred at most; stopped ones awaiting removal are counted too."""

MAX_CONTAINERS = 100_000
"""As above, with several containers in each pod."""

MAX_BYTES = 256 * 1024 * 1024
"""500 containers were measured at 2 MB; this is a hundred times a big node, and still fits a small memory limit."""


@attrs.frozen
class Part:
    """One Synchronize request and its size on the wire."""

    request: pb.SynchronizeRequest
    size_bytes: int

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Read a request; raises protobuf's DecodeError."""
        return cls(pb.SynchronizeRequest.FromString(payload), len(payload))


@attrs.define
class Snapshot:
    """The node's pods and containers, growing part by part."""

    pods: list[pb.PodSandbox] = attrs.Factory(list)
    containers: list[pb.Container] = attrs.Factory(list)
    size_bytes: int = 0

    def add(self, part: Part) -> None:
        """
        Take one part.

        Raises:
            Refused: The state is larger than any node's.
        """
        pods, containers = part.request.pods, part.request.containers
        self.size_bytes += part.size_bytes
        _require(len(self.pods) + len(pods), MAX_PODS, "pods")
        _require(len(self.containers) + len(containers), MAX_CONTAINERS, "containers")
        _require(self.size_bytes, MAX_BYTES, "bytes")
        self.pods.extend(pods)
        self.containers.extend(containers)


def _require(count: int, limit: int, noun: str) -> None:
    if count > limit:
        raise Refused(f"Synchronize holds more than {limit} {noun}", Code.RESOURCE_EXHAUSTED)
