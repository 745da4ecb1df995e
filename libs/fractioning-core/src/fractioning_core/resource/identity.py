"""
What the resource is called.
"""

from __future__ import annotations

GROUP = "gpu-fractioning.kai.scheduler"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "GpuFractioningConfig"
LIST_KIND = "GpuFractioningConfigList"
PLURAL = "gpufractioningconfigs"
SINGULAR = "gpufractioningconfig"
SHORT_NAME = "gfc"

# One configures the whole cluster, so that no two can contradict each other.
NAME = "default"

# On the resource: the namespace whose controller serves it.
NAMESPACE_ANNOTATION = f"{GROUP}/controller-namespace"
