"""
The tables of flags and metrics in the documents, written from the code they describe.

    tables.py            rewrites what stands between the markers
    tables.py --check    says what would change, and fails if anything would
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import attrs
import controller.metrics
import controller.settings
import fractiond.metrics
import fractiond.settings
import metricsd.families
import metricsd.settings
import mpsd.metrics
import mpsd.settings
from fractioning_core.service import declarations
from metricsd.families import PodFamilies, PodNames
from metricsd.family import Family
from prometheus_client import CollectorRegistry

ROOT = Path(__file__).parent.parent


def flags(settings: type[attrs.AttrsInstance]) -> Iterator[str]:
    """Give the table of a service's flags."""
    yield "| flag | environment | default | what it does |"
    yield "|---|---|---|---|"
    for setting in declarations.declared(settings).values():
        environment = f"`{setting.env}`" if setting.env else ""
        default = setting.kind.show(setting.default) or '""'
        yield f"| `--{setting.flag}` | {environment} | `{default}` | {setting.help} |"


def metrics(families: Callable[[CollectorRegistry], object]) -> Iterator[str]:
    """Give the table of a service's metrics, with the values that each label takes."""
    registry = CollectorRegistry()
    families(registry)
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


def listed(families: Iterable[Family]) -> Iterator[str]:
    """Give the table of families that a service keeps in a list."""
    yield "| metric | type | unit | labels | what it says | what to do |"
    yield "|---|---|---|---|---|---|"
    for family in families:
        labels = ", ".join(f"`{label}`" for label in family.labels)
        yield f"| `{family.name}` | {family.type} | {family.unit} | {labels} | {family.help} | {family.advice} |"


Sections = Mapping[str, Callable[[], Iterator[str]]]

FILES: Mapping[str, Sections] = {
    "services/fractiond/README.md": {
        "flags": lambda: flags(fractiond.settings.Settings),
        "metrics": lambda: metrics(fractiond.metrics.Metrics),
    },
    "services/mpsd/README.md": {
        "flags": lambda: flags(mpsd.settings.Settings),
        "metrics": lambda: metrics(mpsd.metrics.Metrics),
    },
    "services/metricsd/README.md": {"flags": lambda: flags(metricsd.settings.Settings)},
    "services/controller/README.md": {
        "flags": lambda: flags(controller.settings.Settings),
        "metrics": lambda: metrics(controller.metrics.Metrics),
    },
    "services/metricsd/METRICS.md": {
        "pods": lambda: listed(PodFamilies.named(PodNames())),
        "containers": lambda: listed(metricsd.families.CONTAINER_FAMILIES),
        "GPUs": lambda: listed(metricsd.families.GPU_FAMILIES),
        "findings": lambda: listed(metricsd.families.FOUND_FAMILIES),
        "own": lambda: listed(metricsd.families.OWN_FAMILIES),
    },
}


def rewritten(text: str, sections: Sections) -> str:
    """Put every table between its markers."""
    for name, table in sections.items():
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        if (text.count(begin), text.count(end)) != (1, 1):
            sys.exit(f"tables.py: the table of {name} wants one line each: {begin.strip()} and {end}")
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        rows = "\n".join(table())
        text = f"{before}{begin}{rows}\n{end}{after}"
    return text


def main() -> None:
    """Rewrite or check all files."""
    only_checks = sys.argv[1:] == ["--check"]
    differences: list[str] = []
    for name, sections in FILES.items():
        before = (ROOT / name).read_text()
        after = rewritten(before, sections)
        if only_checks:
            differences += difflib.unified_diff(
                before.splitlines(), after.splitlines(), name, "from the code", lineterm=""
            )
        else:
            (ROOT / name).write_text(after)
    sys.exit("\n".join(differences) or None)


if __name__ == "__main__":
    main()
