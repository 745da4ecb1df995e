"""
What one container asked for: its memory bounds, how it shares compute, and on which GPUs.

A value that exists is valid; `podannotations` makes it from what a pod says, `injection` turns it into what the
container gets.
"""

from __future__ import annotations

import enum
import functools

import attrs

# A node has tens of GPUs; a longer number is no index.
_INDEX_DIGITS = 4


class ComputeMode(enum.Enum):
    """
    How containers on one GPU share its compute.
    """

    TIME_SLICING = "time-slicing"
    SM_SHARING = "sm-sharing"


@attrs.frozen
class Device:
    """
    One entry of the devices annotation.

    Attributes:
        text: the entry as written, without space around it.
        uuid: `GPU-…` or `MIG-…`, whether written bare or as the device of a CDI name.
        index: the number of a GPU, bare or under `kind`.
        kind: the CDI kind, where the entry is a CDI name (`<kind>=<device>`).
        is_all: the entry means every GPU.
    """

    text: str
    uuid: str | None = None
    index: int | None = None
    kind: str | None = None
    is_all: bool = False

    @classmethod
    def from_text(cls, text: str) -> Device:
        """
        Understand an entry; one that is none of the known forms is kept as its text alone.
        """
        kind, equals, name = text.partition("=")
        if equals and kind.count("/") == 1:
            return cls._named(text, name=name, kind=kind)
        return cls._named(text, name=text, kind=None)

    @classmethod
    def _named(cls, text: str, *, name: str, kind: str | None) -> Device:
        if name.startswith(("GPU-", "MIG-")):
            return cls(text, uuid=name, kind=kind)
        if name.isascii() and name.isdigit() and len(name) <= _INDEX_DIGITS:
            return cls(text, index=int(name), kind=kind)
        return cls(text, kind=kind, is_all=name == "all")


# Asked several times for each container, at creation and again at every Synchronize.
@functools.lru_cache(maxsize=512)
def devices_in(value: str) -> tuple[Device, ...]:
    """
    Read the entries of a devices annotation; empty ones say nothing and are passed over.
    """
    entries = (entry.strip() for entry in value.split(","))
    return tuple(Device.from_text(entry) for entry in entries if entry)


@attrs.frozen
class Fraction:
    """
    What one container asked for.

    Attributes:
        request_mib: its declared share, whole MiB, at most the limit.
        limit_mib: the most it may allocate on each of its GPUs, whole MiB.
        mode: how it shares compute.
        devices_value: the devices annotation as written, without space around it; empty when there is none.
    """

    request_mib: int
    limit_mib: int
    mode: ComputeMode = ComputeMode.TIME_SLICING
    devices_value: str = ""

    @property
    def devices(self) -> tuple[Device, ...]:
        """
        Give the entries of `devices_value`; derived when asked for, which is after the runtime has its answer.
        """
        return devices_in(self.devices_value) if self.devices_value else ()

    @property
    def effective_mib(self) -> int:
        """
        Give the figure to account with: the limit, since that is what is enforced.
        """
        return self.limit_mib

    @property
    def gpu_uuids(self) -> tuple[str, ...]:
        """
        List the whole GPUs named by UUID, each once, in the order written. MIG slices are not among them.
        """
        uuids = (device.uuid for device in self.devices if device.uuid is not None)
        return tuple(dict.fromkeys(uuid for uuid in uuids if uuid.startswith("GPU-")))
