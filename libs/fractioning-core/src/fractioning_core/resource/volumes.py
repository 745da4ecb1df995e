"""
A pod's volumes and mounts: checked as the API server checks them, and passed on as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from fractioning_core.resource import kinds, sections
from fractioning_core.resource.coreshapes import ATOMIC, SHAPES
from fractioning_core.resource.kinds import Kind

_SCALARS: Mapping[str, Callable[[], Kind[Any]]] = {
    "string": kinds.text,
    "boolean": kinds.boolean,
    "int32": kinds.integer,
    "int64": functools.partial(kinds.integer, bits=64),
    "quantity": kinds.quantity,
}


@functools.cache
def kind(name: str) -> Kind[Any]:
    """
    Give the kind that a word of `coreshapes` stands for.
    """
    match name[0]:
        case "[":
            return kinds.listed(kind(name[1:-1]))
        case "{":
            return kinds.mapping(kind(name[1:-1]))
    if name in _SCALARS:
        return _SCALARS[name]()
    fields = {field.rstrip("!"): kind(value) for field, value in SHAPES[name].items()}
    required = frozenset(field[:-1] for field in SHAPES[name] if field.endswith("!"))
    return sections.shape(fields, required, {"x-kubernetes-map-type": "atomic"} if name in ATOMIC else {})
