"""
NVIDIA driver versions, of which only the major counts.

mpsd reads the driver's own version text and writes its major to a node label; the controller reads the label. Both
stop at what is not plainly a positive number, since a guess would leave a node unfenced.
"""

from __future__ import annotations

import re

from fractioning_core.errors import InvalidDriverVersion

# The first branch that enforces the memory limit (CUDA 13.4).
MIN_DRIVER_MAJOR = 615

# Majors have three digits; nine keep any text from becoming a huge number.
_MAJOR = re.compile(r"[0-9]{1,9}")


def parse_major(text: str) -> int:
    """
    Take the major version from the driver's version text, such as `615.43.02`.

    Raises:
        InvalidDriverVersion: it does not begin with a positive number and then end or have a dot.
    """
    major = _positive(text.strip().partition(".")[0])
    if major is None:
        raise InvalidDriverVersion(text, "an NVIDIA driver version", "a version such as 615.43.02")
    return major


def parse_label(text: str) -> int:
    """
    Read the value of the driver label: the major version and nothing else.

    Raises:
        InvalidDriverVersion: it is not a bare positive number.
    """
    major = _positive(text)
    if major is None:
        raise InvalidDriverVersion(text, "an NVIDIA driver major version", "a bare number such as 615")
    return major


def _positive(text: str) -> int | None:
    return (int(text) or None) if _MAJOR.fullmatch(text) else None
