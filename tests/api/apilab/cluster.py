"""
A whole cluster of hollow nodes: the control plane, the controllers of Kubernetes that we rely on, and stand-ins for
scheduler and kubelets.

    async with ControlPlane() as plane, Cluster(plane) as cluster:
        await cluster.add_node("node-a")
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Self

from fractioning_core import names, resource
from fractioning_core.errors import FractioningError
from fractioning_core.kube.collections import Collection
from fractioning_core.kube.errors import Conflict
from fractioning_core.kube.objects import Objects
from fractioning_core.kube.transport import Request
from lab import waiting
from lab.process import Service

from apilab import definitions
from apilab.controllermanager import ControllerManager
from apilab.controlplane import ControlPlane
from apilab.helm import NAMESPACE
from apilab.jobs import Jobs
from apilab.kubelets import Kubelets

NODES = Collection("", "v1", "nodes")
CONFIGS = Collection(resource.GROUP, resource.VERSION, resource.PLURAL)
DAEMONSETS = Collection("apps", "v1", "daemonsets", NAMESPACE)
DEFINITIONS = Collection("apiextensions.k8s.io", "v1", "customresourcedefinitions")
EVENTS = Collection("", "v1", "events")
NODE_CONDITION = "gpu-fractioning.nvidia.com/Ready"
GPU_LABELS: Mapping[str, str] = {
    "nvidia.com/gpu.present": "true",
    "nvidia.com/gpu.deploy.client": "true",
    names.DRIVER_LABEL: "615",
}
FRACTIOND, MPSD = "gpu-fractioning-fractiond", "gpu-fractioning-mpsd"
# What the controller does takes well below a second; the machine may be busy.
SOON_SECONDS = 20.0
_TOLD_OUTPUT = 3000

Object = Mapping[str, Any]


class Cluster:
    """
    The cluster, while entered; the control plane is somebody else's.
    """

    def __init__(self, plane: ControlPlane, *, directory: Path) -> None:
        self.plane = plane
        self.admin = plane.admin()
        self.objects = Objects(self.admin, field_manager="admin")
        self.manager = ControllerManager(plane)
        self.kubelets = Kubelets(self.admin)
        self.jobs = Jobs(plane, self.admin, directory=directory)
        self.programs: list[Service] = []
        """
        Whose output tells more when something does not happen.
        """
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.__aenter__()
        for part in (self.admin, self.manager, self.kubelets, self.jobs):
            await self._stack.enter_async_context(part)
        # As the GPU Operator makes it; no pod that names another one is let in.
        runtime = {"metadata": {"name": "nvidia"}, "handler": "nvidia"}
        await self.objects.create("/apis/node.k8s.io/v1/runtimeclasses", runtime)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def add_node(self, name: str, *, labels: Mapping[str, str] = GPU_LABELS, **spec: object) -> None:
        """
        Register a node with a kubelet's condition.
        """
        labels = {"kubernetes.io/hostname": name, **labels}
        await self.objects.create(NODES.path, {"metadata": {"name": name, "labels": labels}, "spec": spec})
        kubelet = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "hollow"}
        await self.objects.merge_patch(NODES.subresource(name, "status"), {"status": {"conditions": [kubelet]}})

    async def label(self, node: str, **labels: str | None) -> None:
        """
        Change labels of a node; a label without a value goes.
        """
        await self.objects.merge_patch(NODES.item_path(node), {"metadata": {"labels": labels}})

    async def node(self, name: str) -> Object:
        """
        Read a node.
        """
        return await self.admin.ask(Request("GET", NODES.item_path(name)))

    async def node_condition(self, name: str) -> tuple[str, str, str] | None:
        """
        Read status, reason and message of our condition on a node.
        """
        found = [each for each in (await self.node(name))["status"]["conditions"] if each["type"] == NODE_CONDITION]
        return _told(found[0]) if found else None

    async def config(self) -> Object | None:
        """
        Read the resource.
        """
        return await self.objects.get(CONFIGS.item_path(resource.NAME))

    async def config_gone(self, *, timeout_seconds: float = SOON_SECONDS) -> None:
        """
        Wait until there is no resource.
        """

        async def is_gone() -> bool:
            return await self.config() is None

        await self.until(is_gone, what="the resource to go", timeout_seconds=timeout_seconds)

    async def create_config(self, spec: Object) -> Object:
        """
        Make the resource.
        """
        manifest = {"apiVersion": resource.API_VERSION, "kind": resource.KIND, "metadata": {"name": resource.NAME}}
        return await self.objects.create(CONFIGS.path, {**manifest, "spec": spec})

    async def edit_config(self, **sections: object) -> Object:
        """
        Change sections of the resource's `spec`; one that is None goes.
        """
        return await self.objects.merge_patch(CONFIGS.item_path(resource.NAME), {"spec": sections})

    async def conditions(self) -> Mapping[str, tuple[str, str, str]]:
        """
        Read the resource's conditions: status, reason and message by type.
        """
        status = ((await self.config()) or {}).get("status", {})
        return {each["type"]: _told(each) for each in status.get("conditions", ())}

    async def daemonset(self, name: str) -> Object | None:
        """
        Read a DaemonSet of ours.
        """
        return await self.objects.get(DAEMONSETS.item_path(name))

    async def pods(self, component: str = "") -> Sequence[Object]:
        """
        List our pods.
        """
        selector = "app.kubernetes.io/managed-by=gpu-fractioning"
        selector += f",app.kubernetes.io/component={component}" if component else ""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        answer = await self.admin.ask(Request("GET", path, query={"labelSelector": selector}))
        pods: Sequence[Object] = answer["items"]
        return pods

    async def events(self) -> Sequence[Object]:
        """
        List the events of the whole cluster.
        """
        answer = await self.admin.ask(Request("GET", EVENTS.path))
        events: Sequence[Object] = answer["items"]
        return events

    async def ready(self, status: str, reason: str, text: str = "", *, timeout_seconds: float = SOON_SECONDS) -> None:
        """
        Wait until the resource's `Ready` says so.
        """
        await self.told("Ready", status, reason, text, timeout_seconds=timeout_seconds)

    async def observed(self) -> None:
        """
        Wait until the resource's status is about its `spec` as it is.
        """

        async def is_observed() -> bool:
            config = await self.config() or {}
            return bool(config["status"].get("observedGeneration") == config["metadata"]["generation"])

        await self.until(is_observed, what="a status of this generation")

    async def told(
        self, kind: str, status: str, reason: str, text: str = "", *, timeout_seconds: float = SOON_SECONDS
    ) -> None:
        """
        Wait until a condition of the resource has a status, a reason, and a text in its message.
        """
        await self._comes_to(
            self.conditions,
            lambda found: kind in found and found[kind][:2] == (status, reason) and text in found[kind][2],
            what=f"{kind} {status} {reason} {text}",
            timeout_seconds=timeout_seconds,
        )

    async def node_told(
        self, node: str, status: str, reason: str = "", text: str = "", *, timeout_seconds: float = SOON_SECONDS
    ) -> None:
        """
        Wait until our condition on a node has a status and, where given, a reason and a text in its message.
        """

        async def ask() -> tuple[str, str, str] | None:
            return await self.node_condition(node)

        await self._comes_to(
            ask,
            lambda found: found is not None and found[0] == status and reason in {"", found[1]} and text in found[2],
            what=f"{node} {status} {reason} {text}",
            timeout_seconds=timeout_seconds,
        )

    async def node_untold(self, node: str, *, timeout_seconds: float = SOON_SECONDS) -> None:
        """
        Wait until a node carries no condition of ours.
        """

        async def ask() -> tuple[str, str, str] | None:
            return await self.node_condition(node)

        await self._comes_to(
            ask, lambda found: found is None, what=f"no condition on {node}", timeout_seconds=timeout_seconds
        )

    async def until(
        self, ask: Callable[[], Awaitable[object]], *, what: str, timeout_seconds: float = SOON_SECONDS
    ) -> None:
        """
        Wait until a question has an answer that is neither None nor empty nor False.
        """
        await self._comes_to(ask, bool, what=what, timeout_seconds=timeout_seconds)

    async def define(self, definition: Object) -> None:
        """
        Make a CRD, and wait until its objects are served.
        """
        with suppress(Conflict):
            await self.objects.create(DEFINITIONS.path, definition)
        await definitions.served(self.admin, definition, timeout_seconds=SOON_SECONDS)

    async def undefine(self, definition: Object) -> None:
        """
        Remove a CRD and its objects.
        """
        name = definition["metadata"]["name"]
        await self.objects.delete(DEFINITIONS.item_path(name))

        async def is_gone() -> bool:
            return await self.objects.get(DEFINITIONS.item_path(name)) is None

        await self.until(is_gone, what=f"CRD {name} to go")

    async def _comes_to(
        self, ask: Callable[[], Awaitable[Any]], fits: Callable[[Any], bool], *, what: str, timeout_seconds: float
    ) -> None:
        last: object = None

        async def look() -> bool:
            nonlocal last
            try:
                last = await ask()
            except FractioningError as error:
                # The API server may be away, which is not what is waited for.
                last = error
                return False
            return fits(last)

        await waiting.until_awaited(
            look,
            what=what,
            timeout_seconds=timeout_seconds,
            details=lambda: "\n".join([*(each.output()[-_TOLD_OUTPUT:] for each in self.programs), f"last: {last}"]),
        )


def node_of(pod: Object) -> str:
    """
    Name the node that a pod is bound to; empty while it is not.
    """
    name: str = pod["spec"].get("nodeName", "")
    return name


def _told(condition: Object) -> tuple[str, str, str]:
    return condition["status"], condition.get("reason", ""), condition.get("message", "")
