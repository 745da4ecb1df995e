from __future__ import annotations

import pytest
from fractioning_core.resource import volumes
from fractioning_core.resource.kinds import Problems


class TestVolume:
    @pytest.mark.parametrize(
        "value",
        [
            pytest.param({"name": "a"}, id="no source"),
            pytest.param({"name": "a", "hostPath": {"path": "/lib", "type": "Directory"}}, id="host path"),
            pytest.param({"name": "a", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}, id="quantity"),
            pytest.param({"name": "a", "configMap": {"items": [{"key": "k", "path": "p", "mode": 420}]}}, id="items"),
            pytest.param({"name": "a", "csi": {"driver": "d", "volumeAttributes": {"k": "v"}}}, id="attributes"),
            pytest.param({"name": "a", "novel": {"x": 1}}, id="source of a later Kubernetes"),
            pytest.param({"name": "a", "secret": None}, id="null"),
        ],
    )
    def test_taken(self, value: dict[str, object]) -> None:
        """A volume of Kubernetes' shape is passed on as it is."""
        problems: Problems = []
        read = volumes.kind("Volume").read(value, "here", problems)

        assert (value, []) == (read, problems)

    @pytest.mark.parametrize(
        ("value", "path", "reason"),
        [
            pytest.param("a", "here", "is not an object", id="text"),
            pytest.param({}, "here.name", "is missing", id="no name"),
            pytest.param({"name": 1}, "here.name", "is not a text", id="number for the name"),
            pytest.param({"name": "a", "hostPath": {}}, "here.hostPath.path", "is missing", id="no path"),
            pytest.param(
                {"name": "a", "secret": {"defaultMode": 2**31}}, "here.secret.defaultMode", "is out of range", id="mode"
            ),
            pytest.param(
                {"name": "a", "configMap": {"items": [{"key": "k"}]}},
                "here.configMap.items[0].path",
                "is missing",
                id="depth",
            ),
            pytest.param(
                {"name": "a", "emptyDir": {"sizeLimit": "much"}},
                "here.emptyDir.sizeLimit",
                "is not a quantity",
                id="quantity",
            ),
        ],
    )
    def test_refused(self, value: object, path: str, reason: str) -> None:
        """What is not of the shape is told where it stands."""
        problems: Problems = []
        volumes.kind("Volume").read(value, "here", problems)

        assert [(path, reason)] == [(problem.path, problem.reason) for problem in problems]

    def test_schema(self) -> None:
        """References that one writer owns whole are marked, required fields are named, metadata is kept."""
        properties = volumes.kind("Volume").schema["properties"]

        reference = properties["csi"]["properties"]["nodePublishSecretRef"]
        assert "atomic" == reference["x-kubernetes-map-type"]
        assert ["driver"] == properties["csi"]["required"]
        template = properties["ephemeral"]["properties"]["volumeClaimTemplate"]["properties"]
        assert {"annotations", "labels"} == template["metadata"]["properties"].keys()
