"""
Where the stand-in for the KAI scheduler puts pods, and what it writes on them. Pure: objects in, a placement out.

A fractional pod goes to a node whose condition says that fractions are enforced there, and gets the GPU with the most
memory left; its containers share it. Requests count, as the scheduler's own books do, whatever the driver enforces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
from fractioning_core import names, quantity
from fractioning_core.errors import FractioningError

from clusterlab.workers import GPU_MEMORY_BYTES, Worker

Object = Mapping[str, Any]

NODE_CONDITION = "gpu-fractioning.nvidia.com/Ready"
# How users of KAI ask for a part of a GPU: MiB, or a fraction.
KAI_MEMORY = "gpu-memory"
KAI_FRACTION = "gpu-fraction"
_MEMORY = (names.GPU_MEMORY_REQUEST_SUFFIX, names.GPU_MEMORY_LIMIT_SUFFIX)
_MIB = 1 << 20


@attrs.frozen
class Placement:
    """
    Where a pod goes, and the annotations that go with it.
    """

    node: str
    annotations: Mapping[str, str] = attrs.field(factory=dict)


def place(
    pod: Object, *, nodes: Sequence[Object], pods: Sequence[Object], workers: Sequence[Worker], is_cdi: bool
) -> Placement | None:
    """
    Place a pod; None while there is no room.

    Args:
        pod: To be placed.
        nodes: Of the cluster.
        pods: Those that have a place.
        workers: Which GPUs the nodes have, by UUID; a real scheduler hears of them from NVIDIA's device plugin.
        is_cdi: Whether devices are named as the device plugin names them in CDI specs.
    """
    asked = dict(_asked(pod))
    stems = dict.fromkeys(_stems({**_annotations(pod), **asked}))
    fitting = [node for node in nodes if _fits(pod, node) and _condition(node, "Ready")]
    if not stems:
        # Spread, as a scheduler does.
        return min((Placement(_name(node)) for node in fitting), key=lambda one: _count(one.node, pods), default=None)
    need = _memory({**_annotations(pod), **asked})
    enforcing = {_name(node) for node in fitting if _condition(node, NODE_CONDITION)}
    gpus = [(worker.name, gpu) for worker in workers for gpu in worker.gpus if worker.name in enforcing]
    wanted = _devices(pod)
    rooms = [
        (GPU_MEMORY_BYTES - _used(gpu, pods), node, gpu) for node, gpu in gpus if not wanted or wanted.endswith(gpu)
    ]
    free = [room for room in rooms if room[0] >= need]
    if not free:
        return None
    # The most memory; of equals the first.
    _, node, gpu = max(free, key=lambda room: (room[0], [-ord(letter) for letter in room[1] + room[2]]))
    device = f"{names.CDI_GPU_KIND}={gpu}" if is_cdi else gpu
    return Placement(node, {**asked, **{f"{stem}{names.GPU_DEVICES_SUFFIX}": device for stem in stems}})


def _asked(pod: Object) -> Iterator[tuple[str, str]]:
    """
    Translate what KAI's users write: it is about the first container.
    """
    annotations = _annotations(pod)
    key = f"{names.ANNOTATION_PREFIX}{pod['spec']['containers'][0]['name']}{names.GPU_MEMORY_REQUEST_SUFFIX}"
    if KAI_MEMORY in annotations:
        yield key, f"{annotations[KAI_MEMORY]}Mi"
    elif KAI_FRACTION in annotations:
        yield key, f"{int(float(annotations[KAI_FRACTION]) * GPU_MEMORY_BYTES) // _MIB}Mi"


def _stems(annotations: Mapping[str, str]) -> Iterator[str]:
    """
    Give prefix and container of every annotation about memory, whatever the prefix is.
    """
    for key in annotations:
        for suffix in _MEMORY:
            if key.endswith(suffix):
                yield key.removesuffix(suffix)


def _memory(annotations: Mapping[str, str]) -> int:
    return sum(_request(annotations, stem) for stem in dict.fromkeys(_stems(annotations)))


def _request(annotations: Mapping[str, str], stem: str) -> int:
    for suffix in _MEMORY:
        text = annotations.get(f"{stem}{suffix}")
        if text is not None:
            try:
                return quantity.to_mib(text) * _MIB
            except FractioningError:
                # fractiond is to say what is wrong with it.
                return 0
    return 0


def _used(gpu: str, pods: Sequence[Object]) -> int:
    # One that waits may name its GPU, and has nothing of it yet.
    there = [pod for pod in pods if pod["spec"].get("nodeName") and not _has_ended(pod)]
    return sum(_memory(_annotations(pod)) for pod in there if _devices(pod).endswith(gpu))


def _devices(pod: Object) -> str:
    found = (value for key, value in _annotations(pod).items() if key.endswith(names.GPU_DEVICES_SUFFIX))
    return next(found, "")


def _fits(pod: Object, node: Object) -> bool:
    labels = node["metadata"].get("labels", {})
    selector = pod["spec"].get("nodeSelector", {})
    is_open = not node["spec"].get("unschedulable") and not node["spec"].get("taints")
    return is_open and all(labels.get(key) == value for key, value in selector.items())


def _condition(node: Object, kind: str) -> bool:
    return any(each["type"] == kind and each["status"] == "True" for each in node["status"].get("conditions", []))


def _count(node: str, pods: Sequence[Object]) -> int:
    return sum(pod["spec"].get("nodeName") == node for pod in pods)


def _has_ended(pod: Object) -> bool:
    return pod["status"].get("phase") in {"Succeeded", "Failed"}


def _annotations(found: Object) -> Mapping[str, str]:
    annotations: Mapping[str, str] = found["metadata"].get("annotations", {})
    return annotations


def _name(found: Object) -> str:
    name: str = found["metadata"]["name"]
    return name
