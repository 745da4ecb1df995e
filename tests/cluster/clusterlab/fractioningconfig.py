"""
The GpuFractioningConfig of a release: changed and put back, or deleted and made anew.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
from fractioning_core import resource
from fractioning_core.kube.errors import Conflict
from fractioning_core.kube.transport import Request

from clusterlab import client, release
from clusterlab.client import Object
from clusterlab.placement import NODE_CONDITION
from clusterlab.release import CONFIG, CONFIGS, DAEMONSETS, FRACTIOND, MPSD, Release

_GONE_SECONDS = 120.0


@attrs.frozen
class Snapshot:
    """
    The resource as the chart made it.
    """

    metadata: Object
    spec: Object

    @classmethod
    def of(cls, found: Object) -> Snapshot:
        """
        Take one of the object as it is.
        """
        # What makes it helm's own, but nothing that the API server keeps.
        kept = {key: found["metadata"][key] for key in ("labels", "annotations") if key in found["metadata"]}
        return cls(kept, found["spec"])

    def manifest(self, **spec: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of the resource
        """
        Give a manifest, with fields of the spec changed.
        """
        return {
            "apiVersion": resource.API_VERSION,
            "kind": resource.KIND,
            "metadata": {**self.metadata, "name": resource.NAME},
            "spec": {**self.spec, **spec},
        }


@asynccontextmanager
async def changed(to: Release, **spec: Mapping[str, Any]) -> AsyncIterator[Snapshot]:
    """
    Merge fields into sections of the spec while entered; then put back what was, and wait until all is steady.
    """
    before = Snapshot.of(await to.config())
    try:
        await to.api.patch(CONFIG, {"spec": dict(spec)})
        yield before
    finally:
        await _put_back(to, before)
        await to.steady()


async def removed(from_: Release) -> Snapshot:
    """
    Delete the resource, and wait until daemons and conditions are gone, too; gives what it was.
    """
    before = Snapshot.of(await from_.config())
    await from_.api.delete(CONFIG)
    await from_.api.until_gone(CONFIG, timeout_seconds=_GONE_SECONDS)
    await cleaned(from_)
    return before


async def cleaned(release_: Release) -> None:
    """
    Wait until there is nothing of the daemons: no DaemonSet, no pod, no condition on a node.
    """
    for name in (FRACTIOND, MPSD):
        await release_.api.until_gone(f"{DAEMONSETS}/{name}", timeout_seconds=_GONE_SECONDS)
        for pod in await release_.pods(name):
            await release_.api.until_gone(f"{release.PODS}/{pod['metadata']['name']}", timeout_seconds=_GONE_SECONDS)
    for worker in release_.cluster.workers:
        await release_.api.until(
            f"{client.NODES}/{worker.name}",
            lambda node: client.condition(node, NODE_CONDITION) is None,
            what=f"no {NODE_CONDITION} on {worker.name}",
            timeout_seconds=_GONE_SECONDS,
        )


async def create(in_: Release, manifest: Object, **query: str) -> Object:
    """
    Make the resource.
    """
    return await in_.api.create(CONFIGS, manifest, **query)


async def _put_back(to: Release, before: Snapshot) -> None:
    while True:
        found = await to.config()
        try:
            await to.api.api.ask(Request("PUT", CONFIG, body={**found, "spec": before.spec}))
        except Conflict:
            # The controller wrote its status in between.
            continue
        return
