"""
Nodes and pods as large as those of real clusters, posted as they would be when all is well.

Nobody stands behind them: no kubelet, no scheduler, and no DaemonSet controller, whose counts are written here too. So
whatever the API server is asked for during a measurement comes from the controller, or from here.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

import attrs
from apilab.cluster import DAEMONSETS, FRACTIOND, GPU_LABELS, MPSD, NODES
from apilab.helm import NAMESPACE
from fractioning_core.kube.objects import Objects
from fractioning_core.kube.transport import Transport

# A kubelet reports its node's status so often when there is no news.
HEARTBEAT_SECONDS = 300.0
# As many as two cores keep busy.
_AT_ONCE = 32
_FILLERS = 26
_IMAGES = 10
_CONDITIONS = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "KernelDeadlock", "XidError")
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@attrs.frozen
class Fleet:
    """
    GPU nodes, and one pod of each daemon on each of them.

    Args:
        api: The way in.
        size: How many nodes.
    """

    api: Transport
    size: int

    async def make(self) -> None:
        """
        Post the nodes, the pods of the DaemonSets that are there, and the DaemonSets' counts.
        """
        # As the GPU Operator makes it; no pod that names another one is let in.
        runtime = {"metadata": {"name": "nvidia"}, "handler": "nvidia"}
        await self._objects.create("/apis/node.k8s.io/v1/runtimeclasses", runtime)
        await _each(range(self.size), self._make_node)
        for name in (FRACTIOND, MPSD):
            daemonset = await self._objects.get(DAEMONSETS.item_path(name)) or {}
            await _each(range(self.size), partial(self._make_pod, daemonset))
            await self._count(name, self.size)

    async def set_ready(self, number: int, *, is_ready: bool) -> None:
        """
        Let mpsd on a node be ready or not, and be counted so.
        """
        name = _pod_name(MPSD, number)
        body = {"status": {"conditions": [_condition("Ready", is_so=is_ready)]}}
        await self._objects.strategic_patch(f"{_PODS}/{name}/status", body)
        await self._count(MPSD, self.size if is_ready else self.size - 1)

    async def heartbeat(self, number: int) -> None:
        """
        Report a node's status without any news, as its kubelet does every five minutes.
        """
        beat = {"type": "MemoryPressure", "lastHeartbeatTime": _now()}
        body = {"status": {"conditions": [beat]}}
        await self._objects.strategic_patch(NODES.subresource(node_name(number), "status"), body)

    @property
    def _objects(self) -> Objects:
        return Objects(self.api, field_manager="kubelet")

    async def _make_node(self, number: int) -> None:
        await self._objects.create(NODES.path, _node(number))

    async def _make_pod(self, daemonset: Mapping[str, Any], number: int) -> None:
        pod = await self._objects.create(_PODS, _pod(daemonset, number))
        await self._objects.merge_patch(f"{_PODS}/{pod['metadata']['name']}/status", {"status": _pod_status(pod)})

    async def _count(self, name: str, ready: int) -> None:
        found = await self._objects.get(DAEMONSETS.item_path(name)) or {}
        status = {
            "observedGeneration": found["metadata"]["generation"],
            "desiredNumberScheduled": self.size,
            "currentNumberScheduled": self.size,
            "updatedNumberScheduled": self.size,
            "numberReady": ready,
            "numberAvailable": ready,
        }
        await self._objects.merge_patch(DAEMONSETS.subresource(name, "status"), {"status": status})


def node_name(number: int) -> str:
    """
    Name a node.
    """
    return f"gpu-{number:05d}"


async def _each(numbers: Iterable[int], act: Callable[[int], Awaitable[None]]) -> None:
    left = iter(numbers)

    async def work() -> None:
        for number in left:
            await act(number)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(work())


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _digest(*parts: object) -> str:
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()


def _condition(kind: str, *, is_so: bool) -> Mapping[str, Any]:
    return {
        "type": kind,
        "status": "True" if is_so else "False",
        "reason": f"{kind}Told",
        "message": f"{kind} as told by whoever looks after it on this node",
        "lastTransitionTime": _now(),
    }


def _node(number: int) -> Mapping[str, Any]:
    name = node_name(number)
    fillers = {f"feature.example.com/property-{index}": f"value-{index}" for index in range(_FILLERS)}
    images = [
        {
            "names": [f"registry.example.com/team/image-{index}@sha256:{_digest(index)}", f"example.com/i:{index}"],
            "sizeBytes": 10**9 + index,
        }
        for index in range(_IMAGES)
    ]
    resources = {"cpu": "192", "memory": "2097152Ki", "pods": "110", "nvidia.com/gpu": "8"}
    conditions = [*(_condition(kind, is_so=False) for kind in _CONDITIONS), _condition("Ready", is_so=True)]
    return {
        "metadata": {
            "name": name,
            "labels": {**GPU_LABELS, **fillers, "kubernetes.io/hostname": name},
            "annotations": {"example.com/features": ",".join(fillers), "example.com/id": _digest(name)},
        },
        "spec": {"providerID": f"example:///{_digest(name)}"},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [{"type": "Hostname", "address": name}],
            "conditions": conditions,
            "images": images,
            "nodeInfo": {
                **dict.fromkeys(("machineID", "systemUUID", "bootID"), _digest(name)[:32]),
                **dict.fromkeys(("kernelVersion", "osImage", "containerRuntimeVersion"), "6.8.0"),
                **dict.fromkeys(("kubeletVersion", "kubeProxyVersion"), "v1.34.4"),
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    }


def _pod_name(daemonset: str, number: int) -> str:
    return f"{daemonset}-{number:05d}"


def _pod(daemonset: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    template, about = daemonset["spec"]["template"], daemonset["metadata"]
    owner = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "name": about["name"],
        "uid": about["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "metadata": {
            "name": _pod_name(about["name"], number),
            "labels": {**template["metadata"]["labels"], "controller-revision-hash": _digest(about["uid"])[:10]},
            "annotations": template["metadata"].get("annotations", {}),
            "ownerReferences": [owner],
        },
        "spec": {**template["spec"], "nodeName": node_name(number)},
    }


def _pod_status(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    identity = _digest(pod["metadata"]["uid"])
    return {
        "phase": "Running",
        "startTime": _now(),
        "conditions": [_condition(kind, is_so=True) for kind in kinds],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": f"registry.example.com/image@sha256:{identity}",
                "containerID": f"containerd://{identity}",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": _now()}},
            }
            for container in pod["spec"]["containers"]
        ],
    }
