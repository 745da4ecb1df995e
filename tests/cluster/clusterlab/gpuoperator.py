"""
What NVIDIA's GPU Operator has in a cluster beside the ClusterPolicy of `apilab.policies`, and what it makes of that.

The operator itself is not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Manifest = Mapping[str, Any]

POLICY = "cluster-policy"


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
