"""
A release's life from the packed chart: installed, upgraded, rolled back and uninstalled, with fractional pods running.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from apilab.helm import CHART, NAMESPACE, RELEASE
from fractioning_core import resource

from clusterlab import departure, inventory, tenancy
from clusterlab.release import DEPLOYMENT, FRACTIOND, MPSD, READY_SECONDS, Release
from clusterlab.spells import Spell

BOTH = (FRACTIOND, MPSD)
NEWER = "99.0.0"
VALUES: Mapping[str, Mapping[str, str]] = {"fractioningAgent": {"logLevel": "warn"}, "mpsDaemon": {"backoff": "3s"}}
CHANGE = {"fractioningAgent": {"logLevel": "debug"}}
_LEASE_NAME = "gpu-fractioning.kai.scheduler"
_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{_LEASE_NAME}"
KEPT = {
    # Helm leaves a definition and a namespace where they are,
    f"customresourcedefinitions {resource.PLURAL}.{resource.GROUP}",
    f"apiservices {resource.VERSION}.{resource.GROUP}",
    f"namespaces {NAMESPACE}",
    # which have these for as long as they live.
    f"configmaps {NAMESPACE}/kube-root-ca.crt",
    f"serviceaccounts {NAMESPACE}/default",
}
# What is not to happen is given so long.
_QUIET_SECONDS = 5.0


@attrs.frozen
class State:
    """
    What there is of a release at one time.

    Args:
        chart: Name and version of the chart.
        values: What helm was given.
        config: The UID of the resource.
        spec: Of the resource.
        containers: The ids of the containers of each daemon, by node.
    """

    chart: str
    values: Mapping[str, Any]
    config: str
    spec: Mapping[str, Any]
    containers: Mapping[str, Mapping[str, Sequence[str]]]

    def of(self, daemon: str) -> set[str]:
        """
        Give the ids of all containers of a daemon.
        """
        return {each for found in self.containers[daemon].values() for each in found}


@attrs.frozen
class Life:
    """
    What was seen.

    Args:
        ready_seconds: From the call of helm until everything was Ready.
        installed: At first.
        upgraded: After an upgrade to a newer chart, with the values kept.
        changed: After one that changes what fractiond logs.
        rolled_back: After the rollback of that.
        spells: Times of tenants' containers without their fence.
        ended: Pods of tenants whose container has not lived through all of it.
        left: What was not there before the installation and was after its end.
        mentioning: Everything in the cluster that has the product's name anywhere, after its end.
    """

    ready_seconds: float
    installed: State
    upgraded: State
    changed: State
    rolled_back: State
    spells: Sequence[Spell]
    ended: set[str]
    left: set[str]
    mentioning: set[str]


async def live(release: Release, directory: Path) -> Life:
    """
    Live it.
    """
    chart, newer = await _package(release, directory / "chart"), await _package(release, directory / "newer", NEWER)
    await departure.erase(release)
    before = await inventory.take(release.api)
    begun = asyncio.get_running_loop().time()
    await release.helm().run("install", RELEASE, chart, "--create-namespace", *_values(directory, VALUES))
    await release.steady()
    ready_seconds = asyncio.get_running_loop().time() - begun
    first = await _look(release)
    async with tenancy.of(release) as tenants:
        await release.helm().run("upgrade", RELEASE, newer, "--reuse-values")
        upgraded = await _settled(release, "warn")
        await tenants.another("upgraded")
        await release.helm().run("upgrade", RELEASE, newer, "--reuse-values", *_values(directory, CHANGE))
        changed = await _settled(release, "debug")
        await tenants.another("changed")
        await release.helm().rollback(2)
        rolled_back = await _settled(release, "warn")
        await tenants.another("rolled-back")
    await departure.uninstall(release)
    after = await _only(release, KEPT | before.keys())
    return Life(
        ready_seconds=ready_seconds,
        installed=first,
        upgraded=upgraded,
        changed=changed,
        rolled_back=rolled_back,
        spells=tenants.spells,
        ended=tenants.ended,
        left=after.keys() - before.keys(),
        mentioning=inventory.mentions(after, "gpu-fractioning"),
    )


async def _package(release: Release, directory: Path, version: str = "") -> Path:
    """
    Pack the chart; gives the archive.
    """
    await release.helm().run(
        "package", CHART, f"--destination={directory}", *([f"--version={version}"] if version else [])
    )
    (archive,) = directory.glob("*.tgz")
    return archive


def _values(directory: Path, of_chart: Mapping[str, Any]) -> list[str]:
    """
    Give the arguments by which helm takes these values.
    """
    path = directory / "values.json"
    path.write_text(json.dumps(of_chart))
    return [f"--values={path}"]


async def _look(release: Release) -> State:
    """
    Take down what there is.
    """
    (listed,) = json.loads(await release.helm().run("list", f"--filter=^{RELEASE}$", "--output=json"))
    config = await release.config()
    containers = {
        name: {pod["spec"]["nodeName"]: _container_ids(pod) for pod in await release.pods(name)} for name in BOTH
    }
    return State(
        chart=listed["chart"],
        values=await release.helm().values(),
        config=config["metadata"]["uid"],
        spec=config["spec"],
        containers=containers,
    )


async def _settled(release: Release, level: str) -> State:
    """
    Wait until the controller leads whose Deployment is the newest, fractiond logs at a level, and nothing moves.
    """
    await release.api.until(
        DEPLOYMENT,
        lambda one: (
            one["status"].get("observedGeneration") == one["metadata"]["generation"]
            and one["status"].get("replicas") == one["status"].get("updatedReplicas") == 1
            and one["status"].get("availableReplicas") == 1
        ),
        what="the controller",
        timeout_seconds=READY_SECONDS,
    )
    alive = {pod["metadata"]["name"] for pod in await release.pods() if "deletionTimestamp" not in pod["metadata"]}
    await release.api.until(
        _LEASE, lambda one: one["spec"]["holderIdentity"] in alive, what="a leader", timeout_seconds=READY_SECONDS
    )
    await release.has_argument(FRACTIOND, level)
    await release.steady()
    await asyncio.sleep(_QUIET_SECONDS)
    await release.steady()
    return await _look(release)


async def _only(release: Release, expected: set[str]) -> dict[str, Any]:
    """
    Wait for the garbage collection, until there is nothing but what is expected; gives what there is.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + READY_SECONDS
    while True:
        found = await inventory.take(release.api)
        if found.keys() <= expected or loop.time() > deadline:
            return found
        await asyncio.sleep(1.0)


def _container_ids(pod: Mapping[str, Any]) -> list[str]:
    return sorted(each["containerID"] for each in pod["status"]["containerStatuses"])
