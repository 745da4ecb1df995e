"""
What the chart says of its values, written from where it is known.

    chart.py            rewrites the table in the chart's README.md and the descriptions in its values.schema.json
    chart.py --check    says what would change, and fails if anything would

A value is described by the comment above it in values.yaml. What is passed on into the GpuFractioningConfig is
described, and bounded, by the resource's own schema.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import yaml
from fractioning_core.resource import crd

CHART = Path(__file__).parent.parent / "deploy/helm/gpu-fractioning"
BEGIN, END = "<!-- values: begin -->\n", "<!-- values: end -->"

# Values with the same shape as a part of the resource's spec.
COPIED = {
    "daemonTolerations": "tolerations",
    "fractioningAgent": "fractioningAgent",
    "metricsAgent": "metricsAgent",
    "mpsDaemon": "mpsDaemon",
    "tolerations": "tolerations",
}
# What a schema keeps of the resource's. The API server judges the rest, in words of its own.
KEPT = ("description", "type", "enum", "minimum", "maximum", "maxLength", "default")
# Shapes of Kubernetes itself, too long to copy.
FOREIGN = ("volumes", "volumeMounts")


class Fault(Exception):  # noqa: N818  the message says it
    """
    The chart's files do not fit together.
    """


@attrs.frozen
class Value:
    """
    One value, or a section of them, which has no default.
    """

    path: tuple[str, ...]
    description: str
    default: str = ""


def values(text: str) -> Iterator[Value]:
    """
    Read what values.yaml says, in its order.
    """
    root = yaml.compose(text)
    if not isinstance(root, yaml.MappingNode):
        raise Fault("values.yaml is no mapping")
    yield from _values(root, (), text.splitlines())


def _values(section: yaml.MappingNode, path: tuple[str, ...], lines: list[str]) -> Iterator[Value]:
    for key, value in section.value:
        here = (*path, key.value)
        comment = _comment_above(lines, key.start_mark.line)
        if isinstance(value, yaml.MappingNode) and not value.flow_style:
            if comment:
                yield Value(here, comment)
            yield from _values(value, here, lines)
        elif comment:
            yield Value(here, comment, json.dumps(_plain(value)))
        else:
            raise Fault(f"values.yaml: {'.'.join(here)} has no comment above it")


def _plain(node: yaml.Node) -> object:
    return yaml.safe_load(yaml.serialize(node))


def _comment_above(lines: list[str], line: int) -> str:
    found: list[str] = []
    while line and lines[line - 1].lstrip().startswith("# "):
        line -= 1
        found.insert(0, lines[line].strip().removeprefix("# "))
    return " ".join(found)


def table(described: list[Value], schema: Mapping[str, Any]) -> str:
    """
    Give the table for people: values.yaml in its order, each copied section followed by what else it takes.
    """
    own = {value.path for value in described}
    rows = ["| value | default | what it does |", "|---|---|---|"]
    for value in described:
        rows.append(_row(value))
        if value.path[0] in COPIED and len(value.path) == 1:
            fields = schema["properties"][value.path[0]].get("properties", {})
            others = [Value((*value.path, name), field["description"]) for name, field in fields.items()]
            rows += [_row(other) for other in others if other.path not in own]
    return "\n".join(rows) + "\n"


def _row(value: Value) -> str:
    default = f"`{value.default}`" if value.default else ""
    return f"| `{'.'.join(value.path)}` | {default} | {value.description} |"


def described_schema(before: str, described: list[Value]) -> str:
    """
    Put descriptions and copied sections into the schema.
    """
    schema = json.loads(before)
    spec = crd.manifest()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for name, field in COPIED.items():
        schema["properties"][name] = closed(spec["properties"][field])
    for value in described:
        _property(schema, value.path)["description"] = value.description
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """
    Copy a part of the resource's schema, refusing what it does not name.
    """
    copy: dict[str, Any] = {key: schema[key] for key in KEPT if key in schema}
    if "properties" in schema:
        copy["additionalProperties"] = False
        copy["properties"] = {
            name: {**closed(field), **({"items": {"type": "object"}} if name in FOREIGN else {})}
            for name, field in schema["properties"].items()
        }
    if "items" in schema:
        copy["items"] = closed(schema["items"])
    return copy


def _property(schema: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """
    Find where a value is described; what several values share is described by hand, in one place.
    """
    found = schema
    for name in path:
        if "$ref" in found:
            return {}
        if name not in found.get("properties", {}):
            raise Fault(f"values.schema.json: {'.'.join(path)} of values.yaml is not in it")
        found = found["properties"][name]
    return found


def readme(before: str, rows: str) -> str:
    """
    Put the table between its markers.
    """
    if (before.count(BEGIN), before.count(END)) != (1, 1):
        raise Fault(f"README.md: one line each is wanted: {BEGIN.strip()} and {END}")
    head, _, rest = before.partition(BEGIN)
    return head + BEGIN + rows + END + rest.partition(END)[2]


def rewritten() -> Mapping[Path, str]:
    """
    Give what the files would be.
    """
    described = list(values((CHART / "values.yaml").read_text()))
    schema_file, readme_file = CHART / "values.schema.json", CHART / "README.md"
    schema = described_schema(schema_file.read_text(), described)
    return {schema_file: schema, readme_file: readme(readme_file.read_text(), table(described, json.loads(schema)))}


def main() -> None:
    """
    Rewrite or check.
    """
    try:
        files = rewritten()
    except Fault as fault:
        sys.exit(f"chart.py: {fault}")
    if sys.argv[1:] == ["--check"]:
        sys.exit("\n".join(_differences(files)) or None)
    for file, text in files.items():
        file.write_text(text)


def _differences(files: Mapping[Path, str]) -> Iterator[str]:
    for file, text in files.items():
        name = str(file.relative_to(CHART))
        yield from difflib.unified_diff(
            file.read_text().splitlines(), text.splitlines(), name, "generated", lineterm=""
        )


if __name__ == "__main__":
    main()
