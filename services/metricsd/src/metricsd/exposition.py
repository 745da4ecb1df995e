"""
Prometheus' text format, for the families that have a sample for every pod or container.

The library writes 5,280 samples (480 containers, eleven families) in 46 to 57 ms, and a scrape has ten for everything.
This writer takes two, because it only puts texts together, and makes a label text once in a container's life. The small
families are left to the library.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from metricsd.family import Family

Key = tuple[object, ...]
"""The values of a family's labels, in order."""

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})


@attrs.frozen
class Series:
    """
    A family with its samples.
    """

    family: Family
    samples: Iterable[tuple[Key, float]]


class Writer:
    """
    Writes page after page, and keeps the label texts of the last one.
    """

    def __init__(self) -> None:
        # By the labels' names, since the same values stand in families of other labels.
        self._texts: dict[tuple[str, ...], dict[Key, str]] = {}
        self._before: dict[tuple[str, ...], dict[Key, str]] = {}

    def begin(self) -> None:
        """
        Begin a page; label texts that the page before had no use for are let go.
        """
        self._before, self._texts = self._texts, {}

    def write(self, series: Series) -> str:
        """
        Give the text of one family.
        """
        family = series.family
        name, labels = family.name, family.labels
        texts = self._texts.setdefault(labels, {})
        before = self._before.get(labels, {})
        lines = [f"# HELP {name} {family.help.translate(_HELP_ESCAPES)}\n# TYPE {name} {family.type}\n"]
        for key, value in series.samples:
            text = texts.get(key)
            if text is None:
                text = texts[key] = before.get(key) or label_text(labels, key)
            lines.append(f"{name}{text} {value}\n")
        return "".join(lines)


def label_text(labels: tuple[str, ...], key: Key) -> str:
    """
    Give what stands between a sample's name and its value.
    """
    if not labels:
        return ""
    pairs = (f'{label}="{str(value).translate(_ESCAPES)}"' for label, value in zip(labels, key, strict=True))
    return f"{{{','.join(pairs)}}}"
