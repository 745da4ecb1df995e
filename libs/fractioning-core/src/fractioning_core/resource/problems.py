"""
What is wrong with a value of a resource.
"""

from __future__ import annotations

import json

import attrs

from fractioning_core.errors import SHOWN_LIMIT, escaped, shown

# A path holds names that the user wrote: label keys of up to 317 characters.
_PATH_LIMIT = 400


@attrs.frozen
class Problem:
    """
    One value that is not usable.

    Attributes:
        path: where it stands, such as `spec.mpsDaemon.backoff`.
        value: what stands there; None for nothing.
        reason: what is wrong with it.
        accepted: what would be right.
    """

    path: str
    value: object
    reason: str
    accepted: str

    def __str__(self) -> str:
        value = "" if self.value is None else f" {_shown(self.value)}"
        return f"{escaped(self.path, _PATH_LIMIT)}:{value} {self.reason}; accepted: {self.accepted}"


def _shown(value: object) -> str:
    if isinstance(value, str):
        return shown(value)
    plain = json.dumps(value)
    return plain if len(plain) <= SHOWN_LIMIT else f"{plain[:SHOWN_LIMIT]}..."
