"""
Prometheus' text format, for the families that have a sample for every pod or container.

The library writes 5,280 samples (480 containers, eleven families) in 46 to 57 ms, and a scrape has ten for everything.
This writer takes two, because it only puts texts together, and makes a label text once in a container's life; a family
whose samples are those of the page before is not written again. The small families are left to the library.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

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


class _Written(NamedTuple):
    """
    A family as it was written last.

    Args:
        samples: What it was written of.
        texts: The label texts of these.
        text: The whole.
    """

    samples: list[tuple[Key, float]]
    texts: dict[Key, str]
    text: bytes


_NEVER = _Written([], {}, b"")


class Writer:
    """
    Writes page after page, and keeps each family as it was written last, with its label texts.
    """

    def __init__(self) -> None:
        self._written: dict[str, _Written] = {}
        # Of the family with the same labels that was written last: the next one mostly has the same keys.
        self._texts: dict[tuple[str, ...], dict[Key, str]] = {}

    def write(self, series: Series) -> bytes:
        """
        Give the text of one family; that of the page before where its samples are the same.
        """
        family, samples = series.family, list(series.samples)
        before = self._written.get(family.name, _NEVER)
        if before.text and before.samples == samples:
            return before.text
        texts = self._label_texts(family.labels, samples, before.texts)
        written = self._written[family.name] = _Written(samples, texts, _text(family, samples, texts))
        return written.text

    def _label_texts(
        self, labels: tuple[str, ...], samples: Iterable[tuple[Key, float]], own: Mapping[Key, str]
    ) -> dict[Key, str]:
        shared = self._texts.get(labels, {})
        texts = {key: own.get(key) or shared.get(key) or label_text(labels, key) for key, _ in samples}
        self._texts[labels] = texts
        return texts


def _text(family: Family, samples: Iterable[tuple[Key, float]], texts: Mapping[Key, str]) -> bytes:
    name = family.name
    lines = [f"# HELP {name} {family.help.translate(_HELP_ESCAPES)}\n# TYPE {name} {family.type}\n"]
    lines += [f"{name}{texts[key]} {value}\n" for key, value in samples]
    # A record may have half a character in a name, as JSON allows; it is no reason to show nothing.
    return "".join(lines).encode(errors="replace")


def label_text(labels: tuple[str, ...], key: Key) -> str:
    """
    Give what stands between a sample's name and its value.
    """
    if not labels:
        return ""
    pairs = (f'{label}="{str(value).translate(_ESCAPES)}"' for label, value in zip(labels, key, strict=True))
    return f"{{{','.join(pairs)}}}"
