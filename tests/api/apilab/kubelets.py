"""
Stand-ins for the scheduler and for the kubelets of nodes that do not exist.

A pod that a DaemonSet made for a node is bound to it, its containers are said to run, and when it is deleted it is gone
at once. What a node's pods are said to be like can be changed:

    async with Kubelets(admin) as kubelets:
        kubelets.sicken("node-a", "CrashLoopBackOff", component="mpsd")
        ...
        kubelets.heal("node-a")
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Self

import attrs
from fractioning_core.errors import FractioningError
from fractioning_core.kube.collections import Collection
from fractioning_core.kube.errors import Conflict, NotFound
from fractioning_core.kube.mirror import Mirror, Times
from fractioning_core.kube.objects import Objects
from fractioning_core.kube.transport import Request, Transport

PODS = Collection("", "v1", "pods")
COMPONENT_LABEL = "app.kubernetes.io/component"
# As soon as there is news, and anyhow so often, for an attempt may have failed.
_AGAIN_SECONDS = 1.0
# An API server that was away is found again at once: it is the controller whose patience is tested.
TIMES = Times(longest_wait_seconds=1.0)


@attrs.frozen
class Pod:
    """
    A pod as its kubelet sees it.
    """

    path: str
    component: str
    node: str
    target: str
    """The node that its DaemonSet made it for."""
    containers: tuple[tuple[str, str], ...]
    """Names and images."""
    is_ready: bool
    reason: str
    is_deleted: bool


class Kubelets:
    """
    The scheduler and every kubelet, while entered.
    """

    def __init__(self, api: Transport) -> None:
        self._api = api
        self._objects = Objects(api, field_manager="kubelet")
        self._news = asyncio.Event()
        self._pods = Mirror(api, PODS, select=_select, changed=self._news.set, times=TIMES)
        self._reasons: dict[tuple[str, str], str] = {}
        self._stopped: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._pods.run()), loop.create_task(self._run())]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    @property
    def pods(self) -> tuple[Pod, ...]:
        """
        The pods of DaemonSets, as last heard.
        """
        return tuple(self._pods.items.values())

    def sicken(self, node: str, reason: str, *, component: str = "") -> None:
        """
        Let the containers of a node's pods wait for a reason.

        Args:
            node: Which node.
            reason: A waiting reason such as `CrashLoopBackOff`.
            component: Only pods of this component; empty for all.
        """
        self._reasons[node, component] = reason
        self._news.set()

    def heal(self, node: str = "") -> None:
        """
        Let all of a node's pods be ready again; those of every node where none is named.
        """
        self._reasons = {key: reason for key, reason in self._reasons.items() if node and key[0] != node}
        self._news.set()

    def stop(self, node: str) -> None:
        """
        Do nothing more for a node: neither bind pods, nor report them, nor end them.
        """
        self._stopped.add(node)

    def start(self, node: str) -> None:
        """
        Go on with a node.
        """
        self._stopped.discard(node)
        self._news.set()

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_SECONDS):
                    await self._news.wait()
            self._news.clear()
            for pod in self.pods:
                # Whatever went wrong is tried again a second later, with what is known then.
                with suppress(FractioningError):
                    await self._tend(pod)

    async def _tend(self, pod: Pod) -> None:
        if pod.target in self._stopped:
            return
        reason = self._reasons.get((pod.target, ""), "") or self._reasons.get((pod.target, pod.component), "")
        if pod.is_deleted:
            with suppress(NotFound):
                await self._api.ask(Request("DELETE", pod.path, body={"gracePeriodSeconds": 0}))
        elif not pod.node:
            with suppress(Conflict):
                await self._objects.create(f"{pod.path}/binding", _binding(pod))
        elif (pod.is_ready, pod.reason) != (not reason, reason):
            await self._objects.strategic_patch(f"{pod.path}/status", {"status": _status(pod, reason)})


def _select(manifest: Mapping[str, Any]) -> Pod | None:
    metadata, spec, status = manifest["metadata"], manifest["spec"], manifest.get("status", {})
    target = _target(spec)
    if not target:
        return None
    waiting = [each.get("state", {}).get("waiting", {}) for each in status.get("containerStatuses", ())]
    return Pod(
        path=PODS.within(metadata["namespace"]).item_path(metadata["name"]),
        component=metadata.get("labels", {}).get(COMPONENT_LABEL, ""),
        node=spec.get("nodeName", ""),
        target=target,
        containers=tuple((each["name"], each["image"]) for each in spec["containers"]),
        is_ready=any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", ())),
        reason=next((each["reason"] for each in waiting if each.get("reason")), ""),
        is_deleted="deletionTimestamp" in metadata,
    )


def _target(spec: Mapping[str, Any]) -> str:
    """
    Find the name that the DaemonSet controller put into the affinity; empty for any other pod.
    """
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", ())
    fields = [field for term in terms for field in term.get("matchFields", ())]
    return next((field["values"][0] for field in fields if field["key"] == "metadata.name"), "")


def _binding(pod: Pod) -> Mapping[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.path.rpartition("/")[2]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": pod.target},
    }


def _status(pod: Pod, reason: str) -> Mapping[str, Any]:
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    state = {"waiting": {"reason": reason}, "running": None} if reason else {"running": {"startedAt": now}}
    value = "False" if reason else "True"
    kinds = {"Initialized": "True", "PodScheduled": "True", "ContainersReady": value, "Ready": value}
    return {
        "phase": "Pending" if reason else "Running",
        "startTime": now,
        "conditions": [{"type": kind, "status": is_so, "lastTransitionTime": now} for kind, is_so in kinds.items()],
        "containerStatuses": [
            {
                "name": name,
                "image": image,
                "imageID": "",
                "ready": not reason,
                "started": not reason,
                "restartCount": 0,
                "state": {"waiting": None, **state},
            }
            for name, image in pod.containers
        ],
    }
