"""NRI messages and the domain's values, both ways: the only module here that knows field names of the wire."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import attrs
from fractioning_core import record
from fractioning_core.fraction import Fraction
from fractioning_core.injection import Injection, Observed
from fractioning_core.record import Record
from nri_aio.pb import nri_pb2 as pb

# A key or a mount destination with this in front takes it away from the container and from earlier plugins.
REMOVAL = "-"


@attrs.frozen
class Subject:
    """Which container a line of the log or a message is about."""

    namespace: str
    pod: str
    pod_uid: str
    container: str
    container_id: str

    @classmethod
    def of(cls, pod: pb.PodSandbox, container: pb.Container) -> Subject:
        """Name the container of an NRI request."""
        return cls(pod.namespace, pod.name, pod.uid, container.name, container.id)

    def __str__(self) -> str:
        return f'container "{self.container}" in pod "{self.namespace}/{self.pod}"'

    def keys(self) -> dict[str, str]:
        """Give the log keys that every line about this container carries."""
        return {
            "namespace": self.namespace,
            "pod": self.pod,
            "container": self.container,
            "container_id": self.container_id,
        }


def adjustment(planned: Injection) -> pb.CreateContainerResponse:
    """
    Write an injection as the answer to CreateContainer.

    Each key is removed before it is set: a plain set conflicts with a plugin that set the key before us, and the
    runtime then fails the creation or, worse, keeps the other value.
    """
    return pb.CreateContainerResponse.FromString(_adjustment_bytes(planned))


# Answers repeat as the annotations do. Remembered as bytes, so that everyone gets a message of his own.
@functools.lru_cache(maxsize=256)
def _adjustment_bytes(planned: Injection) -> bytes:
    response = pb.CreateContainerResponse()
    adjust = response.adjust
    env = adjust.env
    for key, value in planned.env:
        env.add(key=REMOVAL + key)
        env.add(key=key, value=value)
    mount = planned.mount
    adjust.mounts.add(destination=REMOVAL + mount.destination)
    adjust.mounts.add(destination=mount.destination, source=mount.source, type="bind", options=mount.options)
    for name in planned.cdi_devices:
        adjust.CDI_devices.add(name=name)
    return response.SerializeToString()


def adjusted(adjust: pb.ContainerAdjustment) -> Observed:
    """Read what all plugins together are about to inject, as a validator sees it."""
    return Observed(
        env=tuple(f"{pair.key}={pair.value}" for pair in adjust.env if not pair.key.startswith(REMOVAL)),
        mounts=_mounts(mount for mount in adjust.mounts if not mount.destination.startswith(REMOVAL)),
        cdi_devices=tuple(device.name for device in adjust.CDI_devices),
    )


def observed(container: pb.Container) -> Observed:
    """
    Read what a container that exists really has.

    CDI devices are not visible there: containerd 2.3.7 lists those that the kubelet requested, not ours.
    """
    return Observed(env=tuple(container.env), mounts=_mounts(container.mounts), cdi_devices=None)


def _mounts(mounts: Iterable[pb.Mount]) -> tuple[tuple[str, str], ...]:
    return tuple((mount.source, mount.destination) for mount in mounts)


def record_of(subject: Subject, container: pb.Container, fraction: Fraction) -> Record:
    """Make the record that metricsd joins processes with: GPUs by annotation, minors as far as the runtime shows."""
    minors = record.nvidia_minors((device.type, device.major, device.minor) for device in container.linux.devices)
    devices = record.devices(fraction.gpu_uuids, minors)
    return Record(
        pod=subject.pod,
        namespace=subject.namespace,
        pod_uid=subject.pod_uid,
        gpu_devices=devices if devices or container.HasField("linux") else None,
        requested_memory_mib=fraction.effective_mib,
        container=subject.container,
        memory_request_mib=fraction.request_mib,
        memory_limit_mib=fraction.limit_mib,
        cgroups_path=container.linux.cgroups_path,
    )
