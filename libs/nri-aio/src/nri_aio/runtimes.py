"""
Which events a runtime knows, told from what it says of itself in Configure.

A subscription with one unknown bit makes the runtime drop the plugin after it was told all is well, so in doubt the
answer is the small set every version has. The runtimes' versions are those that carried NRI 0.10 first.
"""

from __future__ import annotations

import re

OLD_EVENTS = 0x07FF
"""Events 1 to 11, in every version of NRI."""

NEW_EVENTS = 0x3FFF
"""Since NRI 0.10 also UPDATE_POD_SANDBOX, POST_UPDATE_POD_SANDBOX and VALIDATE_CONTAINER_ADJUSTMENT."""

_FIRST_NEW_NRI = (0, 10)
_FIRST_NEW_RUNTIME = {"containerd": (2, 2), "cri-o": (1, 34)}

# Three components of a few digits each: `int` must not meet a number as long as a message.
_VERSION = re.compile(r"v?([0-9]{1,6})\.([0-9]{1,6})(?:\.([0-9]{1,6}))?", re.ASCII)


def valid_events(*, runtime_name: str, runtime_version: str, nri_version: str) -> int:
    """Give the mask of events that may be subscribed to without being dropped."""
    nri = parse_version(nri_version)
    # Builds from a working tree say "unknown", nothing, or v0.0.0 with a commit: then the runtime's version decides.
    if nri is not None and nri > (0, 0):
        return NEW_EVENTS if nri >= _FIRST_NEW_NRI else OLD_EVENTS
    runtime = parse_version(runtime_version)
    first_new = _FIRST_NEW_RUNTIME.get(runtime_name)
    if runtime is None or first_new is None:
        return OLD_EVENTS
    return NEW_EVENTS if runtime >= first_new else OLD_EVENTS


def parse_version(text: str) -> tuple[int, int] | None:
    """Read major and minor from texts such as "2.1.9+unknown", "1.7.24~ds1" or "v2.3.4"; None if there are none."""
    match = _VERSION.match(text)
    return (int(match[1]), int(match[2])) if match else None


def ignores_cdi_devices(*, runtime_name: str, runtime_version: str) -> bool:
    """
    Tell whether a runtime drops the CDI devices of an adjustment without a word.

    containerd honours them since 1.7.30 and 2.1, but in no 2.0; CRI-O since 1.34. A version that does not read counts
    as new.
    """
    match = _VERSION.match(runtime_version)
    if match is None:
        return False
    version = (int(match[1]), int(match[2]))
    if runtime_name == "containerd":
        patch = int(match[3] or 0)
        return version == (2, 0) or (*version, patch) < (1, 7, 30)
    return runtime_name == "cri-o" and version < (1, 34)


def has_validation(events: int) -> bool:
    """Tell whether a set of events holds VALIDATE_CONTAINER_ADJUSTMENT."""
    return bool(events & 0x2000)
