"""
What a value may be: for the API server as a schema, for us as a check that reads it.

A value of null never comes here, since the API server drops those; in a list it is as wrong as any other kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import attrs

from fractioning_core import durations
from fractioning_core.resource import forms
from fractioning_core.resource.forms import Form
from fractioning_core.resource.problems import Problem

T = TypeVar("T")
S = TypeVar("S")

Schema = Mapping[str, Any]
Problems = list[Problem]

LIST_TYPE = "x-kubernetes-list-type"
RULES = forms.RULES

_QUANTITY = re.compile(
    r"(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?"
)


@attrs.frozen
class Kind(Generic[T]):
    """
    One kind of value.

    Attributes:
        schema: what the API server demands.
        accepted: what is right, for whoever wrote something else.
        read: takes a value as JSON has it, where it stands, and a list for problems; gives what we make of it, or None
            after it has added to the list.
        write: gives back the value as JSON has it.
    """

    schema: Schema
    accepted: str
    read: Callable[[object, str, Problems], T | None]
    write: Callable[[T], object] = lambda value: value


def text(form: Form | None = None) -> Kind[str]:
    """
    A text, of a form where one is given.
    """

    def fault(value: object) -> str:
        if not isinstance(value, str):
            return "is not a text"
        return form.fault(value) if form else ""

    schema = {"type": "string", **(form.schema() if form else {})}
    return _checked(schema, fault, accepted=form.accepted if form else "a text, in quotes if it looks like a number")


def choice(words: Sequence[str]) -> Kind[str]:
    """
    One of a few words; the empty one, where it is among them, stands for none.
    """
    accepted = ", ".join(word or '""' for word in words)

    def fault(value: object) -> str:
        return "" if value in words else "is none of the choices"

    return _checked({"type": "string", "enum": list(words)}, fault, accepted=accepted)


def boolean() -> Kind[bool]:
    """
    True or false.
    """

    def fault(value: object) -> str:
        return "" if isinstance(value, bool) else "is not a boolean"

    return _checked({"type": "boolean"}, fault, accepted="true or false, without quotes")


def integer(minimum: int | None = None, maximum: int | None = None, *, bits: int = 32) -> Kind[int]:
    """
    A whole number between two bounds; JSON may write it with a point and zeros.
    """
    lowest = -(2 ** (bits - 1)) if minimum is None else minimum
    highest = 2 ** (bits - 1) - 1 if maximum is None else maximum
    # The API server checks no format, and its JSON has no whole numbers beyond 64 bits.
    told = {"minimum": lowest, "maximum": highest} if bits < 64 else {"minimum": minimum, "maximum": maximum}
    bounds = {name: bound for name, bound in told.items() if bound is not None}
    accepted = f"a whole number from {lowest} to {highest}" if bounds else "a whole number"

    def fault(value: object) -> str:
        if isinstance(value, bool) or not isinstance(value, int | float) or value % 1 != 0:
            return "is not a whole number"
        return "" if lowest <= value <= highest else "is out of range"

    schema = {"type": "integer", "format": f"int{bits}", **bounds}
    return _checked(schema, fault, accepted=f"{accepted}, without quotes", make=int)


def duration(least_nanoseconds: int) -> Kind[float]:
    """
    Seconds, written as a duration with a unit.
    """
    written = text(forms.duration(least_nanoseconds))

    def read(value: object, path: str, problems: Problems) -> float | None:
        found = written.read(value, path, problems)
        return None if found is None else durations.parse(found) / durations.NANOSECONDS_PER_SECOND

    def write(seconds: float) -> str:
        return durations.to_text(round(seconds * durations.NANOSECONDS_PER_SECOND))

    return Kind(written.schema, written.accepted, read, write)


def quantity() -> Kind[int | str]:
    """
    An amount as Kubernetes writes it: `1Gi`, `500m`, or a whole number.
    """
    schema = {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": f"^{_QUANTITY.pattern}$",
        "x-kubernetes-int-or-string": True,
    }
    whole = integer(bits=64)

    def fault(value: object) -> str:
        if isinstance(value, str):
            return "" if _QUANTITY.fullmatch(value) else "is not a quantity"
        return "is not a quantity" if whole.read(value, "", []) is None else ""

    return _checked(schema, fault, accepted="a quantity, such as 1Gi or 500m")


def mapping(values: Kind[T]) -> Kind[Mapping[str, T]]:
    """
    Names of the user's own, each with a value of one kind.
    """
    accepted = "an object, which may be empty, such as {}"

    def read(value: object, path: str, problems: Problems) -> Mapping[str, T] | None:
        if not isinstance(value, Mapping):
            problems.append(Problem(path, value, "is not an object", accepted))
            return None
        found = {
            name: values.read(item, f"{path}.{name}", problems) for name, item in value.items() if item is not None
        }
        return {name: item for name, item in found.items() if item is not None}

    return Kind({"type": "object", "additionalProperties": values.schema}, accepted, read, dict)


def listed(items: Kind[T]) -> Kind[tuple[T, ...]]:
    """
    A list of values of one kind, which one writer owns whole.
    """
    accepted = "a list"

    def read(value: object, path: str, problems: Problems) -> tuple[T, ...] | None:
        if not isinstance(value, list | tuple):
            problems.append(Problem(path, value, "is not a list", accepted))
            return None
        found = [items.read(item, f"{path}[{place}]", problems) for place, item in enumerate(value)]
        return tuple(item for item in found if item is not None)

    schema = {"type": "array", "items": items.schema, LIST_TYPE: "atomic"}
    return Kind(schema, accepted, read, lambda found: [items.write(item) for item in found])


def _checked(
    schema: Schema, fault: Callable[[object], str], *, accepted: str, make: Callable[[Any], T] = lambda value: value
) -> Kind[T]:
    """
    Make the kind of a value that is made of nothing smaller, by what says what is wrong with one.
    """

    def read(value: object, path: str, problems: Problems) -> T | None:
        if reason := fault(value):
            problems.append(Problem(path, value, reason, accepted))
            return None
        return make(value)

    return Kind(schema, accepted, read)
