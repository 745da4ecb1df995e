"""
What the CRI says about pods and containers, as values; one function per message turns it into them.

Runtimes add to a verbose container status whatever they like, as JSON. containerd and CRI-O both put the OCI spec into
it; every key of that is treated as optional.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

import attrs

from nri_aio.pb import cri_pb2


class ContainerState(enum.IntEnum):
    """A container's state; the numbers differ from NRI's."""

    CREATED = cri_pb2.CONTAINER_CREATED
    RUNNING = cri_pb2.CONTAINER_RUNNING
    EXITED = cri_pb2.CONTAINER_EXITED
    UNKNOWN = cri_pb2.CONTAINER_UNKNOWN

    @classmethod
    def _missing_(cls, value: object) -> ContainerState:
        del value
        return cls.UNKNOWN


class PodSandboxState(enum.IntEnum):
    """A pod's state."""

    READY = cri_pb2.SANDBOX_READY
    NOT_READY = cri_pb2.SANDBOX_NOTREADY

    @classmethod
    def _missing_(cls, value: object) -> PodSandboxState:
        del value
        return cls.NOT_READY


class EventType(enum.IntEnum):
    """What happened to a container."""

    CREATED = cri_pb2.CONTAINER_CREATED_EVENT
    STARTED = cri_pb2.CONTAINER_STARTED_EVENT
    STOPPED = cri_pb2.CONTAINER_STOPPED_EVENT
    DELETED = cri_pb2.CONTAINER_DELETED_EVENT


@attrs.frozen
class Version:
    """Which runtime answers."""

    runtime_name: str
    runtime_version: str
    runtime_api_version: str


@attrs.frozen
class PodSandbox:
    """One pod."""

    id: str
    name: str
    namespace: str
    uid: str
    state: PodSandboxState
    created_at_ns: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@attrs.frozen
class Container:
    """One container, as in a list."""

    id: str
    pod_sandbox_id: str
    name: str
    attempt: int
    state: ContainerState
    created_at_ns: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    """Those of the CRI request; what an NRI plugin added is not among them."""


@attrs.frozen
class ContainerStatus:
    """One container in detail; the last four are None where the runtime does not tell."""

    id: str
    name: str
    attempt: int
    state: ContainerState
    created_at_ns: int
    exit_code: int
    labels: Mapping[str, str]
    pid: int | None
    env: tuple[str, ...] | None
    """"NAME=value", as in the OCI spec and so with what NRI plugins changed."""
    mounts: tuple[tuple[str, str], ...] | None
    """(source, destination), as above."""
    annotations: Mapping[str, str] | None
    """Of the OCI spec, as above."""


@attrs.frozen
class ContainerEvent:
    """Something happened to a container."""

    container_id: str
    type: EventType | int
    """An `EventType`, or the bare number of one that is newer than this library."""
    created_at_ns: int


def version(message: cri_pb2.VersionResponse) -> Version:
    """Read a version."""
    return Version(message.runtime_name, message.runtime_version, message.runtime_api_version)


def pod_sandbox(message: cri_pb2.PodSandbox) -> PodSandbox:
    """Read one pod."""
    metadata = message.metadata
    return PodSandbox(
        id=message.id,
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        state=PodSandboxState(message.state),
        created_at_ns=message.created_at,
        labels=_frozen(message.labels),
        annotations=_frozen(message.annotations),
    )


def container(message: cri_pb2.Container) -> Container:
    """Read one container of a list."""
    return Container(
        id=message.id,
        pod_sandbox_id=message.pod_sandbox_id,
        name=message.metadata.name,
        attempt=message.metadata.attempt,
        state=ContainerState(message.state),
        created_at_ns=message.created_at,
        labels=_frozen(message.labels),
        annotations=_frozen(message.annotations),
    )


def container_status(message: cri_pb2.ContainerStatusResponse) -> ContainerStatus:
    """Read a status, and from its verbose part what the OCI spec says."""
    status = message.status
    info = _parse_info(message.info.get("info", ""))
    spec = _member(info, "runtimeSpec", dict) or {}
    process = _member(spec, "process", dict) or {}
    return ContainerStatus(
        id=status.id,
        name=status.metadata.name,
        attempt=status.metadata.attempt,
        state=ContainerState(status.state),
        created_at_ns=status.created_at,
        exit_code=status.exit_code,
        labels=_frozen(status.labels),
        pid=_member(info, "pid", int),
        env=_strings(process.get("env")),
        mounts=_mounts(spec.get("mounts")),
        annotations=_string_map(spec.get("annotations")),
    )


def container_event(message: cri_pb2.ContainerEventResponse) -> ContainerEvent:
    """Read one event."""
    number = message.container_event_type
    known = number in EventType._value2member_map_
    return ContainerEvent(message.container_id, EventType(number) if known else number, message.created_at)


T = TypeVar("T")


def _parse_info(text: str) -> dict[str, object]:
    try:
        info = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return info if isinstance(info, dict) else {}


def _member(members: Mapping[str, object], key: str, kind: type[T]) -> T | None:
    value = members.get(key)
    return value if isinstance(value, kind) else None


def _strings(value: object) -> tuple[str, ...] | None:
    if not isinstance(value, list):
        return None
    return tuple(item for item in value if isinstance(item, str))


def _mounts(value: object) -> tuple[tuple[str, str], ...] | None:
    if not isinstance(value, list):
        return None
    mounts = [mount for mount in value if isinstance(mount, dict)]
    return tuple((str(mount.get("source", "")), str(mount.get("destination", ""))) for mount in mounts)


def _string_map(value: object) -> Mapping[str, str] | None:
    if not isinstance(value, dict):
        return None
    return _frozen({key: item for key, item in value.items() if isinstance(item, str)})


def _frozen(entries: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(entries))
