"""The monitors for the Prometheus Operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from apilab.helm import Helm, find
from controller import fractiond, mpsd
from controller.daemonset import Input
from controller.testing.builders import OPTIONS
from fractioning_core import resource

SERVED = "--api-versions=monitoring.coreos.com/v1"
NAME = "gpu-fractioning"
ON = {"prometheus": {"enabled": True}}
ALL = [NAME, f"{NAME}-fractiond", f"{NAME}-metricsd", f"{NAME}-mpsd"]


@pytest.mark.parametrize(
    ("given", "flags", "expected"),
    [
        pytest.param({}, [SERVED], [], id="not asked for"),
        pytest.param(ON, [], [], id="unknown to the cluster"),
        pytest.param(ON, [SERVED], ALL, id="asked for and known"),
        pytest.param({**ON, "metrics": {"enabled": False}}, [SERVED], [], id="no metrics at all"),
        pytest.param(
            {**ON, "metricsAgent": {"enabled": False}},
            [SERVED],
            [NAME, f"{NAME}-fractiond", f"{NAME}-mpsd"],
            id="no metricsd",
        ),
    ],
)
async def test_which(given: Mapping[str, Any], flags: list[str], expected: list[str], helm: Helm) -> None:
    """There is a monitor for whatever serves metrics, where a cluster knows monitors."""
    manifests = await helm.template(given, *flags)

    found = [each["metadata"]["name"] for each in manifests if each["kind"] in {"ServiceMonitor", "PodMonitor"}]
    assert expected == sorted(found)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("", "/metrics", id="the default"),
        pytest.param("/gpu/metrics", "/gpu/metrics", id="another"),
        pytest.param("gpu/metrics", "/gpu/metrics", id="without its slash, as metricsd takes it too"),
    ],
)
async def test_path(path: str, expected: str, helm: Helm) -> None:
    """The monitor looks where metricsd serves."""
    manifests = await helm.template({**ON, "metricsAgent": {"path": path}}, SERVED)

    (endpoint,) = find(manifests, "PodMonitor", "gpu-fractioning-metricsd")["spec"]["podMetricsEndpoints"]
    assert {
        "port": "metrics",
        "scheme": "http",
        "path": expected,
        "honorLabels": True,
        "interval": "30s",
        "scrapeTimeout": "10s",
    } == endpoint


async def test_ports(helm: Helm) -> None:
    """Each monitor of pods looks for a port that they have."""
    manifests = await helm.template(ON, SERVED)
    given = Input(resource.read(find(manifests, "GpuFractioningConfig")), OPTIONS, is_nri=False)
    templates = [module.build(given)["spec"]["template"] for module in (fractiond, mpsd)]
    asked = {
        (*each["spec"]["selector"]["matchLabels"].items(), each["spec"]["podMetricsEndpoints"][0]["port"])
        for each in manifests
        if each["kind"] == "PodMonitor"
    }
    had = {
        (*template["metadata"]["labels"].items(), port["name"])
        for template in templates
        for container in template["spec"]["containers"]
        for port in container.get("ports", [])
    }

    assert asked == had


async def test_labels(helm: Helm) -> None:
    """A Prometheus that selects monitors by a label finds all of them."""
    chosen = {"prometheus": {"enabled": True, "additionalLabels": {"release": "prometheus"}}}

    manifests = await helm.template(chosen, SERVED)

    monitors = [each for each in manifests if each["kind"] in {"ServiceMonitor", "PodMonitor"}]
    assert ["prometheus"] * 4 == [each["metadata"]["labels"]["release"] for each in monitors]
