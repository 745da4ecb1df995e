"""
What a metric family is: the facts that page and documents need of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
"""What Prometheus takes as a name."""

Type = Literal["gauge", "counter", "histogram"]

# Suffixes of the samples that a type makes of a family's name.
_SUFFIXES: Mapping[Type, tuple[str, ...]] = {
    "gauge": ("",),
    "counter": ("", "_total", "_created"),
    "histogram": ("", "_bucket", "_sum", "_count", "_created"),
}


@attrs.frozen
class Family:
    """
    One family.

    Args:
        name: As its samples have it, of a counter with `_total`.
        help: One sentence.
        type: Of Prometheus' types.
        labels: Their names, in order.
        unit: What the number counts; empty for a plain yes or no, and for what the name says.
        advice: What to do about it, for the one who looks it up.
    """

    name: str
    help: str
    type: Type = "gauge"
    labels: tuple[str, ...] = ()
    unit: str = ""
    advice: str = ""

    @property
    def sample_names(self) -> frozenset[str]:
        """
        The names that its samples take, and those that no other family may have beside it.
        """
        stem = self.name.removesuffix("_total") if self.type == "counter" else self.name
        return frozenset(stem + suffix for suffix in _SUFFIXES[self.type])
