"""
What the GPU stack tells of itself: the ClusterPolicy, and OLM's ClusterServiceVersion where there is none.

Both belong to somebody else, so a field of another type than expected counts as absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from fractioning_core import names
from fractioning_core.versions import ClusterPolicyVersions

from controller import identifiers, manifests

_NVIDIA = "nvidia"


@attrs.frozen
class PolicyCondition:
    """
    A condition of a ClusterPolicy.
    """

    status: str
    message: str = ""

    @property
    def is_true(self) -> bool:
        """
        Whether it says True, however it is spelled.
        """
        return self.status.strip().lower() == "true"


@attrs.frozen
class ClusterPolicy:
    """
    The fields of a ClusterPolicy that we read.

    Attributes:
        name: its name; several are ordered by it.
        versions: what it tells of versions.
        is_nri: whether the GPU Operator runs its NRI plugin and so has no RuntimeClass.
        management_namespaces: where pods may have the management CDI device, in that mode.
        device_list_strategy: the device plugin's `DEVICE_LIST_STRATEGY`; empty where it is not set.
        state: `status.state`; None where there is none.
        error: the condition `Error`.
        ready: the condition `Ready`.
    """

    name: str
    versions: ClusterPolicyVersions = attrs.field(factory=ClusterPolicyVersions)
    is_nri: bool = False
    management_namespaces: frozenset[str] = frozenset()
    device_list_strategy: str = ""
    state: str | None = None
    error: PolicyCondition | None = None
    ready: PolicyCondition | None = None

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> ClusterPolicy:
        """
        Read one as the API server has it.
        """
        toolkit = manifests.mapping(manifest, "spec", "toolkit")
        plugin = manifests.mapping(manifest, "spec", "devicePlugin")
        strategies = list(_iter_values(plugin, identifiers.DEVICE_LIST_STRATEGY_VARIABLE))
        return cls(
            name=manifests.text(manifest, "metadata", "name"),
            versions=ClusterPolicyVersions(
                gpu_operator=manifests.text(manifest, "metadata", "labels", names.CLUSTER_POLICY_VERSION_LABEL),
                container_toolkit=manifests.text(toolkit, "version"),
                device_plugin=manifests.text(plugin, "version"),
            ),
            # Any other spelling, such as a text, is not what the GPU Operator acts on.
            is_nri=manifests.mapping(manifest, "spec", "cdi").get("nriPluginEnabled") is True,
            management_namespaces=frozenset(_iter_parts(toolkit, identifiers.CDI_NAMESPACES_VARIABLE)),
            # Of a variable that is set twice, the last one counts.
            device_list_strategy=strategies[-1].strip() if strategies else "",
            state=manifests.text(manifest, "status", "state").strip() or None,
            error=_condition(manifest, "Error"),
            ready=_condition(manifest, "Ready"),
        )


@attrs.frozen
class ServiceVersion:
    """
    A ClusterServiceVersion of the GPU Operator.
    """

    namespace: str
    name: str
    version: str

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> ServiceVersion | None:
        """
        Read one as the API server has it; None if it is another product's.

        Stand-ins for the GPU Operator in test clusters share its name, so one with another provider is passed over;
        one that names no provider is taken by its name alone.
        """
        name = manifests.text(manifest, "metadata", "name")
        provider = manifests.text(manifest, "spec", "provider", "name").lower()
        if not name.startswith(identifiers.CSV_NAME_PREFIX) or (provider and _NVIDIA not in provider):
            return None
        namespace = manifests.text(manifest, "metadata", "namespace")
        return cls(namespace, name, manifests.text(manifest, "spec", "version"))


def _iter_values(operand: Mapping[str, Any], variable: str) -> Iterator[str]:
    for entry in manifests.iter_objects(operand, "env"):
        if entry.get("name") == variable:
            yield manifests.text(entry, "value")


def _iter_parts(operand: Mapping[str, Any], variable: str) -> Iterator[str]:
    for value in _iter_values(operand, variable):
        yield from (part.strip() for part in value.split(",") if part.strip())


def _condition(manifest: Mapping[str, Any], kind: str) -> PolicyCondition | None:
    found = manifests.condition(manifest, kind)
    if not found:
        return None
    return PolicyCondition(manifests.text(found, "status"), manifests.text(found, "message").strip())
