"""
The product on the cluster, as users install it: images, then helm.

The images come from `scripts/build-images`, which puts an archive for each into .cache/images.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from apilab.helm import NAMESPACE, RELEASE, Helm
from fractioning_core import resource
from lab import toolchain, waiting
from lab.errors import LabError

from clusterlab import client
from clusterlab.client import Client, Object
from clusterlab.cluster import Cluster
from clusterlab.placement import NODE_CONDITION

IMAGES = toolchain.REPOSITORY / ".cache" / "images"
ARCHIVES = ("controller", "fractiond", "metricsd", "mpsd")
CONFIGS = f"/apis/{resource.GROUP}/{resource.VERSION}/{resource.PLURAL}"
CONFIG = f"{CONFIGS}/{resource.NAME}"
DAEMONSETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{RELEASE}"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
FRACTIOND, MPSD = "gpu-fractioning-fractiond", "gpu-fractioning-mpsd"
CONDITIONS = ("FractiondReady", "MpsdReady", "Ready")
READY_SECONDS = 120.0


class MissingImage(LabError):  # noqa: N818 - says what is missing
    """
    An image has not been built.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path} is not there; make it with: scripts/build-images"


@attrs.frozen
class Release:
    """
    The chart's release in a cluster.
    """

    cluster: Cluster
    api: Client

    def helm(self) -> Helm:
        """
        Give helm for it.
        """
        layout = self.cluster.layout
        directory = layout.base / "helm"
        directory.mkdir(exist_ok=True)
        return Helm(layout.kubeconfig, directory=directory)

    async def load_images(self) -> Sequence[str]:
        """
        Put the images into every worker; gives the names of those that are new there.
        """
        loaded: list[str] = []
        for name in ARCHIVES:
            path = IMAGES / f"{name}.tar"
            if not path.exists():
                raise MissingImage(path)
            loaded += await self.cluster.load(path)
        return loaded

    async def is_installed(self) -> bool:
        """
        Tell whether the controller is there.
        """
        return await self.api.get(DEPLOYMENT) is not None

    async def install(self, values: Mapping[str, Any] | None = None) -> None:
        """
        Install it; returns when helm does.
        """
        await self.helm().install(values)

    async def steady(self, *, timeout_seconds: float = READY_SECONDS) -> None:
        """
        Wait until everything is as it is to be: controller, conditions, daemons on the GPU nodes, nodes' conditions.
        """
        await self.api.until(
            DEPLOYMENT,
            lambda found: found["status"].get("availableReplicas", 0) >= 1,
            what="the controller to be available",
            timeout_seconds=timeout_seconds,
        )
        count = len(self.gpu_nodes())
        for name in (FRACTIOND, MPSD):
            await self.rolled_out(name, count=count, timeout_seconds=timeout_seconds)
        for node in self.gpu_nodes():
            await self.node_is(node, "True", timeout_seconds=timeout_seconds)
        # Last: until the controller has seen all this, they may be those of before.
        await self.api.until(
            CONFIG,
            lambda found: is_current(found) and all(client.is_true(found, each) for each in CONDITIONS),
            what=f"{', '.join(CONDITIONS)} to be True",
            timeout_seconds=timeout_seconds,
        )

    async def rolled_out(self, name: str, *, count: int, timeout_seconds: float = READY_SECONDS) -> Object:
        """
        Wait until a DaemonSet has as many ready pods of its newest template as it wants, and wants so many.
        """
        return await self.api.until(
            f"{DAEMONSETS}/{name}",
            lambda found: _is_rolled_out(found, count),
            what=f"{name} to have {count} ready pods",
            timeout_seconds=timeout_seconds,
        )

    async def has_argument(self, name: str, argument: str) -> Object:
        """
        Wait until the template of a DaemonSet has an argument, in any of its containers.
        """
        return await self.api.until(
            f"{DAEMONSETS}/{name}",
            lambda found: argument in _arguments(found),
            what=f"{name} to have the argument {argument}",
            timeout_seconds=READY_SECONDS,
        )

    async def has_runtime_class(self, name: str, *, is_there: bool) -> Object:
        """
        Wait until the template of a DaemonSet has a RuntimeClass, or none.
        """
        return await self.api.until(
            f"{DAEMONSETS}/{name}",
            lambda found: ("runtimeClassName" in found["spec"]["template"]["spec"]) == is_there,
            what=f"{name} to have {'a' if is_there else 'no'} RuntimeClass",
            timeout_seconds=READY_SECONDS,
        )

    async def condition_is(
        self, kind: str, status: str, *, reason: str = "", timeout_seconds: float = READY_SECONDS
    ) -> Object:
        """
        Wait until a condition of the resource is True or False, for a reason where one is given; gives the condition.
        """

        def is_so(one: Object) -> bool:
            found = client.condition(one, kind) or {}
            return found.get("status") == status and reason in {"", found["reason"]}

        found = await self.api.until(
            CONFIG, is_so, what=f"{kind} to be {status} {reason}", timeout_seconds=timeout_seconds
        )
        return client.condition(found, kind) or {}

    async def node_is(self, node: str, status: str, *, timeout_seconds: float = READY_SECONDS) -> Object:
        """
        Wait until the node's condition is True or False; gives the condition.
        """
        found = await self.api.until(
            f"{client.NODES}/{node}",
            lambda one: (client.condition(one, NODE_CONDITION) or {}).get("status") == status,
            what=f"{NODE_CONDITION} of {node} to be {status}",
            timeout_seconds=timeout_seconds,
        )
        return client.condition(found, NODE_CONDITION) or {}

    async def restarts(self, name: str, *, node: str = "") -> int:
        """
        Count how often containers of a DaemonSet's pods were started again, on a node or everywhere.
        """
        pods = await self.pods(name, node=node)
        counts: list[int] = [
            each["restartCount"] for pod in pods for each in pod["status"].get("containerStatuses", [])
        ]
        return sum(counts)

    async def restarted(self, name: str, *, node: str, more_than: int, timeout_seconds: float = READY_SECONDS) -> None:
        """
        Wait until containers of a DaemonSet's pod on a node were started again more often than so often.
        """

        async def is_restarted() -> bool:
            return await self.restarts(name, node=node) > more_than

        await waiting.until_awaited(
            is_restarted, what=f"{name} of {node} to be restarted", timeout_seconds=timeout_seconds
        )

    async def config(self) -> Object:
        """
        Read the resource.
        """
        return await self.api.get(CONFIG) or {}

    async def daemonset(self, name: str) -> Object:
        """
        Read a DaemonSet.
        """
        return await self.api.get(f"{DAEMONSETS}/{name}") or {}

    async def pods(self, name: str = "", *, node: str = "") -> Sequence[Object]:
        """
        List the product's pods: those of a DaemonSet, those on a node, or all.
        """
        component = name.removeprefix("gpu-fractioning-")
        query = {"labelSelector": f"app.kubernetes.io/component={component}"} if name else {}
        found = await self.api.list(PODS, **query)
        return [pod for pod in found if node in {"", pod["spec"].get("nodeName")}]

    def gpu_nodes(self) -> Sequence[str]:
        """
        Name the nodes with GPUs.
        """
        return [worker.name for worker in self.cluster.workers if worker.gpus]


def is_current(found: Object) -> bool:
    """
    Tell whether a status is about the spec as it is.
    """
    observed: int | None = found.get("status", {}).get("observedGeneration")
    generation: int = found["metadata"]["generation"]
    return observed == generation


def _arguments(found: Object) -> Sequence[str]:
    containers = found["spec"]["template"]["spec"]["containers"]
    return [argument for container in containers for argument in container.get("args", [])]


def _is_rolled_out(found: Object, count: int) -> bool:
    status = found["status"]
    ready: list[int] = [
        status.get(each, 0) for each in ("desiredNumberScheduled", "updatedNumberScheduled", "numberReady")
    ]
    return is_current(found) and all(number == count for number in ready)
