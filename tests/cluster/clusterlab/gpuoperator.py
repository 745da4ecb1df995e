"""
What NVIDIA's GPU Operator has in a cluster: its ClusterPolicy and the RuntimeClass. The operator itself is not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Manifest = Mapping[str, Any]

POLICY = "cluster-policy"
_VERSION = "v26.7.1"
# Whatever stands in it is kept, as the real definition checks many fields that nobody here reads.
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition() -> Manifest:
    """
    Give the CRD of ClusterPolicy.
    """
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _ANYTHING, "status": _ANYTHING}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "clusterpolicies.nvidia.com"},
        "spec": {
            "group": "nvidia.com",
            "names": {"kind": "ClusterPolicy", "plural": "clusterpolicies", "singular": "clusterpolicy"},
            "scope": "Cluster",
            "versions": [version],
        },
    }


def policy() -> Manifest:
    """
    Give a ClusterPolicy whose operands are new enough, without the NRI plugin.
    """
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": POLICY, "labels": {"app.kubernetes.io/version": _VERSION}},
        "spec": {
            "cdi": {"nriPluginEnabled": False},
            "toolkit": {"version": "v1.20.1-ubuntu20.04"},
            "devicePlugin": {"version": "v0.20.1"},
        },
    }


def nri_spec(namespace: str, *, is_on: bool) -> Manifest:
    """
    Give the part of a ClusterPolicy's spec that turns the NRI plugin on or off.

    Args:
        namespace: Whose pods may have the management device.
        is_on: Whether it runs.
    """
    allowed = [{"name": "NRI_MANAGEMENT_CDI_DEVICE_NAMESPACES", "value": namespace}] if is_on else None
    strategy = [{"name": "DEVICE_LIST_STRATEGY", "value": "cdi-cri"}] if is_on else None
    return {"cdi": {"nriPluginEnabled": is_on}, "toolkit": {"env": allowed}, "devicePlugin": {"env": strategy}}


def status() -> Manifest:
    """
    Give the status of an operator that has done its work.
    """
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "simulated"}
    return {"state": "ready", "conditions": [ready]}


def runtime_class() -> Manifest:
    """
    Give the RuntimeClass of pods that use the driver.
    """
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "nvidia"},
        "handler": "nvidia",
    }
