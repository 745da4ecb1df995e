"""Which images run, in which FIPS mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from apilab.helm import Helm, Manifest, find
from lab.errors import CommandFailed

DAEMONS = ("fractiond", "metricsd", "mpsd")


def container(manifests: list[Manifest], kind: str = "Deployment", name: str = "") -> Mapping[str, Any]:
    found: Mapping[str, Any] = find(manifests, kind, name)["spec"]["template"]["spec"]["containers"][0]
    return found


def variables(one: Mapping[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in one["env"] if "value" in each}


def tags(manifests: list[Manifest]) -> list[str]:
    controller = container(manifests)
    found = variables(controller)
    return [controller["image"].rpartition(":")[2], *(found[f"{name.upper()}_IMAGE_TAG"] for name in DAEMONS)]


PINNED = {"images": {"operator": {"tag": "v9.9.9"}, "mpsd": {"tag": "v8.8.8"}}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, ["0.1.0", "0.1.0", "0.1.0", "0.1.0"], id="default"),
        pytest.param({"global": {"fipsMode": "on"}}, ["0.1.0-fips", "0.1.0-fips", "0.1.0-fips", "0.1.0-fips"], id="on"),
        pytest.param(
            {"global": {"fipsMode": "only"}}, ["0.1.0-fips", "0.1.0-fips", "0.1.0-fips", "0.1.0-fips"], id="only"
        ),
        pytest.param(
            {"global": {"fipsMode": "on"}, **PINNED},
            ["v9.9.9-fips", "0.1.0-fips", "0.1.0-fips", "v8.8.8-fips"],
            id="on and pinned",
        ),
        pytest.param(PINNED, ["v9.9.9", "0.1.0", "0.1.0", "v8.8.8"], id="off and pinned"),
        pytest.param({"global": {"fipsMode": False}}, ["0.1.0"] * 4, id="off without quotes, a boolean in YAML"),
    ],
)
async def test_tags(given: Mapping[str, Any], expected: list[str], helm: Helm) -> None:
    """Every image has its own tag or the chart's, with a suffix in the FIPS modes."""
    assert expected == tags(list(await helm.template(given)))


@pytest.mark.parametrize("mode", ["off", "on", "only"])
async def test_mode(mode: str, helm: Helm) -> None:
    """The controller and every hook are told the mode, and nothing that only other languages read."""
    manifests = list(await helm.template({"global": {"fipsMode": mode}}))

    programs = [container(manifests), *(container([job], "Job") for job in manifests if job["kind"] == "Job")]
    assert [mode] * 3 == [variables(each)["FIPS_MODE"] for each in programs]


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        pytest.param("enabled", 'global.fipsMode must be "off", "on" or "only", got "enabled"', id="another word"),
        pytest.param(True, 'global.fipsMode must be "off", "on" or "only", got "true"', id="on without quotes"),
    ],
)
async def test_refused(mode: object, told: str, helm: Helm) -> None:
    """A mode that is none is refused with those that are."""
    with pytest.raises(CommandFailed) as caught:
        await helm.template({"global": {"fipsMode": mode}})

    assert told in caught.value.output
