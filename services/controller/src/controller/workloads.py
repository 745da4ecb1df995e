"""
What is read of the daemons' own objects: pods, DaemonSets, and events about what keeps pods from being created.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

import attrs
from fractioning_core import resource

from controller import identifiers, manifests

# As the API server completes a name: five letters and digits that spell no word.
_SUFFIX = "[bcdfghjklmnpqrstvwxz2456789]{5}"
_CDI_FLAG = "--inject-cdi-device="


@attrs.frozen
class PodView:
    """
    A pod of one of the daemons.

    Attributes:
        node: where it runs; empty while it is not scheduled.
        component: `fractiond` or `mpsd`, by its label.
        is_ready: its condition Ready.
        reason: why it is not ready; empty when it is.
        is_terminating: whether it was told to go.
        owner_uid: the UID of the controller that made it.
    """

    node: str
    component: str
    is_ready: bool
    reason: str = ""
    is_terminating: bool = False
    owner_uid: str = ""

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> PodView:
        """
        Read a pod as the API server has it.
        """
        metadata = manifests.mapping(manifest, "metadata")
        is_ready = manifests.condition(manifest, "Ready").get("status") == "True"
        owner = _controller(metadata)
        return cls(
            node=sys.intern(manifests.text(manifest, "spec", "nodeName")),
            component=sys.intern(manifests.text(metadata, "labels", identifiers.COMPONENT_LABEL)),
            is_ready=is_ready,
            reason="" if is_ready else sys.intern(failure_reason(manifest)),
            is_terminating=bool(manifests.text(metadata, "deletionTimestamp")),
            owner_uid=sys.intern(owner.uid) if owner else "",
        )


@attrs.frozen
class Owner:
    """
    The controller that an object belongs to.
    """

    api_version: str
    kind: str
    name: str
    uid: str

    @property
    def is_config(self) -> bool:
        """
        Whether it is a GpuFractioningConfig, of whatever UID.
        """
        return self.kind == resource.KIND and self.api_version.partition("/")[0] == resource.GROUP


@attrs.frozen
class DaemonSetView:
    """
    A DaemonSet under one of our names, which does not mean that it is ours.

    Attributes:
        name, uid: what it is.
        labels: all of them.
        owner: the controller it belongs to.
        is_deleting: whether it waits for its pods to go.
        generation, observed_generation: of its spec; what the DaemonSet controller has not observed, it does not count.
        desired, ready: numbers of nodes.
        spec_hash: which manifest of ours it was made from.
        injects_cdi: whether its fractiond is told to request CDI devices; None where nothing tells.
    """

    name: str
    uid: str = ""
    labels: Mapping[str, str] = attrs.field(factory=dict)
    owner: Owner | None = None
    is_deleting: bool = False
    generation: int = 0
    observed_generation: int = 0
    desired: int = 0
    ready: int = 0
    spec_hash: str = ""
    injects_cdi: bool | None = None

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> DaemonSetView:
        """
        Read a DaemonSet as the API server has it.
        """
        metadata = manifests.mapping(manifest, "metadata")
        status = manifests.mapping(manifest, "status")
        return cls(
            name=manifests.text(metadata, "name"),
            uid=manifests.text(metadata, "uid"),
            labels=dict(manifests.mapping(metadata, "labels")),
            owner=_controller(metadata),
            is_deleting=bool(manifests.text(metadata, "deletionTimestamp")),
            generation=manifests.number(metadata, "generation"),
            observed_generation=manifests.number(status, "observedGeneration"),
            desired=manifests.number(status, "desiredNumberScheduled"),
            ready=manifests.number(status, "numberReady"),
            spec_hash=manifests.text(metadata, "annotations", identifiers.SPEC_HASH_ANNOTATION),
            injects_cdi=_injects_cdi(manifest),
        )


@attrs.frozen
class FailedCreate:
    """
    An event that says why a DaemonSet's pod could not be created.
    """

    daemonset_uid: str
    message: str
    time: str

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> FailedCreate | None:
        """
        Read an event as the API server has it; None if it tells something else.
        """
        if (
            manifest.get("reason") != "FailedCreate"
            or manifests.text(manifest, "involvedObject", "kind") != "DaemonSet"
        ):
            return None
        times = (
            manifests.text(manifest, "series", "lastObservedTime"),
            manifests.text(manifest, "lastTimestamp"),
            manifests.text(manifest, "eventTime"),
        )
        about = manifests.mapping(manifest, "involvedObject")
        name = manifests.text(about, "name")
        # Each attempt has another name for the pod, and would be another message.
        message = re.sub(rf"\b{re.escape(name)}-{_SUFFIX}\b", f"{name}-*", manifests.text(manifest, "message"))
        return cls(manifests.text(about, "uid"), message, max(times))


def failure_reason(pod: Mapping[str, Any]) -> str:
    """
    Say in one word why a pod is not ready: what its first stuck container waits for, else its phase.
    """
    for kind in ("initContainerStatuses", "containerStatuses"):
        for status in manifests.iter_objects(pod, "status", kind):
            reason = manifests.text(status, "state", "waiting", "reason")
            if reason:
                return reason
    phase = manifests.text(pod, "status", "phase")
    return phase if phase in {"Pending", "Failed"} else "NotReady"


def _controller(metadata: Mapping[str, Any]) -> Owner | None:
    for reference in manifests.iter_objects(metadata, "ownerReferences"):
        if reference.get("controller") is True:
            return Owner(*(manifests.text(reference, field) for field in ("apiVersion", "kind", "name", "uid")))
    return None


def _injects_cdi(manifest: Mapping[str, Any]) -> bool | None:
    for container in manifests.iter_objects(manifest, "spec", "template", "spec", "containers"):
        for argument in container.get("args") or ():
            if isinstance(argument, str) and argument.startswith(_CDI_FLAG):
                return argument == f"{_CDI_FLAG}true"
    return None
