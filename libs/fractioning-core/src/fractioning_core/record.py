"""
The record of one fractional container, by which metricsd tells whose a process is.

fractiond writes one file per container, named for its id; what is inside says which pod it belongs to, on which GPUs
it may run, how much memory it may use, and where its cgroup is. The format is schema version 1, JSON without spaces, in
a fixed order of fields, so that equal records are equal bytes. Unknown fields are passed over, so that a field can be
added; another schema version is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from fractioning_core import names
from fractioning_core.errors import InvalidRecord, escaped

SCHEMA_VERSION = 1
FILE_SUFFIX = ".json"
# A record of 33 GPUs takes under 4 KiB.
MAX_RECORD_BYTES = 65_536
# Names and UIDs of Kubernetes have at most 253 characters.
MAX_TEXT = 253
# The kernel takes no longer path.
MAX_PATH = 4096
MAX_DEVICES = 256
_MAX_NUMBER = 2**63 - 1
# How the OCI runtime specification marks a character device.
_CHARACTER_TYPES = ("c", "u")


@attrs.frozen
class GpuDevice:
    """
    One GPU of a container.

    Attributes:
        index: always 0 from us; older writers put the minor number here.
        uuid: the GPU's UUID, where the scheduler named it.
        minor_number: N of `/dev/nvidiaN`, where the container has that device.
    """

    index: int = 0
    uuid: str | None = None
    minor_number: int | None = None


@attrs.frozen
class Record:
    """
    Whose a container is.

    Attributes:
        pod: the pod's name.
        namespace: the pod's namespace.
        pod_uid: the pod's UID.
        gpu_devices: its GPUs; None where the runtime told nothing of devices.
        requested_memory_mib: the memory to account with, whole MiB; 0 for unknown.
        container: the container's name; like all below, empty or 0 where an older writer did not tell.
        memory_request_mib: its declared share of each GPU, whole MiB.
        memory_limit_mib: the most it may allocate on each GPU, whole MiB.
        cgroups_path: as the runtime gives it, for `cgroup.expand`; it may not be usable.
    """

    pod: str
    namespace: str
    pod_uid: str
    gpu_devices: tuple[GpuDevice, ...] | None
    requested_memory_mib: int = 0
    container: str = ""
    memory_request_mib: int = 0
    memory_limit_mib: int = 0
    cgroups_path: str = ""


def encode(record: Record) -> bytes:
    """
    Write a record as the bytes of its file.
    """
    devices = record.gpu_devices
    body: dict[str, Any] = {
        "schemaVersion": SCHEMA_VERSION,
        "pod": record.pod,
        "namespace": record.namespace,
        "podUID": record.pod_uid,
        "gpuDevices": None if devices is None else [_device_body(device) for device in devices],
    }
    # Each is left out where it says nothing, which keeps a record without them as the reference writes it.
    later: dict[str, str | int] = {
        "requestedMemoryMiB": record.requested_memory_mib,
        "container": record.container,
        "memoryRequestMiB": record.memory_request_mib,
        "memoryLimitMiB": record.memory_limit_mib,
        "cgroupsPath": record.cgroups_path,
    }
    body.update((key, value) for key, value in later.items() if value)
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _device_body(device: GpuDevice) -> dict[str, Any]:
    body: dict[str, Any] = {"index": device.index}
    if device.uuid is not None:
        body["uuid"] = device.uuid
    if device.minor_number is not None:
        body["minorNumber"] = device.minor_number
    return body


def decode(data: bytes) -> Record:
    """
    Read a record from the bytes of its file.

    Raises:
        InvalidRecord: too long, no JSON, another schema version, or a field that is missing, of the wrong type or
            out of bounds.
    """
    body = _object(_json(data), "the record")
    version = body.get("schemaVersion")
    if type(version) is not int or version != SCHEMA_VERSION:
        raise InvalidRecord(f"schemaVersion is {_told(version)}, not {SCHEMA_VERSION}")
    return Record(
        pod=_text(body, "pod"),
        namespace=_text(body, "namespace"),
        pod_uid=_text(body, "podUID"),
        gpu_devices=_devices(body.get("gpuDevices")),
        requested_memory_mib=_number(body, "requestedMemoryMiB") or 0,
        container=_optional_text(body, "container"),
        memory_request_mib=_number(body, "memoryRequestMiB") or 0,
        memory_limit_mib=_number(body, "memoryLimitMiB") or 0,
        cgroups_path=_optional_text(body, "cgroupsPath", limit=MAX_PATH),
    )


def _json(data: bytes) -> object:
    if len(data) > MAX_RECORD_BYTES:
        raise InvalidRecord(f"longer than {MAX_RECORD_BYTES} bytes")
    try:
        return json.loads(data)
    # A number of thousands of digits is a ValueError, nesting of thousands of levels a RecursionError.
    except (ValueError, RecursionError) as error:
        raise InvalidRecord(f"not JSON: {escaped(str(error))}") from error


def _devices(value: object) -> tuple[GpuDevice, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > MAX_DEVICES:
        raise InvalidRecord(f"gpuDevices is not a list of at most {MAX_DEVICES}")
    return tuple(_device(_object(entry, "an entry of gpuDevices")) for entry in value)


def _device(body: Mapping[str, object]) -> GpuDevice:
    return GpuDevice(
        index=_number(body, "index") or 0,
        uuid=_text(body, "uuid") if body.get("uuid") else None,
        minor_number=_number(body, "minorNumber"),
    )


def _object(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise InvalidRecord(f"{what} is not an object")
    return value


def _optional_text(body: Mapping[str, object], key: str, *, limit: int = MAX_TEXT) -> str:
    return "" if body.get(key) is None else _text(body, key, limit=limit)


def _text(body: Mapping[str, object], key: str, *, limit: int = MAX_TEXT) -> str:
    value = body.get(key)
    # Not printable includes half a surrogate pair, which would break whoever writes it out later.
    if not isinstance(value, str) or len(value) > limit or not value.isprintable():
        raise InvalidRecord(f"{key} is {_told(value)}, not printable text of at most {limit} characters")
    return value


def _number(body: Mapping[str, object], key: str) -> int | None:
    value = body.get(key)
    if value is None:
        return None
    # Not isinstance: true and false are integers to Python.
    if type(value) is not int or not 0 <= value <= _MAX_NUMBER:
        raise InvalidRecord(f"{key} is {_told(value)}, not a whole number from 0 to 2^63-1")
    return value


def _told(value: object) -> str:
    return "missing" if value is None else escaped(json.dumps(value))


def file_name(container_id: str) -> str:
    """
    Name the file of a container: its id without a scheme, and nothing in it that would lead elsewhere or be hidden.

    Returns: empty for an empty id, of which no record is kept.
    """
    bare = container_id.strip().rpartition("://")[2]
    safe = "".join("_" if char in "/\\" or not char.isprintable() else char for char in bare)
    if safe.startswith("."):
        safe = f"_{safe[1:]}"
    return f"{safe}{FILE_SUFFIX}" if safe else ""


def devices(uuids: Sequence[str], minors: Sequence[int]) -> tuple[GpuDevice, ...]:
    """
    Join the GPUs that the annotation names with those whose device nodes the container has.

    One of each is one GPU. More cannot be paired: the annotation's order is not the order of the minors, and a pair
    put together wrongly would book one tenant's use on another's GPU. So they stand side by side then.
    """
    if len(uuids) == 1 and len(minors) == 1:
        return (GpuDevice(uuid=uuids[0], minor_number=minors[0]),)
    by_uuid = tuple(GpuDevice(uuid=uuid) for uuid in uuids)
    return by_uuid + tuple(GpuDevice(minor_number=minor) for minor in minors)


def nvidia_minors(nodes: Iterable[tuple[str, int, int]]) -> tuple[int, ...]:
    """
    Pick the GPUs among a container's device nodes, each once, in the order given.

    Args:
        nodes: type, major and minor of each node, as the OCI runtime specification has them.
    """
    minors = (
        minor
        for kind, major, minor in nodes
        if kind in _CHARACTER_TYPES and major == names.NVIDIA_DEVICE_MAJOR and 0 <= minor <= names.NVIDIA_MAX_MINOR
    )
    return tuple(dict.fromkeys(minors))
