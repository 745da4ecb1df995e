"""
What is wrong with a resource: one problem for each value that is not usable, all of them at once.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import attrs

from fractioning_core.errors import SHOWN_LIMIT, InvalidInput, escaped, shown
from fractioning_core.resource import identity

if TYPE_CHECKING:
    from fractioning_core.resource.config import Config

# The text goes into a condition, where a page helps nobody.
_PROBLEMS_LIMIT = 8
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


@attrs.frozen(auto_exc=False)
class InvalidResource(InvalidInput):
    """
    A GpuFractioningConfig with values that are not usable.

    The API server refuses those; one that was stored under another schema can have them all the same, and has to be
    reported and deleted like any other.

    Attributes:
        problems: all that is wrong, in the order of the schema.
        config: the rest of it, with unusable values left out. Its node selector may be one of them and then is empty,
            so it selects nodes only to clean up, never to start something on.
    """

    problems: tuple[Problem, ...]
    config: Config

    def __str__(self) -> str:
        told = "; ".join(str(problem) for problem in self.problems[:_PROBLEMS_LIMIT])
        untold = len(self.problems) - _PROBLEMS_LIMIT
        more = f"; and {untold} more" if untold > 0 else ""
        return f"{identity.KIND} {shown(self.config.name)}: {told}{more}"


def _shown(value: object) -> str:
    if isinstance(value, str):
        return shown(value)
    plain = json.dumps(value)
    return plain if len(plain) <= SHOWN_LIMIT else f"{plain[:SHOWN_LIMIT]}..."
