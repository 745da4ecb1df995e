"""The examples say what they claim to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from apilab.helm import CHART, Helm
from fractioning_core import podannotations, resource

EXAMPLES = CHART.parents[1] / "examples"
PODS = sorted(EXAMPLES.glob("pod-*.yaml"))


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


@pytest.mark.parametrize("path", PODS, ids=lambda path: path.stem)
def test_pod(path: Path) -> None:
    """Every container of an example is fractional, by annotations that hold."""
    pod = load(path)

    annotations, grammar = pod["metadata"]["annotations"], podannotations.Grammar()
    readings = [podannotations.read(annotations, each["name"], grammar) for each in pod["spec"]["containers"]]
    assert readings
    assert [((), True)] * len(readings) == [(each.problems, each.fraction is not None) for each in readings]


def test_config() -> None:
    """The resource of the example is one that the controller reads."""
    manifest = load(EXAMPLES / "gpufractioningconfig.yaml")
    stored = {"uid": "u", "generation": 1, "resourceVersion": "1"}

    config = resource.read({**manifest, "metadata": {**manifest["metadata"], **stored}})

    assert config.spec.mps_daemon is not None


async def test_values(helm: Helm) -> None:
    """The values for OpenShift render."""
    manifests = await helm.template(load(EXAMPLES / "openshift-values.yaml"))

    assert "SecurityContextConstraints" in {each["kind"] for each in manifests}
