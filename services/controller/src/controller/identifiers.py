"""
The names under which the controller is known in the cluster, and those of the GPU stack that it reads.

What the daemons have to agree on stands in `fractioning_core.names`; what stands here is between the controller and
the cluster, so that a change of one of them is a change of the product.
"""

from __future__ import annotations

# In the order in which they are reconciled and reported.
FRACTIOND = "fractiond"
MPSD = "mpsd"
COMPONENTS = (FRACTIOND, MPSD)
METRICSD = "metricsd"

FINALIZER = "gpu-fractioning.nvidia.com/cleanup-node-conditions"
# The scheduler reads it: no fractional pod goes to a node without it.
NODE_CONDITION = "gpu-fractioning.nvidia.com/Ready"

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "gpu-fractioning"
COMPONENT_LABEL = "app.kubernetes.io/component"
# Tells which manifest of ours a DaemonSet was made from.
SPEC_HASH_ANNOTATION = "gpu-fractioning.kai.scheduler/spec-hash"

# The GPU Operator takes its value off `true` while it upgrades the driver, and waits for the pods that select on it.
CLIENT_LABEL = "nvidia.com/gpu.deploy.client"
CLIENT_VALUE = "true"
UPGRADE_LABEL = "nvidia.com/gpu-driver-upgrade-state"
UPGRADE_DONE = "upgrade-done"

DEFAULT_RUNTIME_CLASS = "nvidia"
CDI_ANNOTATION_PREFIX = "nvidia.cdi.k8s.io/container."
CDI_MANAGEMENT_DEVICE = "management.nvidia.com/gpu=all"
CDI_NAMESPACES_VARIABLE = "NRI_MANAGEMENT_CDI_DEVICE_NAMESPACES"
DEVICE_LIST_STRATEGY_VARIABLE = "DEVICE_LIST_STRATEGY"

CSV_NAME_PREFIX = "gpu-operator"

# mpsd serves no HTTP unless told to; fractiond's port is `names.READINESS_PORT`.
MPSD_HEALTH_PORT = 8094
METRICS_PORT = 2112
METRICS_PATH = "/metrics"


def daemonset_name(component: str) -> str:
    """
    Give the name of a component's DaemonSet.
    """
    return f"gpu-fractioning-{component}"


def component_labels(component: str) -> dict[str, str]:
    """
    Give the labels by which a component's DaemonSet and pods are ours.
    """
    return {MANAGED_BY_LABEL: MANAGED_BY, COMPONENT_LABEL: component}
