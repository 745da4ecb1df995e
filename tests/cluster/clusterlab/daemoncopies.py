"""
A copy of a daemon's container, made from its DaemonSet's template with something taken from it, and what becomes of it.

It stands beside the daemon without being in its way: in a pod that is none of the DaemonSet's, with annotations of a
prefix of its own, and with directories of its own for records and for pipes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
from fractioning_core import names
from fractioning_core.errors import FractioningError
from lab import waiting
from prometheus_client.parser import text_string_to_metric_families

from clusterlab.release import FRACTIOND, MPSD, PODS, Release

PREFIX = "copy.example.com/container."
PIPE_DIRECTORY = "/run/copy-mps"
RECORDS = "/run/copy-map"
_SECONDS = 60.0
Template = dict[str, Any]
Change = Callable[[Template], None]


@attrs.frozen
class Copy:
    """
    A pod that runs, if only for as long as it can.
    """

    release: Release
    name: str

    async def says(self, port: int, path: str, text: str) -> str:
        """
        Wait until a page of it holds a text; gives the page.
        """
        last = ""

        async def told() -> str | None:
            nonlocal last
            last = await self._page(port, path)
            return last if text in last else None

        return await waiting.until_awaited(
            told, what=f"{text!r} on {path} of {self.name}", timeout_seconds=_SECONDS, details=lambda: last
        )

    async def shows(self, port: int, family: str, value: float, **labels: str) -> None:
        """
        Wait until its metrics have a sample with these labels and this value.
        """

        async def shown() -> bool:
            page = await self._page(port, "/metrics")
            if not page.startswith("#"):
                return False
            samples = [sample for one in text_string_to_metric_families(page) for sample in one.samples]
            found = [one.value for one in samples if one.name == family and labels.items() <= one.labels.items()]
            return found == [value]

        what = f"{family} {labels} of {self.name} to be {value}"
        await waiting.until_awaited(shown, what=what, timeout_seconds=_SECONDS)

    async def logs(self, container: str, text: str) -> None:
        """
        Wait until a container of it has logged a text.
        """

        async def told() -> bool:
            try:
                return text in await self.release.api.text(f"{PODS}/{self.name}/log", container=container)
            except FractioningError:
                return False

        await waiting.until_awaited(told, what=f"{text!r} in the log of {self.name}", timeout_seconds=_SECONDS)

    async def _page(self, port: int, path: str) -> str:
        try:
            return await self.release.api.text(f"{PODS}/{self.name}:{port}/proxy{path}")
        except FractioningError as error:
            # Not there yet; or a page that says no, whose text is the answer.
            return str(error)


@asynccontextmanager
async def made(release: Release, container: str, *changes: Change, node: str) -> AsyncIterator[Copy]:
    """
    Have a copy of a daemon's container in a pod of its own on a node while entered, changed in some way.
    """
    daemonset = MPSD if container == "mpsd" else FRACTIOND
    spec: Template = json.loads(json.dumps((await release.daemonset(daemonset))["spec"]["template"]["spec"]))
    spec["containers"] = [container_of(spec, container)]
    spec |= {"nodeName": node, "terminationGracePeriodSeconds": 1}
    for change in (_set_apart, *changes):
        change(spec)
    copy = Copy(release, f"{container}-copy")
    await release.api.create(PODS, {"metadata": {"name": copy.name}, "spec": spec})
    try:
        yield copy
    finally:
        await release.api.delete(f"{PODS}/{copy.name}", grace_seconds=1)
        await release.api.until_gone(f"{PODS}/{copy.name}", timeout_seconds=_SECONDS)
        for directory in (PIPE_DIRECTORY, RECORDS):
            shutil.rmtree(release.cluster.worker(node).files.run / directory.removeprefix("/run/"), ignore_errors=True)


def _set_apart(spec: Template) -> None:
    (container,) = spec["containers"]
    for probe in ("readinessProbe", "livenessProbe"):
        # Nothing is to happen to a copy that cannot work.
        container.pop(probe, None)
    match container["name"]:
        case "fractiond":
            container["args"] += [f"--annotation-prefix={PREFIX}", "--plugin-name=copy", "--plugin-idx=11"]
            # It keeps the directory as it sees fit, and would remove the records of the other.
            _volume(spec, "map-dir")["hostPath"]["path"] = RECORDS
        case "mpsd":
            container["env"].append({"name": names.ENV_MPS_PIPE_DIRECTORY, "value": PIPE_DIRECTORY})
            _volume(spec, "mps-pipe")["hostPath"]["path"] = PIPE_DIRECTORY
            mount = next(each for each in container["volumeMounts"] if each["name"] == "mps-pipe")
            mount["mountPath"] = PIPE_DIRECTORY


def _volume(spec: Template, name: str) -> Template:
    found: Template = next(each for each in spec["volumes"] if each["name"] == name)
    return found


def container_of(spec: Template, name: str) -> Template:
    """
    Give a container of a pod.
    """
    found: Template = next(each for each in spec["containers"] if each["name"] == name)
    return found


def without_mount(volume: str) -> Change:
    """
    Take a volume from the container.
    """

    def change(spec: Template) -> None:
        (found,) = spec["containers"]
        found["volumeMounts"] = [each for each in found["volumeMounts"] if each["name"] != volume]

    return change


def read_only(volume: str) -> Change:
    """
    Let the container only read a volume.
    """

    def change(spec: Template) -> None:
        for mount in spec["containers"][0]["volumeMounts"]:
            if mount["name"] == volume:
                mount["readOnly"] = True

    return change


def with_security(**fields: Any) -> Change:  # noqa: ANN401 - fields of core/v1
    """
    Put another security context in place of the container's.
    """

    def change(spec: Template) -> None:
        spec["containers"][0]["securityContext"] = fields

    return change


def without(field: str) -> Change:
    """
    Take a field from the pod.
    """

    def change(spec: Template) -> None:
        spec.pop(field)

    return change
