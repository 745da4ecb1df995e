"""
The README's tables of flags and metrics, written from the code they describe.

    tables.py README.md            rewrites what stands between the markers
    tables.py --check README.md    says what would change, and fails if anything would
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator
from pathlib import Path

from fractiond.metrics import Metrics
from fractiond.settings import Settings
from fractioning_core.service import declarations
from prometheus_client import CollectorRegistry


def flags() -> Iterator[str]:
    """Give the table of fractiond's flags."""
    yield "| flag | environment | default | what it does |"
    yield "|---|---|---|---|"
    for setting in declarations.declared(Settings).values():
        environment = f"`{setting.env}`" if setting.env else ""
        default = setting.kind.show(setting.default)
        yield f"| `--{setting.flag}` | {environment} | `{default}` | {setting.help} |"


def metrics() -> Iterator[str]:
    """Give the table of fractiond's metrics, with the values that each label takes."""
    registry = CollectorRegistry()
    Metrics(registry)
    yield "| metric | type | labels | what it counts |"
    yield "|---|---|---|---|"
    for family in registry.collect():
        names = {sample.name for sample in family.samples}
        name = family.name if family.name in names or family.type == "histogram" else f"{family.name}_total"
        yield f"| `{name}` | {family.type} | {_labels(family.samples)} | {family.documentation} |"


def _labels(samples: list) -> str:  # type: ignore[type-arg] # prometheus_client's own type is private
    values: dict[str, dict[str, None]] = {}
    for sample in samples:
        for key, value in sample.labels.items():
            if key != "le":
                values.setdefault(key, {})[value] = None
    return "; ".join(f"`{key}`: {', '.join(found)}" for key, found in values.items())


SECTIONS = {"flags": flags, "metrics": metrics}


def rewritten(text: str) -> str:
    """Put every table between its markers."""
    for name, table in SECTIONS.items():
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        if (text.count(begin), text.count(end)) != (1, 1):
            sys.exit(f"tables.py: the table of {name} wants one line each: {begin.strip()} and {end}")
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        rows = "\n".join(table())
        text = f"{before}{begin}{rows}\n{end}{after}"
    return text


def main() -> None:
    """Rewrite or check one file."""
    *options, name = sys.argv[1:]
    before = Path(name).read_text()
    after = rewritten(before)
    if options == ["--check"]:
        difference = difflib.unified_diff(before.splitlines(), after.splitlines(), name, "from the code", lineterm="")
        sys.exit("\n".join(difference) or None)
    Path(name).write_text(after)


if __name__ == "__main__":
    main()
