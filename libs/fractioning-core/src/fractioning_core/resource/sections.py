"""
Objects whose fields are declared by a class: schema, reading and writing of the whole from those of its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import attrs

from fractioning_core.resource import kinds
from fractioning_core.resource.kinds import Kind, Problems, Schema
from fractioning_core.resource.problems import Problem

T = TypeVar("T")
S = TypeVar("S", bound=attrs.AttrsInstance)

METADATA_KEY = "fractioning_core.resource.field"


@attrs.frozen
class Rule(Generic[T]):
    """
    What a section demands beyond its fields.

    Attributes:
        rule: in CEL, about `self`.
        reason: what is wrong where it does not hold.
        accepted: what would be right.
        holds: the same rule, here.
    """

    rule: str
    reason: str
    accepted: str
    holds: Callable[[T], bool]

    def schema(self) -> Schema:
        """
        Give the rule as the API server takes it.
        """
        return {"rule": self.rule, "message": f"{self.reason}; accepted: {self.accepted}"}


@attrs.frozen
class Field(Generic[T]):
    """
    One field of a section.

    Attributes:
        name: its name in JSON.
        kind: what its value may be.
        description: one phrase with the unit and the meaning of an absent value.
        absent: the value that stands for an absent field.
        is_required: whether it must be there.
        default: what the API server puts where nothing is; None for nothing.
        schema: more of its schema than the kind says.
    """

    name: str
    kind: Kind[T]
    description: str
    absent: T
    is_required: bool = False
    default: object = None
    schema: Schema = attrs.field(factory=dict)

    def whole_schema(self) -> Schema:
        """
        Give the schema of the field's value.
        """
        default = {} if self.default is None else {"default": self.default}
        return {"description": self.description, **self.kind.schema, **default, **self.schema}

    def read(self, body: Mapping[str, Any], path: str, problems: Problems) -> T:
        """
        Take the field out of an object; one that is unusable is told and stands for absent.
        """
        here = f"{path}.{self.name}" if path else self.name
        value = body.get(self.name)
        if value is None:
            if self.is_required:
                problems.append(Problem(here, None, "is missing", self.kind.accepted))
            return self.absent
        found = self.kind.read(value, here, problems)
        return self.absent if found is None else found


def declared(cls: type[attrs.AttrsInstance]) -> Mapping[str, Field[Any]]:
    """
    Return the fields of a class by attribute name, in the order declared.
    """
    return {one.name: one.metadata[METADATA_KEY] for one in attrs.fields(cls) if METADATA_KEY in one.metadata}


def section(cls: type[S], *rules: Rule[S]) -> Kind[S]:
    """
    An object with the fields of a class.
    """
    fields = declared(cls)
    accepted = f"an object with {', '.join(field.name for field in fields.values())}"

    def read(value: object, path: str, problems: Problems) -> S | None:
        if not isinstance(value, Mapping):
            problems.append(Problem(path, value, "is not an object", accepted))
            return None
        before = len(problems)
        found = cls(**{name: field.read(value, path, problems) for name, field in fields.items()})
        # The API server, too, asks the rules only about what is right so far.
        if len(problems) == before:
            problems += [Problem(path, None, rule.reason, rule.accepted) for rule in rules if not rule.holds(found)]
        return found

    return Kind(_schema(fields, rules), accepted, read, write)


def shape(fields: Mapping[str, Kind[Any]], required: frozenset[str], schema: Schema) -> Kind[Mapping[str, Any]]:
    """
    An object of somebody else's: its fields are checked, and it stays as it is.
    """
    accepted = f"an object with {', '.join(fields)}"

    def read(value: object, path: str, problems: Problems) -> Mapping[str, Any] | None:
        if not isinstance(value, Mapping):
            problems.append(Problem(path, value, "is not an object", accepted))
            return None
        for name, kind in fields.items():
            if value.get(name) is not None:
                kind.read(value[name], f"{path}.{name}", problems)
            elif name in required:
                problems.append(Problem(f"{path}.{name}", None, "is missing", kind.accepted))
        return value

    properties = {name: kind.schema for name, kind in fields.items()}
    demanded = {"required": [name for name in fields if name in required]} if required else {}
    return Kind({"type": "object", **demanded, "properties": properties, **schema}, accepted, read)


def write(value: attrs.AttrsInstance) -> Mapping[str, Any]:
    """
    Give an object of the types here as JSON has it, without the fields that are absent.
    """
    return dict(_written(value))


def _written(value: attrs.AttrsInstance) -> Iterator[tuple[str, object]]:
    for name, field in declared(type(value)).items():
        found = getattr(value, name)
        if field.is_required or found != field.absent:
            yield field.name, field.kind.write(found)


def _schema(fields: Mapping[str, Field[Any]], rules: tuple[Rule[S], ...]) -> Schema:
    required = [field.name for field in fields.values() if field.is_required]
    return {
        "type": "object",
        **({"required": required} if required else {}),
        "properties": {field.name: field.whole_schema() for field in fields.values()},
        **({kinds.RULES: [rule.schema() for rule in rules]} if rules else {}),
    }
