"""Durations as Kubernetes and its tools write them: `1m30s`, `250ms`, `1.5h`.

The grammar is that of Go's `time.ParseDuration`, since the same texts stand in charts and manifests. Unlike there,
every step is whole-number arithmetic, so a fraction finer than a nanosecond is cut and nothing is rounded up.
"""

from __future__ import annotations

import re

from fractioning_core.errors import InvalidDuration

ACCEPTED = "a number with a unit, such as 30s, 1m30s or 250ms"

NANOSECONDS_PER_SECOND = 10**9

MAX_LENGTH = 64
"""No duration worth writing is longer, and a longer one would only cost time to refuse."""

# Go counts durations in a signed 64-bit number of nanoseconds: about 292 years either way.
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1

_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,  # micro sign, U+00B5
    "\N{GREEK SMALL LETTER MU}s": 10**3,
    "ms": 10**6,
    "s": NANOSECONDS_PER_SECOND,
    "m": 60 * NANOSECONDS_PER_SECOND,
    "h": 3600 * NANOSECONDS_PER_SECOND,
}

# Longer units stand first, so that "ms" is never read as "m" and a stray "s".
_TERM = re.compile(rf"([0-9]*)(?:\.([0-9]*))?({'|'.join(sorted(_UNITS, key=len, reverse=True))})")


def parse(text: str) -> int:
    """
    Return the nanoseconds that a text such as `1m30s` stands for.

    Raises:
        InvalidDuration: It is no duration, has no unit, or exceeds 292 years.
    """
    if len(text) > MAX_LENGTH:
        raise InvalidDuration(text, f"is longer than {MAX_LENGTH} characters", ACCEPTED)
    unsigned = text[1:] if text.startswith(("+", "-")) else text
    nanoseconds = 0 if unsigned == "0" else _sum_of_terms(unsigned, text)
    if text.startswith("-"):
        nanoseconds = -nanoseconds
    if not _LOWEST <= nanoseconds <= _HIGHEST:
        raise InvalidDuration(text, "is longer than 292 years", ACCEPTED)
    return nanoseconds


def to_text(nanoseconds: int) -> str:
    """
    Write a duration so that `parse` gives the same number back, without parts that are zero.
    """
    if nanoseconds < 0:
        return f"-{to_text(-nanoseconds)}"
    for unit in ("ns", "µs", "ms"):
        if nanoseconds < 1000 * _UNITS[unit]:
            return _decimal(nanoseconds, unit) if nanoseconds else "0s"
    hours, rest = divmod(nanoseconds, _UNITS["h"])
    minutes, rest = divmod(rest, _UNITS["m"])
    parts = (f"{hours}h" if hours else "", f"{minutes}m" if minutes else "", _decimal(rest, "s") if rest else "")
    return "".join(parts)


def _sum_of_terms(unsigned: str, text: str) -> int:
    total, position = 0, 0
    while position < len(unsigned) or not unsigned:
        term = _TERM.match(unsigned, position)
        if term is None or not (term[1] or term[2]):
            raise InvalidDuration(text, "is not a duration", ACCEPTED)
        total += _nanoseconds(term[1], term[2] or "", _UNITS[term[3]])
        position = term.end()
    return total


def _nanoseconds(whole: str, fraction: str, unit: int) -> int:
    scale: int = 10 ** len(fraction)
    return int(whole or "0") * unit + int(fraction or "0") * unit // scale


def _decimal(nanoseconds: int, unit: str) -> str:
    digits = len(str(_UNITS[unit])) - 1
    whole, rest = divmod(nanoseconds, _UNITS[unit])
    fraction = f"{rest:0{digits}d}".rstrip("0") if rest else ""
    return f"{whole}.{fraction}{unit}" if fraction else f"{whole}{unit}"
