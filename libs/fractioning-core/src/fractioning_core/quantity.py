"""
Kubernetes quantity text to whole MiB.

The grammar is that of `resource.Quantity` in k8s.io/apimachinery, down to `.5`, `5.` and `1E` (exa) beside `1E3`
(thousand). The arithmetic is exact: a fraction of integers, never a float, and rounding happens once, upwards, at the
end. A value of at most 64 characters bounds every number that can come up, so that no annotation costs time.
"""

from __future__ import annotations

import functools
import re

from fractioning_core.errors import InvalidQuantity

MIB = 1024 * 1024
# What Kubernetes keeps of a quantity; anything above is a mistake, not a GPU.
MAX_BYTES = 2**63 - 1
# No honest quantity comes near; long ones would only make big numbers.
MAX_LENGTH = 64
ACCEPTED = "a Kubernetes quantity of at least 1Mi, such as 512Mi, 8Gi or 1.5G"

_FORM = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
# With at most 64 digits before it, a larger exponent leaves the range of bytes whatever they are.
_EXPONENT_BOUND = 99


def to_mib(text: str) -> int:
    """
    Turn a quantity into whole MiB, rounded up.

    Raises:
        InvalidQuantity: it is no quantity, or it is below 1 MiB or above 2^63-1 bytes before rounding.
    """
    # Checked outside the cache, which would hash and compare the whole of a long text.
    if len(text) > MAX_LENGTH:
        raise InvalidQuantity(text, f"is longer than {MAX_LENGTH} characters", ACCEPTED)
    return _to_mib(text)


# A node sees the same few amounts over and over.
@functools.lru_cache(maxsize=1024)
def _to_mib(text: str) -> int:
    numerator, denominator = to_bytes(text)
    if numerator < MIB * denominator:
        raise InvalidQuantity(text, _too_small(text, numerator), ACCEPTED)
    if numerator > MAX_BYTES * denominator:
        raise InvalidQuantity(text, "is above 2^63-1 bytes", ACCEPTED)
    return -(-numerator // (MIB * denominator))


def to_bytes(text: str) -> tuple[int, int]:
    """
    Read a quantity as an exact number of bytes: numerator and denominator, not reduced.

    Raises:
        InvalidQuantity: it is no quantity, or it is negative.
    """
    form = _FORM.fullmatch(text) if len(text) <= MAX_LENGTH else None
    if form is None or not (form[2] or form[3]):
        raise InvalidQuantity(text, _malformed(text), ACCEPTED)
    if form[1] == "-":
        raise InvalidQuantity(text, "is negative", ACCEPTED)
    decimals = form[3] or ""
    return _scaled(int(form[2] + decimals), len(decimals), form[4] or "")


def _scaled(digits: int, decimals: int, suffix: str) -> tuple[int, int]:
    if suffix in _BINARY:
        return digits << _BINARY[suffix], 10**decimals
    power = (_DECIMAL[suffix] if suffix in _DECIMAL else _exponent(suffix)) - decimals
    return (digits * 10**power, 1) if power >= 0 else (digits, 10**-power)


def _exponent(suffix: str) -> int:
    return max(-_EXPONENT_BOUND, min(_EXPONENT_BOUND, int(suffix[1:])))


def _malformed(text: str) -> str:
    if text != text.strip():
        return "has space around it"
    return "is not a Kubernetes quantity" if text else "is empty"


def _too_small(text: str, numerator: int) -> str:
    if numerator == 0:
        return "is zero"
    # The usual cause: somebody meant MiB.
    return "counts bytes and is below 1 MiB" if text.isdigit() else "is below 1 MiB"
