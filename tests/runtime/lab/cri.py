"""
Pods and containers through the runtime's own interface, as a kubelet asks for them.

    async with containerd.cri() as cri:
        pod = await cri.run_pod("trainer", annotations={…})
        container = await cri.create_container(pod, "main", env=[("A", "1"), ("A", "2")])
        await cri.start(container)
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import attrs
from nri_aio.pb import cri_pb2

from lab import kubelet, waiting
from lab.errors import LabError
from lab.image import BUSYBOX_IMAGE
from lab.rpc import DEADLINE_SECONDS, Rpc

# A call that is cut before the grace period ends leaves the container running.
_STOP_MARGIN_SECONDS = 15.0
# Removing is mostly waiting for processes to end.
_REMOVALS_AT_ONCE = 8
_SLEEP = ("/bin/sleep", "1000000")
_STATES = ("created", "running", "exited", "unknown")


@attrs.frozen
class Listed:
    """
    A container as the runtime lists it; state is created, running, exited or unknown.
    """

    id: str
    pod: str
    name: str
    attempt: int
    state: str


@attrs.frozen
class Status:
    """
    A container in detail; env ("NAME=value"), mounts (source, destination) and annotations are those of its OCI spec.
    """

    id: str
    name: str
    state: str
    exit_code: int
    pid: int
    env: tuple[str, ...]
    mounts: tuple[tuple[str, str], ...]
    devices: tuple[str, ...]
    annotations: Mapping[str, str]

    def values_of(self, name: str) -> tuple[str, ...]:
        """
        List the values of one variable, in order: more than one where it is listed twice.
        """
        return tuple(text.partition("=")[2] for text in self.env if text.partition("=")[0] == name)


class Cri:
    """
    A connection to one runtime; it remembers the pods it ran, as a kubelet does.

    Args:
        socket: The runtime's CRI socket.
        cgroup_parent: The cgroup below which every pod gets one of its own, such as `/lab`.
    """

    def __init__(self, socket: Path, *, cgroup_parent: str) -> None:
        self._rpc = Rpc(socket)
        self._cgroup_parent = cgroup_parent
        self._pods: dict[str, cri_pb2.PodSandboxConfig] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._rpc.close()

    async def version(self) -> str:
        """
        Ask for the runtime's version, such as `2.3.7+unknown`.
        """
        response = await self._rpc.call("Version", cri_pb2.VersionRequest(), cri_pb2.VersionResponse)
        return response.runtime_version

    async def run_pod(
        self,
        name: str,
        *,
        namespace: str = "default",
        uid: str | None = None,
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> str:
        """
        Start a pod's sandbox.

        Returns:
            Its id.

        Raises:
            CriError: The runtime refused.
        """
        given = {"uid": uid} if uid else {}
        pod = kubelet.Pod(name, namespace, annotations=annotations or {}, labels=labels or {}, **given)
        config = kubelet.pod_config(pod, self._cgroup_parent)
        request = cri_pb2.RunPodSandboxRequest(config=config)
        response = await self._rpc.call("RunPodSandbox", request, cri_pb2.RunPodSandboxResponse)
        self._pods[response.pod_sandbox_id] = config
        return response.pod_sandbox_id

    async def create_container(
        self,
        pod: str,
        name: str,
        *,
        image: str = BUSYBOX_IMAGE.name,
        command: Sequence[str] = _SLEEP,
        env: Sequence[tuple[str, str]] = (),
        mounts: Sequence[tuple[str, str]] = (),
        devices: Sequence[tuple[str, str]] = (),
        cdi_devices: Sequence[str] = (),
        annotations: Mapping[str, str] | None = None,
        attempt: int = 0,
    ) -> str:
        """
        Create a container in a pod that this connection ran.

        Args:
            pod: The pod's id.
            name: The container's name in the pod.
            image: An image that was imported.
            command: What it runs; empty for the image's own.
            env: Pairs of name and value, passed on in order and with duplicates.
            mounts: Pairs of host path and container path.
            devices: Pairs of host device and container device.
            cdi_devices: Fully qualified names of CDI devices.
            annotations: Container annotations, beside those a kubelet adds.
            attempt: How often the container was started before.

        Returns:
            Its id.

        Raises:
            CriError: The runtime, or a plugin in it, refused.
        """
        container = kubelet.Container(
            name, image, command, env, mounts, devices, cdi_devices, annotations or {}, attempt=attempt
        )
        config = self._pods[pod]
        request = cri_pb2.CreateContainerRequest(
            pod_sandbox_id=pod, config=kubelet.container_config(container, config), sandbox_config=config
        )
        response = await self._rpc.call("CreateContainer", request, cri_pb2.CreateContainerResponse)
        return response.container_id

    async def start(self, container: str) -> None:
        """
        Start a created container.
        """
        request = cri_pb2.StartContainerRequest(container_id=container)
        await self._rpc.call("StartContainer", request, cri_pb2.StartContainerResponse)

    async def stop(self, container: str, *, grace_seconds: int = 0) -> None:
        """
        Stop a container, by SIGKILL after the grace period.
        """
        request = cri_pb2.StopContainerRequest(container_id=container, timeout=grace_seconds)
        deadline = grace_seconds + _STOP_MARGIN_SECONDS
        await self._rpc.call("StopContainer", request, cri_pb2.StopContainerResponse, deadline_seconds=deadline)

    async def remove(self, container: str) -> None:
        """
        Remove a container, running or not.
        """
        request = cri_pb2.RemoveContainerRequest(container_id=container)
        await self._rpc.call("RemoveContainer", request, cri_pb2.RemoveContainerResponse)

    async def remove_pod(self, pod: str) -> None:
        """
        Stop a pod with all its containers, and remove it.
        """
        stop = cri_pb2.StopPodSandboxRequest(pod_sandbox_id=pod)
        await self._rpc.call("StopPodSandbox", stop, cri_pb2.StopPodSandboxResponse)
        remove = cri_pb2.RemovePodSandboxRequest(pod_sandbox_id=pod)
        await self._rpc.call("RemovePodSandbox", remove, cri_pb2.RemovePodSandboxResponse)
        self._pods.pop(pod, None)

    async def remove_all_pods(self) -> None:
        """
        Remove every pod the runtime has, whoever ran it.
        """
        waiting = list(await self.list_pods())

        async def remove_some() -> None:
            while waiting:
                await self.remove_pod(waiting.pop())

        async with asyncio.TaskGroup() as group:
            for _ in range(_REMOVALS_AT_ONCE):
                group.create_task(remove_some())

    async def list_pods(self) -> tuple[str, ...]:
        """
        List the ids of all pods.
        """
        response = await self._rpc.call(
            "ListPodSandbox", cri_pb2.ListPodSandboxRequest(), cri_pb2.ListPodSandboxResponse
        )
        return tuple(item.id for item in response.items)

    async def list_containers(self) -> tuple[Listed, ...]:
        """
        List all containers, oldest first.
        """
        response = await self._rpc.call(
            "ListContainers", cri_pb2.ListContainersRequest(), cri_pb2.ListContainersResponse
        )
        return tuple(_listed(item) for item in sorted(response.containers, key=lambda item: item.created_at))

    async def status(self, container: str) -> Status:
        """
        Ask for a container's state and the spec it runs by.
        """
        request = cri_pb2.ContainerStatusRequest(container_id=container, verbose=True)
        return _status(await self._rpc.call("ContainerStatus", request, cri_pb2.ContainerStatusResponse))

    async def wait_for_state(self, container: str, state: str, *, timeout_seconds: float = 30.0) -> Status:
        """
        Wait until a container is created, running or exited.

        Raises:
            Overdue: It did not get there in time.
        """

        async def status_if_there() -> Status | None:
            status = await self.status(container)
            return status if status.state == state else None

        return await waiting.until_awaited(
            status_if_there, what=f"container {container[:12]} to be {state}", timeout_seconds=timeout_seconds
        )

    async def exec(self, container: str, argv: Sequence[str]) -> str:
        """
        Run a program in a running container.

        Returns:
            What it wrote to its standard output.

        Raises:
            LabError: It ended with another status than 0.
        """
        request = cri_pb2.ExecSyncRequest(container_id=container, cmd=argv, timeout=int(DEADLINE_SECONDS))
        response = await self._rpc.call("ExecSync", request, cri_pb2.ExecSyncResponse)
        if response.exit_code != 0:
            error = response.stderr.decode(errors="replace").strip()
            raise LabError(f"{' '.join(argv)} in {container[:12]} ended with status {response.exit_code}: {error}")
        return response.stdout.decode(errors="replace")


def _listed(item: cri_pb2.Container) -> Listed:
    return Listed(
        id=item.id,
        pod=item.pod_sandbox_id,
        name=item.metadata.name,
        attempt=item.metadata.attempt,
        state=_STATES[item.state],
    )


def _status(response: cri_pb2.ContainerStatusResponse) -> Status:
    info: Mapping[str, Any] = json.loads(response.info["info"])
    spec: Mapping[str, Any] = info["runtimeSpec"]
    return Status(
        id=response.status.id,
        name=response.status.metadata.name,
        state=_STATES[response.status.state],
        exit_code=response.status.exit_code,
        pid=info["pid"],
        env=tuple(spec["process"]["env"]),
        mounts=tuple((mount["source"], mount["destination"]) for mount in spec["mounts"]),
        devices=tuple(device["path"] for device in spec["linux"].get("devices", ())),
        annotations=spec.get("annotations", {}),
    )
