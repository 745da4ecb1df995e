"""What is wrong with what a service was told: one line for each mistake, all of them at once.

A typo in a setting must not quietly change what a service enforces, so nothing is skipped or replaced by a default.
"""

from __future__ import annotations

import attrs

from fractioning_core.errors import InvalidInput, shown


# Errors compare by value (auto_exc=False), as all of the tree's leaves do.
@attrs.frozen(auto_exc=False)
class NotAccepted(InvalidInput):
    """
    A text is not of the kind that its setting takes.
    """

    value: str
    reason: str
    accepted: str

    def __str__(self) -> str:
        return f"{shown(self.value)} {self.reason}; accepted: {self.accepted}"


@attrs.frozen
class Problem:
    """
    One mistake.

    Args:
        source: Where it stands: a flag, an environment variable, or the argument itself.
        text: What is wrong with it and what would be right.
    """

    source: str
    text: str

    def __str__(self) -> str:
        # A check of a service may say more than one line; a problem is one, for whoever reads it in a log.
        return " ".join(f"{self.source}: {self.text}".splitlines())


@attrs.frozen(auto_exc=False)
class BadSettings(InvalidInput):
    """
    A service cannot start with what it was told.
    """

    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))
