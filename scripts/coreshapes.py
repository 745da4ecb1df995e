"""
The shapes of a pod's volumes, as an API server publishes them, in the short form that the resource package keeps.

    kubectl get --raw /openapi/v3/api/v1 | scripts/coreshapes.py > MODULE

Descriptions, defaults and enumerations are left out: the API server puts and judges those itself when it is given a
pod with the volume, and another release of it may know more values than this one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

ROOTS = ("Volume", "VolumeMount")
QUANTITY = "Quantity"
METADATA = "ObjectMeta"
# Of the metadata of a claim that a volume has made, what a user may want to say.
METADATA_FIELDS = {"annotations": "{string}", "labels": "{string}"}

_TEMPLATE = '''"""
The shapes of a pod's volumes and mounts in Kubernetes {version}, for the schema of our resource.

Written by scripts/coreshapes.py from what an API server of that release publishes; edit nothing here. A field that is
required ends in `!`. Types are string, boolean, int32, int64, quantity, another shape's name, `[list of]` and
`{{text to}}`.
"""

from __future__ import annotations

from collections.abc import Mapping

SHAPES: Mapping[str, Mapping[str, str]] = {shapes}

ATOMIC = frozenset({atomic})
"""
Shapes that one writer owns whole.
"""
'''


class UnknownForm(Exception):  # noqa: N818  the message says it
    """
    A schema that the short form has no words for.
    """


def shapes(openapi: Mapping[str, Any]) -> tuple[dict[str, dict[str, str]], set[str]]:
    """
    Take the shapes out of the schemas of core/v1, with the names of those that one writer owns whole.
    """
    schemas = {name.rpartition(".")[2]: schema for name, schema in openapi["components"]["schemas"].items()}
    found: dict[str, dict[str, str]] = {}
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = METADATA_FIELDS if name == METADATA else dict(_fields(schemas[name]))
            waiting += {kind.strip("[]{}") for kind in found[name].values()} & schemas.keys() - {QUANTITY}
    atomic = {name for name in found if schemas[name].get("x-kubernetes-map-type") == "atomic"}
    return dict(sorted(found.items())), atomic


def module(openapi: Mapping[str, Any]) -> str:
    """
    Write the module.
    """
    found, atomic = shapes(openapi)
    return _TEMPLATE.format(version=openapi["info"]["version"], shapes=found, atomic=sorted(atomic))


def _fields(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    required = schema.get("required", ())
    for name, field in sorted(schema["properties"].items()):
        yield f"{name}!" if name in required else name, _kind(field)


def _kind(schema: Mapping[str, Any]) -> str:
    match schema:
        case {"allOf": [one]}:
            return _kind(one)
        case {"$ref": str(reference)}:
            name = reference.rpartition(".")[2]
            return "quantity" if name == QUANTITY else name
        case {"type": "array", "items": items, "x-kubernetes-list-type": "atomic"}:
            return f"[{_kind(items)}]"
        case {"type": "object", "additionalProperties": values}:
            return f"{{{_kind(values)}}}"
        case {"type": "integer", "format": "int32" | "int64" as bits}:
            return str(bits)
        case {"type": "string" | "boolean" as kind} if "format" not in schema:
            return str(kind)
    raise UnknownForm(schema)


if __name__ == "__main__":
    sys.stdout.write(module(json.load(sys.stdin)))
