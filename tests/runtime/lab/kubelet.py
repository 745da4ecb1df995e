"""
Requests as a kubelet would fill them in: names in labels, annotations of its own, one cgroup per pod.

Pure: values in, CRI messages out. Pods share the host's network and processes, so that no network plugin is needed.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

import attrs
from nri_aio.pb import cri_pb2

POD_NAME = "io.kubernetes.pod.name"
POD_NAMESPACE = "io.kubernetes.pod.namespace"
POD_UID = "io.kubernetes.pod.uid"
CONTAINER_NAME = "io.kubernetes.container.name"
_TERMINATION_LOG = "/dev/termination-log"


@attrs.frozen
class Pod:
    """
    A pod to run; annotations and labels are those its author wrote.
    """

    name: str
    namespace: str = "default"
    uid: str = attrs.field(factory=lambda: str(uuid.uuid4()))
    annotations: Mapping[str, str] = attrs.field(factory=dict)
    labels: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class Container:
    """
    A container to create; lists keep their order and their duplicates.
    """

    name: str
    image: str
    command: Sequence[str] = ()
    env: Sequence[tuple[str, str]] = ()
    mounts: Sequence[tuple[str, str]] = ()
    """
    Pairs of a path on the host and a path in the container.
    """
    devices: Sequence[tuple[str, str]] = ()
    """
    Pairs of a device node on the host and its path in the container.
    """
    cdi_devices: Sequence[str] = ()
    annotations: Mapping[str, str] = attrs.field(factory=dict)
    attempt: int = 0


def pod_config(pod: Pod, cgroup_parent: str) -> cri_pb2.PodSandboxConfig:
    """
    Make the request's part that says what the pod is.
    """
    return cri_pb2.PodSandboxConfig(
        metadata=cri_pb2.PodSandboxMetadata(name=pod.name, namespace=pod.namespace, uid=pod.uid),
        labels={**pod.labels, **_names_of(pod.name, pod.namespace, pod.uid)},
        annotations={
            **pod.annotations,
            "kubernetes.io/config.seen": "2026-01-01T00:00:00.000000000Z",
            "kubernetes.io/config.source": "api",
        },
        linux=cri_pb2.LinuxPodSandboxConfig(
            cgroup_parent=f"{cgroup_parent}/kubepods/pod{pod.uid}",
            security_context=cri_pb2.LinuxSandboxSecurityContext(namespace_options=_host_namespaces()),
        ),
    )


def container_config(container: Container, pod: cri_pb2.PodSandboxConfig) -> cri_pb2.ContainerConfig:
    """
    Make the request's part that says what the container is.
    """
    identity = pod.metadata
    names = _names_of(identity.name, identity.namespace, identity.uid)
    return cri_pb2.ContainerConfig(
        metadata=cri_pb2.ContainerMetadata(name=container.name, attempt=container.attempt),
        image=cri_pb2.ImageSpec(image=container.image),
        command=container.command,
        envs=[cri_pb2.KeyValue(key=key, value=value) for key, value in container.env],
        mounts=[cri_pb2.Mount(host_path=host, container_path=inside) for host, inside in container.mounts],
        devices=[_device(host, inside) for host, inside in container.devices],
        CDI_devices=[cri_pb2.CDIDevice(name=name) for name in container.cdi_devices],
        labels={**names, CONTAINER_NAME: container.name},
        annotations={**_bookkeeping(container), **container.annotations},
        linux=cri_pb2.LinuxContainerConfig(
            security_context=cri_pb2.LinuxContainerSecurityContext(namespace_options=_host_namespaces())
        ),
    )


def _names_of(name: str, namespace: str, uid: str) -> dict[str, str]:
    return {POD_NAME: name, POD_NAMESPACE: namespace, POD_UID: uid}


def _bookkeeping(container: Container) -> dict[str, str]:
    return {
        "io.kubernetes.container.hash": "8e1f3c60",
        "io.kubernetes.container.restartCount": str(container.attempt),
        "io.kubernetes.container.terminationMessagePath": _TERMINATION_LOG,
        "io.kubernetes.container.terminationMessagePolicy": "File",
        "io.kubernetes.pod.terminationGracePeriod": "30",
    }


def _device(host: str, inside: str) -> cri_pb2.Device:
    return cri_pb2.Device(host_path=host, container_path=inside, permissions="rwm")


def _host_namespaces() -> cri_pb2.NamespaceOption:
    return cri_pb2.NamespaceOption(network=cri_pb2.NODE, pid=cri_pb2.NODE)
