"""
What the two DaemonSets have in common, and their manifest around one pod.

Manifests are plain objects as the API server takes them, made anew for each plan and always the same for the same
input. Each carries the hash of itself, by which a plan sees that nothing changed. Fields that are left to the API
server's defaults are left out, so that its defaulting is never a difference.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from fractioning_core import resource
from fractioning_core.resource import Config

from controller import identifiers, placement, podparts
from controller.options import FIPS_ONLY, Options

# Long enough to tell manifests apart, short enough to read.
_HASH_LENGTH = 16

Manifest = dict[str, Any]


@attrs.frozen
class Input:
    """
    What a DaemonSet is made from.

    Attributes:
        config: the user's wishes.
        options: the installation.
        is_nri: whether the GPU Operator runs its NRI plugin: GPUs then come by CDI annotation, and never by
            RuntimeClass, since that mode deletes it.
    """

    config: Config
    options: Options
    is_nri: bool

    @property
    def runtime_class(self) -> str | None:
        """
        The RuntimeClass of pods that use the driver; None to leave the field out.
        """
        return None if self.is_nri else runtime_class(self.config.spec.runtime_class_name)


@attrs.frozen
class Pod:
    """
    What is particular about a daemon's pod.

    Attributes:
        component: the daemon.
        service_account: empty for the namespace's default.
        containers, volumes: as core/v1 has them.
        annotations: of the pod template.
        fields: more fields of the pod's spec.
    """

    component: str
    service_account: str
    containers: Sequence[Manifest]
    volumes: Sequence[Mapping[str, Any]]
    annotations: Mapping[str, str]
    fields: Mapping[str, Any]


def build(given: Input, pod: Pod) -> Manifest:
    """
    Make the manifest of a DaemonSet around a pod.
    """
    labels = identifiers.component_labels(pod.component)
    manifest: Manifest = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": identifiers.daemonset_name(pod.component),
            "namespace": given.options.namespace,
            "labels": dict(labels),
            "ownerReferences": [_owner_reference(given.config)],
        },
        "spec": {
            "selector": {"matchLabels": dict(labels)},
            "updateStrategy": {"type": "RollingUpdate"},
            "template": {"metadata": _template_metadata(given.options, pod, labels), "spec": _pod_spec(given, pod)},
        },
    }
    manifest["metadata"]["annotations"] = {identifiers.SPEC_HASH_ANNOTATION: hash_of(manifest)}
    return manifest


def spec_hash(manifest: Manifest) -> str:
    """
    Give the hash that a manifest carries.
    """
    return str(manifest["metadata"]["annotations"][identifiers.SPEC_HASH_ANNOTATION])


def hash_of(manifest: Manifest) -> str:
    """
    Give the hash of a manifest that does not carry it yet.
    """
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]


def runtime_class(name: str | None) -> str | None:
    """
    Resolve `runtimeClassName`: absent means the default, empty means none.
    """
    return identifiers.DEFAULT_RUNTIME_CLASS if name is None else name or None


def cdi_annotations(container: str, *, is_nri: bool) -> dict[str, str]:
    """
    Give the annotation that hands a container every GPU of the node, in the mode that has no RuntimeClass.
    """
    key = f"{identifiers.CDI_ANNOTATION_PREFIX}{container}"
    return {key: identifiers.CDI_MANAGEMENT_DEVICE} if is_nri else {}


def fips_env(options: Options) -> list[Manifest]:
    """
    Give the variable that makes a program refuse what is not FIPS; modes other than `only` need none.
    """
    return [podparts.variable("FIPS_MODE", FIPS_ONLY)] if options.fips_mode == FIPS_ONLY else []


def _owner_reference(config: Config) -> Manifest:
    return {
        "apiVersion": resource.API_VERSION,
        "kind": resource.KIND,
        "name": config.name,
        "uid": config.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _template_metadata(options: Options, pod: Pod, labels: Mapping[str, str]) -> Manifest:
    pinned = {"openshift.io/required-scc": options.required_scc} if options.required_scc else {}
    annotations = {**pod.annotations, **pinned}
    return {"labels": dict(labels), **({"annotations": annotations} if annotations else {})}


def _pod_spec(given: Input, pod: Pod) -> Manifest:
    spec, options = given.config.spec, given.options
    optional: Manifest = {
        "serviceAccountName": pod.service_account,
        "priorityClassName": options.priority_class_name,
        "imagePullSecrets": [{"name": name} for name in options.image_pull_secrets],
        "tolerations": [dict(resource.write(toleration)) for toleration in spec.tolerations],
    }
    return {
        "nodeSelector": placement.node_selector(spec),
        "affinity": placement.affinity(pod.component),
        **{name: value for name, value in optional.items() if value},
        **pod.fields,
        "containers": list(pod.containers),
        "volumes": list(pod.volumes),
    }
