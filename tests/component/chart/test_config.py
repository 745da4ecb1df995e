"""The GpuFractioningConfig that the chart makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import pytest
import yaml
from apilab.helm import CHART, Helm, find
from fractioning_core import resource
from fractioning_core.resource import Config, FractioningAgent, MetricNames, MetricsAgent, MpsDaemon, Spec, Toleration

GPU_TAINT = Toleration("nvidia.com/gpu", "Exists", None, "NoSchedule", None)
DEFAULT = Spec(
    node_selector={"nvidia.com/gpu.present": "true"},
    tolerations=(GPU_TAINT,),
    runtime_class_name="nvidia",
    fractioning_agent=FractioningAgent("", None, "", True, "", "", None, None, None, None),
    metrics_agent=MetricsAgent(True, "", "", "", (), (), None),
    mps_daemon=None,
)


async def spec(helm: Helm, given: Mapping[str, Any], *flags: str) -> Spec:
    manifest = find(await helm.template(given, *flags), resource.KIND)
    return read(manifest).spec


def read(manifest: Mapping[str, Any]) -> Config:
    """Read it as the API server would hand it out: with what only it can put there."""
    agent = {"retroactiveEnforcement": True, **manifest["spec"]["fractioningAgent"]}
    stored = {"uid": "u", "generation": 1, "resourceVersion": "1", **manifest["metadata"]}
    return resource.read({**manifest, "metadata": stored, "spec": {**manifest["spec"], "fractioningAgent": agent}})


def agent(**changes: Any) -> FractioningAgent:  # noqa: ANN401 - any field's type
    assert DEFAULT.fractioning_agent is not None
    return attrs.evolve(DEFAULT.fractioning_agent, **changes)


def metrics(**changes: Any) -> MetricsAgent:  # noqa: ANN401 - any field's type
    assert DEFAULT.metrics_agent is not None
    return attrs.evolve(DEFAULT.metrics_agent, **changes)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, DEFAULT, id="default"),
        pytest.param(
            {"daemonTolerations": [{"operator": "Exists"}]},
            attrs.evolve(DEFAULT, tolerations=(Toleration(None, "Exists", None, None, None),)),
            id="tolerations replace the default",
        ),
        pytest.param({"daemonTolerations": []}, attrs.evolve(DEFAULT, tolerations=()), id="no toleration"),
        pytest.param({"runtimeClassName": ""}, attrs.evolve(DEFAULT, runtime_class_name=""), id="empty runtime class"),
        pytest.param({"runtimeClassName": None}, attrs.evolve(DEFAULT, runtime_class_name=None), id="no runtime class"),
        pytest.param(
            {"config": {"nodeSelector": {"nvidia.com/gpu.present": None, "pool": "gpus"}}},
            attrs.evolve(DEFAULT, node_selector={"pool": "gpus"}),
            id="other nodes",
        ),
        pytest.param(
            {"fractioningAgent": {"logLevel": "debug", "failOpen": False, "maxRetries": 0, "retryInterval": "10s"}},
            attrs.evolve(
                DEFAULT,
                fractioning_agent=agent(log_level="debug", fail_open=False, max_retries=0, retry_interval_seconds=10.0),
            ),
            id="fractiond's options",
        ),
        pytest.param(
            {"fractioningAgent": {"retroactiveEnforcement": False}},
            attrs.evolve(DEFAULT, fractioning_agent=agent(retroactive_enforcement=False)),
            id="no enforcement afterwards",
        ),
        pytest.param(
            {"fractioningAgent": {"criSocketPath": "/run/custom/cri.sock"}},
            attrs.evolve(DEFAULT, fractioning_agent=agent(cri_socket_path="/run/custom/cri.sock")),
            id="a CRI socket",
        ),
        pytest.param(
            {"openshift": {"enabled": True}},
            attrs.evolve(DEFAULT, fractioning_agent=agent(cri_socket_path="/run/crio/crio.sock")),
            id="OpenShift has CRI-O's socket",
        ),
        pytest.param(
            {"openshift": {"enabled": True}, "fractioningAgent": {"criSocketPath": "/run/custom/cri.sock"}},
            attrs.evolve(DEFAULT, fractioning_agent=agent(cri_socket_path="/run/custom/cri.sock")),
            id="a CRI socket on OpenShift",
        ),
        pytest.param(
            {"metricsAgent": {"enabled": False}},
            attrs.evolve(DEFAULT, metrics_agent=metrics(enabled=False)),
            id="no metrics",
        ),
        pytest.param(
            {"metricsAgent": {"path": "/m", "logLevel": "warn", "metricNames": {"gpuMemoryUsedBytes": "used"}}},
            attrs.evolve(
                DEFAULT, metrics_agent=metrics(path="/m", log_level="warn", metric_names=MetricNames("used", "", ""))
            ),
            id="metricsd's options",
        ),
        pytest.param(
            {"mpsDaemon": {"maxRetries": 0, "gracefulStopDelay": "90s"}},
            attrs.evolve(DEFAULT, mps_daemon=MpsDaemon("", None, 0, None, 90.0)),
            id="mpsd's options, zero among them",
        ),
    ],
)
async def test_spec(given: Mapping[str, Any], expected: Spec, helm: Helm) -> None:
    """Values reach the resource, and the controller reads them."""
    assert expected == await spec(helm, given)


async def test_every_field(helm: Helm) -> None:
    """There is no field of the resource that the values cannot set."""
    given = yaml.safe_load((CHART / "ci/everything-values.yaml").read_text())

    found = await spec(helm, given)

    for section in ("fractioning_agent", "metrics_agent", "mps_daemon"):
        chosen, nothing = getattr(found, section), getattr(read(BARE).spec, section)
        assert [] == [name for name in attrs.asdict(chosen) if getattr(chosen, name) == getattr(nothing, name)]


BARE: Mapping[str, Any] = {
    "apiVersion": resource.API_VERSION,
    "kind": resource.KIND,
    "metadata": {"name": "default"},
    "spec": {"nodeSelector": {}, "fractioningAgent": {}, "metricsAgent": {}, "mpsDaemon": {}},
}


async def test_is_no_hook(helm: Helm) -> None:
    """An upgrade changes the resource in place: it is an ordinary part of the release."""
    manifest = find(await helm.template(), resource.KIND)

    assert "annotations" not in manifest["metadata"]


async def test_somebody_elses(helm: Helm) -> None:
    """Without config.create there is no resource, and nothing that would delete yours."""
    manifests = await helm.template({"config": {"create": False}})

    assert [] == [each for each in manifests if each["kind"] == resource.KIND]
    assert [] == [each for each in manifests if each["metadata"]["name"].endswith("config-remover")]
