"""
The names that the documents tell, as the code has them: metrics, reasons, events of the log and values of the chart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import controller.metrics
import fractiond.metrics
import mpsd.metrics
import pytest
from controller import claim, conditions, dependencies, drivers, nodes, status, upgrade
from fractioning_core import versions
from metricsd.families import PodNames, all_families
from metricsd.snapshot import Enforcement
from prometheus_client import CollectorRegistry

REPOSITORY = Path(__file__).parents[3]
README = (REPOSITORY / "README.md").read_text()
SERVICES = ("controller", "fractiond", "metricsd", "mpsd")
PAGES = {name: (REPOSITORY / "services" / name / "README.md").read_text() for name in SERVICES}
ALERTS = (REPOSITORY / "deploy/examples/alerts.yaml").read_text()
CHART = REPOSITORY / "deploy/helm/gpu-fractioning"
_METRIC = re.compile(r"\bgpu_fractioning_[a-z0-9_]+")
_REASON = re.compile(r"^[A-Z][A-Za-z]+$")
REGISTRIES: tuple[Callable[[CollectorRegistry], object], ...] = (
    controller.metrics.Metrics,
    fractiond.metrics.Metrics,
    mpsd.metrics.Metrics,
)


def chapter(text: str, heading: str) -> str:
    """
    Give what stands below a heading, up to the next one of any level.
    """
    found = re.search(rf"^#+ {re.escape(heading)}$\n(.*?)(?=^#+ |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found[1]


def first_column(text: str) -> Iterator[str]:
    """
    Yield what is in backticks in the first column of the tables of a text, but in their heads.
    """
    for before, line in pairwise(text.splitlines()):
        if before.startswith("|") and line.startswith("| "):
            yield from re.findall(r"`([^`]+)`", line.split(" | ")[0])


def samples() -> set[str]:
    """
    List the names that samples have on any page.
    """
    found = {name for family in all_families(PodNames()) for name in family.sample_names}
    for families in REGISTRIES:
        registry = CollectorRegistry()
        families(registry)
        for family in registry.collect():
            found |= {family.name} if family.type == "histogram" else set()
            found |= {sample.name for sample in family.samples}
    return found


def constants(*modules: ModuleType) -> set[str]:
    """
    Give the public constants of modules that look like reasons.
    """
    values = (value for module in modules for name, value in vars(module).items() if re.fullmatch("[A-Z][A-Z_]+", name))
    return {value for value in values if isinstance(value, str) and _REASON.fullmatch(value)}


class TestMetrics:
    @pytest.mark.parametrize("text", [README, ALERTS, *PAGES.values()], ids=["README", "alerts", *PAGES])
    def test_every_name_is_served(self, text: str) -> None:
        """
        What is written like one of our metrics is one.
        """
        assert set() == set(_METRIC.findall(text)) - samples()

    def test_verdicts_on_limits(self) -> None:
        """
        The table of what is said of limits in force has every verdict, and no other.
        """
        assert {each.value for each in Enforcement} == set(first_column(chapter(README, "Is the limit in force?")))

    def test_alerts_of_the_readme(self) -> None:
        """
        The README's tables tell of alerts that there are, with the expressions that they have.
        """
        told = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", chapter(README, "What to watch"), re.MULTILINE))
        rules = dict(re.findall(r"- alert: (\w+)\n\s+expr: (.+)", ALERTS))

        assert len(told) >= 8
        assert {name: rules.get(name) for name in told} == {
            name: expression.replace("\\|", "|") for name, expression in told.items()
        }


class TestReasons:
    def test_of_the_resource(self) -> None:
        """
        Every reason of the resource's conditions has a row, and no row another.
        """
        modules = (conditions, dependencies, drivers, status, upgrade, versions)
        known = constants(*modules) | {nodes.LABEL_MISSING}
        told = chapter(README, "Why Ready is False")
        rows = {each for each in first_column(told) if _REASON.fullmatch(each)}
        types = {"Ready", "FractiondReady", "MpsdReady", "DriverUpgradeInProgress", "Unknown", "True", "False"}

        # The sum of all that is well needs no row.
        assert known - types - {conditions.ALL_COMPONENTS_READY} <= set(re.findall(r"`(\w+)`", told))
        assert rows - types <= known

    def test_of_nodes(self) -> None:
        """
        Every reason of a node's condition has a row.
        """
        rows = set(first_column(chapter(README, "The condition of a node is False, or missing")))

        assert constants(nodes) - {"True", "False"} | constants(drivers) - {"True", "False"} <= rows

    def test_of_events(self) -> None:
        """
        The event about another installation is called what it is.
        """
        assert f"`{claim.STANDS_BY}`" in chapter(README, "There are two installations")


class TestLog:
    @pytest.mark.parametrize("service", SERVICES)
    def test_events_are_logged(self, service: str) -> None:
        """
        Each event in the table of a service is one that its code logs.
        """
        sources = [*(REPOSITORY / "services" / service / "src").rglob("*.py")]
        sources += (REPOSITORY / "libs/fractioning-core/src/fractioning_core/service").rglob("*.py")
        code = "".join(path.read_text() for path in sources)
        events = list(first_column(chapter(PAGES[service], "Log lines")))

        assert events
        assert [] == [each for each in events if f'"{each}"' not in code]


class TestValues:
    def test_every_value_is_the_charts(self) -> None:
        """
        What is written like a value of the chart is one.
        """
        schema = json.loads((CHART / "values.schema.json").read_text())
        paths = {text.partition("=")[0] for text in re.findall(r"`([a-zA-Z]+(?:\.[a-zA-Z*]+)+(?:=[^`]*)?)`", README)}
        ours = {path for path in paths if path.partition(".")[0] in schema["properties"]}

        assert len(ours) > 10
        assert [] == sorted(path for path in ours if not is_value(schema, path.split(".")))


def is_value(schema: Mapping[str, Any], path: list[str]) -> bool:
    """
    Tell whether a path leads to a value; an asterisk at the end means all below.
    """
    if not path or path == ["*"]:
        return True
    below = schema.get("properties", {}).get(path[0])
    if below is None:
        # A map of the user's own keys, and objects that are Kubernetes' or described elsewhere.
        return "$ref" in schema or schema.get("additionalProperties") not in (False, None)
    return is_value(below, path[1:])
