"""The kinds of value that a setting can have: how each is read from text, written back, and named in help.

Texts follow what operators know from Kubernetes' own programs: booleans as Go's `strconv.ParseBool`, whole numbers as
`strconv.Atoi`, durations as `time.ParseDuration`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import attrs

from fractioning_core import durations
from fractioning_core.errors import InvalidDuration
from fractioning_core.service import addresses
from fractioning_core.service.addresses import Address
from fractioning_core.service.problems import NotAccepted

T = TypeVar("T")

_BOOLEANS = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "FALSE", "false", "False"), False
)

_INTEGER = re.compile(r"([+-]?)0*([0-9]+)")

_LOWEST_INTEGER, _HIGHEST_INTEGER = -(2**63), 2**63 - 1


@attrs.frozen
class Kind(Generic[T]):
    """
    One kind of value.

    Args:
        placeholder: What help writes behind the flag; empty for a switch, which needs no value.
        parse: Text to value; raises NotAccepted.
        show: Value to the text that would give it.
    """

    placeholder: str
    parse: Callable[[str], T]
    show: Callable[[T], str]

    @property
    def is_switch(self) -> bool:
        """
        Tell whether the bare flag means true, so that it never takes the next argument.
        """
        return not self.placeholder


def string(pattern: str | None, accepted: str | None) -> Kind[str]:
    """
    Any text, or only one that matches a pattern whole.
    """

    def parse(text: str) -> str:
        if pattern is not None and re.fullmatch(pattern, text) is None:
            raise NotAccepted(text, reason="does not fit", accepted=accepted or f"text that matches {pattern}")
        return text

    return Kind(placeholder="string", parse=parse, show=str)


def path() -> Kind[str]:
    """
    An absolute path, because a service's working directory is nobody's promise.
    """

    def parse(text: str) -> str:
        if not text.startswith("/"):
            raise NotAccepted(text, reason="is not an absolute path", accepted="a path that starts with /")
        return text

    return Kind(placeholder="path", parse=parse, show=str)


def boolean() -> Kind[bool]:
    """
    True or false.
    """

    def parse(text: str) -> bool:
        value = _BOOLEANS.get(text)
        if value is None:
            raise NotAccepted(text, reason="is not a boolean", accepted="true or false (also t, f, 1, 0)")
        return value

    return Kind(placeholder="", parse=parse, show=lambda value: str(value).lower())


def integer(minimum: int | None, maximum: int | None) -> Kind[int]:
    """
    A whole number between two bounds.
    """
    accepted = "a whole number" + _bounds(minimum, maximum, show=str)
    lowest = _LOWEST_INTEGER if minimum is None else minimum
    highest = _HIGHEST_INTEGER if maximum is None else maximum

    def parse(text: str) -> int:
        number = _INTEGER.fullmatch(text)
        if number is None:
            raise NotAccepted(text, reason="is not a whole number", accepted=accepted)
        # More digits than 64 bits have are out of range however many there are, and very many are slow to convert.
        value = int(number[1] + number[2][:20])
        _check_bounds(value, lowest, highest, text=text, accepted=accepted)
        return value

    return Kind(placeholder="int", parse=parse, show=str)


def duration(minimum: float | None, maximum: float | None) -> Kind[float]:
    """
    Seconds, written with a unit, between two bounds.
    """
    bounds = _bounds(minimum, maximum, show=_seconds_to_text)
    accepted = f"{durations.ACCEPTED}, {bounds.strip()}" if bounds else durations.ACCEPTED

    def parse(text: str) -> float:
        try:
            seconds = durations.parse(text) / durations.NANOSECONDS_PER_SECOND
        except InvalidDuration as error:
            raise NotAccepted(text, reason=error.reason, accepted=accepted) from error
        _check_bounds(seconds, minimum, maximum, text=text, accepted=accepted)
        return seconds

    return Kind(placeholder="duration", parse=parse, show=_seconds_to_text)


def address(off: str | None) -> Kind[Address]:
    """
    Where to listen, as Go writes it, or one text that means nowhere.
    """

    def parse(text: str) -> Address:
        return addresses.NOWHERE if text == off else addresses.parse(text)

    def show(value: Address) -> str:
        return str(value) if off is None or value != addresses.NOWHERE else off

    return Kind(placeholder="address", parse=parse, show=show)


def choice(choices: Sequence[str]) -> Kind[str]:
    """
    One of a few words, written exactly so.
    """

    def parse(text: str) -> str:
        if text not in choices:
            raise NotAccepted(text, reason="is none of the choices", accepted=", ".join(choices))
        return text

    return Kind(placeholder="|".join(choices), parse=parse, show=str)


def strings() -> Kind[tuple[str, ...]]:
    """
    Texts separated by commas; an empty text is no item at all.
    """

    def parse(text: str) -> tuple[str, ...]:
        items = tuple(item.strip() for item in text.split(",")) if text.strip() else ()
        if "" in items:
            raise NotAccepted(text, reason="has an empty item", accepted="items separated by commas, such as a,b")
        return items

    return Kind(placeholder="list", parse=parse, show=",".join)


def _seconds_to_text(seconds: float) -> str:
    return durations.to_text(round(seconds * durations.NANOSECONDS_PER_SECOND))


def _bounds(minimum: T | None, maximum: T | None, *, show: Callable[[T], str]) -> str:
    if minimum is not None and maximum is not None:
        return f" from {show(minimum)} to {show(maximum)}"
    if minimum is not None:
        return f" of at least {show(minimum)}"
    return "" if maximum is None else f" of at most {show(maximum)}"


def _check_bounds(value: float, minimum: float | None, maximum: float | None, *, text: str, accepted: str) -> None:
    if (minimum is not None and value < minimum) or (maximum is not None and value > maximum):
        raise NotAccepted(text, reason="is out of range", accepted=accepted)
