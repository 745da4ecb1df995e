"""One render for each kind of installation, whole; GOLDEN=rewrite takes what is rendered now for right."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from apilab.helm import CHART, RELEASE, Helm

SCENARIOS = sorted(path.name.removesuffix("-values.yaml") for path in (CHART / "ci").glob("*-values.yaml"))
# What a cluster with the Prometheus Operator serves.
MONITORED = ("prometheus", "everything")


def flags(scenario: str) -> list[str]:
    served = ["--api-versions=monitoring.coreos.com/v1"] if scenario in MONITORED else []
    return [f"--values={CHART / 'ci' / f'{scenario}-values.yaml'}", *served]


def test_there_are_scenarios() -> None:
    """The folder of the scenarios is found where it is looked for."""
    assert "default" in SCENARIOS


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_golden(scenario: str, helm: Helm, golden: Callable[[str, str], str]) -> None:
    """A scenario renders to the very text that was looked over."""
    text = await helm.run("template", RELEASE, CHART, *flags(scenario))

    assert golden(f"{scenario}.yaml", text) == text


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_lint(scenario: str, helm: Helm) -> None:
    """Helm has nothing to complain about."""
    told = await helm.run("lint", CHART, "--strict", f"--values={CHART / 'ci' / f'{scenario}-values.yaml'}")

    assert "1 chart(s) linted, 0 chart(s) failed" in told
