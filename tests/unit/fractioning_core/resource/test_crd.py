from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml
from fractioning_core.resource import crd, sections
from fractioning_core.resource.spec import FractioningAgent, MetricNames, MetricsAgent, MpsDaemon, Spec, Toleration
from fractioning_core.resource.status import Condition, Status

REPOSITORY = Path(__file__).parents[4]
CHART_COPY = REPOSITORY / "deploy/helm/gpu-fractioning/crds/gpu-fractioning.kai.scheduler_gpufractioningconfigs.yaml"
TYPES = (Spec, Toleration, FractioningAgent, MetricsAgent, MetricNames, MpsDaemon, Status, Condition)

MANIFEST = crd.manifest()
VERSION = MANIFEST["spec"]["versions"][0]
SCHEMA = VERSION["schema"]["openAPIV3Schema"]
SPEC = SCHEMA["properties"]["spec"]


def iter_schemas(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Go through a schema and all that are inside of it."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from iter_schemas(inner, f"{path}.{name}")
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if key in schema:
            yield from iter_schemas(schema[key], path + mark)


class TestIdentity:
    def test_names(self) -> None:
        """The kind is cluster-scoped, with one version that is served and stored."""
        spec = MANIFEST["spec"]

        assert "gpufractioningconfigs.gpu-fractioning.kai.scheduler" == MANIFEST["metadata"]["name"]
        assert ("gpu-fractioning.kai.scheduler", "Cluster") == (spec["group"], spec["scope"])
        assert {
            "kind": "GpuFractioningConfig",
            "listKind": "GpuFractioningConfigList",
            "plural": "gpufractioningconfigs",
            "singular": "gpufractioningconfig",
            "shortNames": ["gfc"],
        } == spec["names"]
        assert [("v1alpha1", True, True, {"status": {}})] == [
            (version["name"], version["served"], version["storage"], version["subresources"])
            for version in spec["versions"]
        ]

    def test_status(self) -> None:
        """The definition itself has no status, which would be that of another cluster."""
        assert {"apiVersion", "kind", "metadata", "spec"} == MANIFEST.keys()

    def test_columns(self) -> None:
        """A list shows whether and why, for the whole and for each daemon."""
        assert ["Ready", "Reason", "Fractiond", "Mpsd", "Age"] == [
            column["name"] for column in VERSION["additionalPrinterColumns"]
        ]


class TestSchema:
    def test_required(self) -> None:
        """Only the node selector must be there."""
        required = {path: schema["required"] for path, schema in iter_schemas(SCHEMA) if "required" in schema}
        ours = {path: names for path, names in required.items() if ".volume" not in path}

        assert {
            "": ["spec"],
            ".spec": ["nodeSelector"],
            ".status.conditions[]": ["type", "status", "reason", "message", "lastTransitionTime"],
        } == ours

    def test_defaults(self) -> None:
        """The API server puts one value: enforcement where there is a fractioningAgent."""
        defaults = {path: schema["default"] for path, schema in iter_schemas(SCHEMA) if "default" in schema}

        assert {".spec.fractioningAgent.retroactiveEnforcement": True} == defaults

    def test_types(self) -> None:
        """Every field has the type that its users rely on."""
        types = {
            path.removeprefix(".spec."): schema["type"]
            for path, schema in iter_schemas(SPEC, ".spec")
            if ".volume" not in path
        }

        assert {
            ".spec": "object",
            "nodeSelector": "object",
            "nodeSelector{}": "string",
            "tolerations": "array",
            "tolerations[]": "object",
            "tolerations[].key": "string",
            "tolerations[].operator": "string",
            "tolerations[].value": "string",
            "tolerations[].effect": "string",
            "tolerations[].tolerationSeconds": "integer",
            "runtimeClassName": "string",
            "fractioningAgent": "object",
            "fractioningAgent.annotationPrefix": "string",
            "fractioningAgent.failOpen": "boolean",
            "fractioningAgent.nriSocketPath": "string",
            "fractioningAgent.retroactiveEnforcement": "boolean",
            "fractioningAgent.criSocketPath": "string",
            "fractioningAgent.logLevel": "string",
            "fractioningAgent.retryInterval": "string",
            "fractioningAgent.stableThreshold": "string",
            "fractioningAgent.maxRetries": "integer",
            "fractioningAgent.readinessPort": "integer",
            "metricsAgent": "object",
            "metricsAgent.enabled": "boolean",
            "metricsAgent.logLevel": "string",
            "metricsAgent.address": "string",
            "metricsAgent.path": "string",
            "metricsAgent.metricNames": "object",
            "metricsAgent.metricNames.gpuMemoryUsedBytes": "string",
            "metricsAgent.metricNames.gpuSmUtilizationPercent": "string",
            "metricsAgent.metricNames.gpuSmUtilizationPercentNormalized": "string",
            "mpsDaemon": "object",
            "mpsDaemon.logLevel": "string",
            "mpsDaemon.backoff": "string",
            "mpsDaemon.maxRetries": "integer",
            "mpsDaemon.stableThreshold": "string",
            "mpsDaemon.gracefulStopDelay": "string",
        } == types

    def test_rules(self) -> None:
        """The singleton and the immutable selector are told in the words that others look for."""
        by_rule = {
            rule["rule"]: rule["message"]
            for schema in (SCHEMA, SPEC["properties"]["nodeSelector"])
            for rule in schema["x-kubernetes-validations"]
        }

        assert "must be named 'default'" in by_rule["self.metadata.name == 'default'"]
        assert "nodeSelector is immutable" in by_rule["self == oldSelf"]

    def test_lists(self) -> None:
        """Every list of the spec has one owner; the conditions say nothing of owners."""
        marks = {
            path: schema.get("x-kubernetes-list-type")
            for path, schema in iter_schemas(SCHEMA)
            if schema.get("type") == "array"
        }

        assert {path: None if path == ".status.conditions" else "atomic" for path in marks} == marks

    @pytest.mark.parametrize("cls", TYPES, ids=lambda cls: cls.__name__)
    def test_declared(self, cls: type[attrs.AttrsInstance]) -> None:
        """Every attribute of a type is a field of the schema, with one sentence about it."""
        declared = sections.declared(cls)

        assert [field.name for field in attrs.fields(cls)] == list(declared)
        assert [] == [field.name for field in declared.values() if not 10 < len(field.description) < 200]


class TestChart:
    def test_copy(self) -> None:
        """The chart has the definition that is built from the types."""
        assert MANIFEST == yaml.safe_load(CHART_COPY.read_text())
