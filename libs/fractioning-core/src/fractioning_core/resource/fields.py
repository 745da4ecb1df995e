"""
Declares the fields of the resource's types, as `fractioning_core.service.settings` declares settings.

Each function takes the name in JSON and a description, and gives what a frozen attrs class has for the field. Go's
reader, which others use, knows no absent text, so an empty one and an absent one mean the same here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import attrs

from fractioning_core.resource import kinds, labels, sections, volumes
from fractioning_core.resource.forms import Form
from fractioning_core.resource.kinds import Kind, Schema
from fractioning_core.resource.sections import METADATA_KEY, Field, Rule

T = TypeVar("T")
S = TypeVar("S", bound=attrs.AttrsInstance)

LOG_LEVELS = ("", "debug", "info", "warn", "error")


def text(name: str, description: str, form: Form | None = None) -> str:
    """
    Declare a text, empty when absent.
    """
    return _field(Field(name, kinds.text(form.or_nothing() if form else None), description, ""))


def required_text(name: str, description: str, *, schema: Schema) -> str:
    """
    Declare a text that must be there, with what its schema demands besides.
    """
    return _field(Field(name, kinds.text(), description, "", is_required=True, schema=schema))


def optional_text(name: str, description: str, form: Form | None = None) -> str | None:
    """
    Declare a text whose empty form means something else than an absent one.
    """
    return _field(_optional(name, kinds.text(form.or_nothing() if form else None), description))


def choice(name: str, description: str, words: Sequence[str]) -> str:
    """
    Declare one of a few words, empty when absent.
    """
    return _field(Field(name, kinds.choice(words), description, ""))


def required_choice(name: str, description: str, words: Sequence[str]) -> str:
    """
    Declare one of a few words, which must be there.
    """
    return _field(Field(name, kinds.choice(words), description, "", is_required=True))


def optional_choice(name: str, description: str, words: Sequence[str]) -> str | None:
    """
    Declare one of a few words, of which the empty one is not the absent one.
    """
    return _field(_optional(name, kinds.choice(words), description))


def log_level(of: str) -> str:
    """
    Declare the log level of a daemon.
    """
    return choice("logLevel", f"Least level that {of} logs; absent or empty is info.", LOG_LEVELS)


def boolean(name: str, description: str) -> bool:
    """
    Declare a switch that is off when absent.
    """
    return _field(Field(name, kinds.boolean(), description, absent=False))


def boolean_on(name: str, description: str) -> bool:
    """
    Declare a switch that the API server sets to true where its section says nothing.
    """
    return _field(Field(name, kinds.boolean(), description, absent=True, default=True))


def optional_boolean(name: str, description: str) -> bool | None:
    """
    Declare a switch that need not be set.
    """
    return _field(_optional(name, kinds.boolean(), description))


def integer(name: str, description: str, minimum: int | None = None, *, bits: int = 32) -> int:
    """
    Declare a whole number, 0 when absent; whoever makes an object says it.
    """
    return _given(Field(name, kinds.integer(minimum, bits=bits), description, 0))


def optional_integer(
    name: str, description: str, minimum: int | None = None, maximum: int | None = None, *, bits: int = 32
) -> int | None:
    """
    Declare a whole number that need not be set; both bounds are allowed values.
    """
    return _field(_optional(name, kinds.integer(minimum, maximum, bits=bits), description))


def optional_seconds(name: str, description: str, *, least_nanoseconds: int = 0) -> float | None:
    """
    Declare a duration that need not be set: seconds here, a text with a unit in JSON.
    """
    return _field(_optional(name, kinds.duration(least_nanoseconds), description))


def fixed_labels(name: str, description: str) -> Mapping[str, str]:
    """
    Declare labels that must be there, may be none, and stay as they are.
    """
    kind = labels.kind()
    fixed = {
        "rule": "self == oldSelf",
        "message": f"{name} is immutable; delete the resource and create it anew with the other one",
    }
    schema = {kinds.RULES: [*kind.schema[kinds.RULES], fixed]}
    return _field(Field(name, kind, description, {}, is_required=True, schema=schema))


def optional_section(name: str, description: str, cls: type[S], *rules: Rule[S]) -> S | None:
    """
    Declare an object with the fields of a class.
    """
    return _field(_optional(name, sections.section(cls, *rules), description))


def section_list(name: str, description: str, cls: type[S]) -> tuple[S, ...]:
    """
    Declare a list of objects with the fields of a class.
    """
    return _field(Field(name, kinds.listed(sections.section(cls)), description, ()))


def plain_list(name: str, description: str, cls: type[S]) -> tuple[S, ...]:
    """
    Declare such a list without saying how writers share it, which is how others know our conditions.
    """
    kind = kinds.listed(sections.section(cls))
    schema = {key: value for key, value in kind.schema.items() if key != kinds.LIST_TYPE}
    return _field(Field(name, attrs.evolve(kind, schema=schema), description, ()))


def core_list(name: str, description: str, shape: str) -> tuple[Mapping[str, Any], ...]:
    """
    Declare a list of objects of a shape that Kubernetes has for pods.
    """
    return _field(Field(name, kinds.listed(volumes.kind(shape)), description, ()))


def _optional(name: str, kind: Kind[T], description: str) -> Field[T | None]:
    return Field(name, kind, description, None)  # type: ignore[arg-type] # a kind never sees what stands for absent


def _field(field: Field[T]) -> T:
    return _given(field) if field.is_required else attrs.field(default=field.absent, metadata={METADATA_KEY: field})


def _given(field: Field[T]) -> T:
    return attrs.field(metadata={METADATA_KEY: field})  # type: ignore[no-any-return] # stands for the value
