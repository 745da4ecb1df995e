"""What users may write into values, and what they are told when it is something else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from apilab.helm import CHART, Helm
from lab.errors import CommandFailed

DEFAULTS = {
    "global": {"fipsMode": "off"},
    "replicaCount": 1,
    "leaderElect": True,
    "imagePullSecrets": [],
    "nameOverride": "",
    "fullnameOverride": "",
    "runtimeClassName": "nvidia",
    "daemonTolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "supportSmSharing": True,
    "skipGpuStackVersionChecks": False,
    "mpsd": {"auditLog": True},
    "fractioningAgent": {"criSocketPath": ""},
    "metricsAgent": {"enabled": True, "metricNames": {}},
    "serviceAccount": {"create": True, "name": "", "annotations": {}},
    "daemonServiceAccount": {"create": True, "name": "", "annotations": {}},
    "openshift": {"enabled": "auto", "securityContextConstraints": {"create": True, "name": ""}},
    "metrics": {"enabled": True, "port": 8080},
    "prometheus": {"enabled": False, "interval": "30s", "scrapeTimeout": "10s", "additionalLabels": {}},
    "nodeSelector": {},
    "tolerations": [],
    "affinity": {},
}
RESOURCES = {
    "limits": {"cpu": "500m", "memory": "128Mi"},
    "requests": {"cpu": "100m", "memory": "64Mi", "ephemeral-storage": "100Mi"},
}


def values() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return found


class TestDefaults:
    def test_what_users_rely_on(self) -> None:
        """The documented values have the documented defaults."""
        found = values()

        assert {name: found[name] for name in DEFAULTS} == DEFAULTS

    @pytest.mark.parametrize("name", ["operator", "fractiond", "metricsd", "mpsd"])
    def test_image(self, name: str) -> None:
        """An image comes from the project's registry, at the chart's own version."""
        expected = {
            "repository": f"ghcr.io/kai-scheduler/gpu-fractioning/{name}",
            "tag": "",
            "pullPolicy": "IfNotPresent",
        }

        assert expected == values()["images"][name]

    def test_resources(self) -> None:
        """Controller and hooks ask for the same."""
        found = values()

        assert [RESOURCES] * 3 == [
            found["resources"]["operator"],
            found["crdUpgrader"]["resources"],
            found["configRemover"]["resources"],
        ]


class TestRefused:
    @pytest.mark.parametrize(
        ("given", "told"),
        [
            pytest.param({"replicacount": 2}, "additional properties 'replicacount' not allowed", id="at the top"),
            pytest.param(
                {"fractioningAgent": {"failopen": True}},
                "at '/fractioningAgent': additional properties 'failopen' not allowed",
                id="in a section of the resource",
            ),
            pytest.param(
                {"images": {"mpsd": {"tga": "v1"}}},
                "at '/images/mpsd': additional properties 'tga' not allowed",
                id="of an image",
            ),
            pytest.param(
                {"resources": {"limits": {"cpu": 1}}},
                "at '/resources': additional properties 'limits' not allowed",
                id="one level too high",
            ),
            pytest.param(
                {"daemonTolerations": [{"keys": "a"}]},
                "at '/daemonTolerations/0': additional properties 'keys' not allowed",
                id="in a list",
            ),
            pytest.param(
                {"global": {"fipsmode": "only"}},
                "global.fipsmode is no value of this chart; accepted: global.fipsMode",
                id="among what charts share",
            ),
        ],
    )
    async def test_misspelt(self, given: Mapping[str, Any], told: str, helm: Helm) -> None:
        """A misspelt value is refused by its name, with its place."""
        with pytest.raises(CommandFailed) as caught:
            await helm.template(given)

        assert told in caught.value.output

    @pytest.mark.parametrize(
        ("given", "told"),
        [
            pytest.param(
                {"mpsDaemon": {"logLevel": "verbose"}},
                "at '/mpsDaemon/logLevel': value must be one of '', 'debug', 'info', 'warn', 'error'",
                id="a level that the daemons do not know",
            ),
            pytest.param(
                {"replicaCount": "two"}, "at '/replicaCount': got string, want integer", id="a text for a number"
            ),
            pytest.param(
                {"openshift": {"enabled": "maybe"}},
                "at '/openshift/enabled': value must be one of 'auto', true, false, 'true', 'false'",
                id="a choice that is none",
            ),
            pytest.param(
                {"config": {"nodeSelector": {"nvidia.com/gpu.present": True}}},
                "got boolean, want string",
                id="a label without quotes",
            ),
            pytest.param(
                {"config": {"nodeSelector": None}}, "at '/config': missing property 'nodeSelector'", id="no selector"
            ),
            pytest.param(
                {"replicaCount": 2, "leaderElect": False},
                "replicaCount is 2 without leaderElect, and two controllers at work would undo each other; "
                "accepted: leaderElect=true, or replicaCount=1",
                id="two controllers that do not know of each other",
            ),
            pytest.param(
                {"metrics": {"port": 8081}},
                "metrics.port is 8081, where the controller serves health; accepted: any other port",
                id="one port for two servers",
            ),
            pytest.param(
                {"fullnameOverride": "GPUs"},
                'fullnameOverride is "GPUs", and objects cannot be called so; accepted: lower-case letters, digits and '
                "dashes, a letter first and no dash last",
                id="a name in capitals",
            ),
            pytest.param(
                {"nameOverride": "gpus_"}, 'nameOverride is "gpus_", and objects cannot', id="a name with an underscore"
            ),
            pytest.param(
                {"images": {"mpsd": {"tag": "v1/2"}}},
                'images.mpsd.tag makes the tag "v1/2"; accepted: up to 128 letters, digits, underscores, dots and '
                "dashes, neither dot nor dash first",
                id="a tag with a slash",
            ),
            pytest.param(
                {"global": {"fipsMode": "on"}, "images": {"operator": {"tag": "a" * 128}}},
                f'images.operator.tag makes the tag "{"a" * 128}-fips"; accepted: up to 128',
                id="a tag that FIPS makes too long",
            ),
            pytest.param(
                {"prometheus": {"interval": "1m", "scrapeTimeout": "61s"}},
                "prometheus.scrapeTimeout is 61s and prometheus.interval 1m, and no scrape may outlast the interval; "
                "accepted: a scrapeTimeout up to the interval",
                id="a scrape longer than the time between two",
            ),
            pytest.param(
                {"metricsAgent": {"address": "127.0.0.1:2112"}},
                'metricsAgent.address is "127.0.0.1:2112", where nobody outside the pod can scrape it; accepted: an '
                "address such as :2112, or metricsAgent.enabled=false",
                id="metrics for the pod itself",
            ),
            pytest.param(
                {"metricsAgent": {"address": "[::1]:2112"}}, 'address is "[::1]:2112", where nobody', id="and with IPv6"
            ),
            pytest.param(
                {"metricsAgent": {"address": ":8093"}},
                'metricsAgent.address is ":8093", and fractiond\'s probes are served at port 8093 of the same pod; '
                "accepted: two different ports in metricsAgent.address and fractioningAgent.readinessPort",
                id="one port for metricsd and fractiond",
            ),
            pytest.param(
                {"fractioningAgent": {"readinessPort": 2112}},
                'metricsAgent.address is ":2112", and fractiond\'s probes are served at port 2112',
                id="one port by a default",
            ),
        ],
    )
    async def test_unusable(self, given: Mapping[str, Any], told: str, helm: Helm) -> None:
        """An unusable value is refused with its place and what would be accepted."""
        with pytest.raises(CommandFailed) as caught:
            await helm.template(given)

        assert told in caught.value.output


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"prometheus": {"interval": "60s", "scrapeTimeout": "1m"}}, id="a scrape as long as the interval"),
        pytest.param({"prometheus": {"interval": "1s", "scrapeTimeout": "999ms"}}, id="other units"),
        pytest.param({"metricsAgent": {"enabled": False, "address": ":8093"}}, id="a port that nobody uses"),
        pytest.param({"metricsAgent": {"address": "0.0.0.0:9400"}}, id="metrics on all addresses"),
        pytest.param({"images": {"mpsd": {"tag": "a" * 128}}}, id="a tag as long as may be"),
        pytest.param({"nameOverride": "gpus-2"}, id="a name"),
        pytest.param({"priorityClassName": None, "daemonPriorityClassName": None}, id="no priorities"),
    ],
)
async def test_usable(given: Mapping[str, Any], helm: Helm) -> None:
    """What is next to unusable is taken."""
    assert await helm.template(given)


async def test_shared_values(helm: Helm) -> None:
    """What a parent chart shares with all its charts disturbs nothing."""
    plain = await helm.template()

    assert plain == await helm.template({"global": {"imageRegistry": "registry.example"}})


class TestSchema:
    def test_is_closed(self) -> None:
        """Every object of the schema says which keys it takes."""
        schema = yaml.safe_load((CHART / "values.schema.json").read_text())

        # `global` belongs to all charts; the others are Kubernetes' own shapes.
        free = {"global", "affinity", "networkPolicy.metricsFrom[]", "metricsAgent.volumes[]"}
        assert free | {"metricsAgent.volumeMounts[]"} == set(open_objects(schema, schema, ""))

    def test_says_what_each_is_for(self) -> None:
        """Every value that is not a section has a description."""
        schema = yaml.safe_load((CHART / "values.schema.json").read_text())

        assert [] == list(undescribed(schema, schema, ""))


def resolved(schema: Mapping[str, Any], part: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = part.get("$ref")
    return schema["definitions"][reference.rpartition("/")[2]] if reference else part


def open_objects(schema: Mapping[str, Any], part: Mapping[str, Any], path: str) -> list[str]:
    part = resolved(schema, part)
    found = [path] if part.get("type") == "object" and "additionalProperties" not in part else []
    for name, field in part.get("properties", {}).items():
        found += open_objects(schema, field, f"{path}.{name}".lstrip("."))
    if "items" in part:
        found += open_objects(schema, part["items"], f"{path}[]")
    return found


def undescribed(schema: Mapping[str, Any], part: Mapping[str, Any], path: str) -> list[str]:
    whole = resolved(schema, part)
    if "properties" not in whole:
        return [] if part.get("description") else [path]
    found = []
    for name, field in whole["properties"].items():
        found += undescribed(schema, field, f"{path}.{name}".lstrip("."))
    return found
