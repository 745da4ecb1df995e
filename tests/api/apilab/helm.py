"""
The real helm and the chart, for a cluster of the lab.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from lab import toolchain
from lab.errors import CommandFailed

from apilab.controlplane import program

CHART = toolchain.REPOSITORY / "deploy" / "helm" / "gpu-fractioning"
RELEASE = "gpu-fractioning"
NAMESPACE = "gpu-fractioning"
# Hooks run our own programs, which start within a second.
_WAIT_SECONDS = 60

Manifest = Mapping[str, Any]


class Helm:
    """
    Helm for one release of the chart.

    Args:
        kubeconfig: The way into the cluster.
        directory: Where values files and its own state go.
        release: Name of the release.
        namespace: Where it is installed.
    """

    def __init__(
        self, kubeconfig: Path, *, directory: Path, release: str = RELEASE, namespace: str = NAMESPACE
    ) -> None:
        self._program = program("helm", "helm")
        self._kubeconfig = kubeconfig
        self._directory = directory
        self._release = release
        self._namespace = namespace
        self._files = 0

    async def install(self, values: Manifest | None = None, *flags: str) -> None:
        """
        Install the release, hooks and all, into a namespace of its own.
        """
        await self._change("install", self._release, CHART, "--create-namespace", *self._values(values), *flags)

    async def upgrade(self, values: Manifest | None = None, *flags: str) -> None:
        """
        Upgrade it, with the values of before where none are given.
        """
        chosen = self._values(values) if values is not None else ["--reuse-values"]
        await self._change("upgrade", self._release, CHART, *chosen, *flags)

    async def rollback(self, revision: int) -> None:
        """
        Go back to an earlier revision.
        """
        await self._change("rollback", self._release, str(revision))

    async def uninstall(self) -> None:
        """
        Remove it.
        """
        await self._change("uninstall", self._release)

    async def template(self, values: Manifest | None = None, *flags: str) -> Sequence[Manifest]:
        """
        Render the chart's templates, without those of `crds/`.
        """
        text = await self.run("template", self._release, CHART, *self._values(values), *flags)
        return parse(text)

    async def manifest(self) -> Sequence[Manifest]:
        """
        Read the objects of the release as installed.
        """
        return parse(await self.run("get", "manifest", self._release))

    async def values(self) -> Manifest:
        """
        Read the values that the release was given.
        """
        found: Manifest = json.loads(await self.run("get", "values", self._release, "--output=json")) or {}
        return found

    async def run(self, *arguments: str | Path) -> str:
        """
        Run helm; gives its standard output.

        Raises:
            CommandFailed: It said no.
        """
        argv = (str(self._program), *map(str, arguments), f"--namespace={self._namespace}")
        state = {f"HELM_{name}_HOME": str(self._directory / "helm" / name) for name in ("CACHE", "CONFIG", "DATA")}
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **state, "KUBECONFIG": str(self._kubeconfig)},
        )
        output, errors = await process.communicate()
        if process.returncode:
            raise CommandFailed(argv, process.returncode, errors.decode(errors="replace"))
        return output.decode()

    async def _change(self, *arguments: str | Path) -> None:
        await self.run(*arguments, f"--timeout={_WAIT_SECONDS}s")

    def _values(self, values: Manifest | None) -> list[str]:
        if not values:
            return []
        self._files += 1
        path = self._directory / f"values-{self._files}.json"
        path.write_text(json.dumps(values))
        return [f"--values={path}"]


def parse(text: str) -> Sequence[Manifest]:
    """
    Parse the objects in helm's output.
    """
    return [each for each in yaml.safe_load_all(text) if each]


def find(manifests: Sequence[Manifest], kind: str, name: str = "") -> Manifest:
    """
    Find an object by its kind, and its name where there are several.

    Raises:
        LookupError: There is not exactly one.
    """
    found = [each for each in manifests if each["kind"] == kind and name in {"", each["metadata"]["name"]}]
    if len(found) != 1:
        raise LookupError(f"{len(found)} {kind} {name}".rstrip())
    return found[0]
