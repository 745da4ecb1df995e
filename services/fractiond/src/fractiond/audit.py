"""
Does a container that exists have what creation would inject today?

Values are compared, not presence: a container created while fractiond was away may well bring an
`NVIDIA_GPU_MEMORY_LIMIT` of its own. A container whose annotations creation would refuse today is stopped only if it
does not carry a limit and our pipe mount at its place. One that does was fenced when it was made (an ordinary pod has
no other way to that host directory), and stopping it would turn a stricter rule into an outage.
"""

from __future__ import annotations

from enum import Enum
from typing import assert_never

import attrs
from fractioning_core import injection, names
from fractioning_core.errors import escaped
from fractioning_core.injection import Observed

from fractiond.fencing import Assessment, Fenced, Untouched, Unusable
from fractiond.wire import Subject


class Kind(Enum):
    """How far a container is from what it should be."""

    UNFENCED = "unfenced"
    """No limit of ours is in force: it slipped through."""

    DIFFERENT = "different"
    """It was fenced, but not with what creation would inject today."""

    TOLERATED = "tolerated"
    """It was fenced, and creation would refuse its annotations today: reported, never stopped."""


@attrs.frozen
class Violation:
    """One container and every reason why it is not as it should be."""

    subject: Subject
    kind: Kind
    reasons: tuple[str, ...]


def judge(subject: Subject, observed: Observed, assessment: Assessment, *, pipe_dir: str) -> Violation | None:
    """Compare what a container has with what it should have; None where they agree."""
    match assessment:
        case Untouched():
            return None
        case Fenced(injection=expected):
            return _compare(subject, observed, expected, pipe_dir)
        case Unusable(problems=problems):
            kind = Kind.TOLERATED if _was_fenced(observed, pipe_dir) else Kind.UNFENCED
            return Violation(subject, kind, problems)
        case _:
            assert_never(assessment)


def _compare(subject: Subject, observed: Observed, expected: injection.Injection, pipe_dir: str) -> Violation | None:
    destinations = (destination for _, destination in observed.mounts)
    hidden = injection.shadowing_mounts(destinations, expected.mount.destination)
    reasons = injection.differences(expected, observed) + tuple(
        f"mount:{escaped(path)} hides the pipe" for path in hidden
    )
    if not reasons:
        return None
    return Violation(subject, Kind.DIFFERENT if _was_fenced(observed, pipe_dir) else Kind.UNFENCED, reasons)


def _was_fenced(observed: Observed, pipe_dir: str) -> bool:
    """Tell whether a plugin fenced this container, be it with other values: its own limit alone does not say so."""
    places = (pipe_dir, names.SM_SHARING_PIPE_DIR)
    return injection.fenced(observed) and any(
        destination in places and (source == pipe_dir or source.startswith(f"{pipe_dir}/"))
        for source, destination in observed.mounts
    )
