"""
Builders of what the API server holds, valid until told otherwise.
"""

from __future__ import annotations

from typing import Any

from fractioning_core.resource import identity

SELECTOR = {"nvidia.com/gpu.present": "true"}


def a_config_manifest(
    spec: object = None,
    *,
    status: object = None,
    **metadata: object,
) -> dict[str, Any]:
    """
    Ask for the nodes that have a GPU, and nothing else.
    """
    manifest = {
        "apiVersion": identity.API_VERSION,
        "kind": identity.KIND,
        "metadata": {"name": identity.NAME, **metadata},
        "spec": {"nodeSelector": dict(SELECTOR)} if spec is None else spec,
    }
    return manifest if status is None else {**manifest, "status": status}


def a_spec(**fields: object) -> dict[str, object]:
    """
    Ask for the nodes that have a GPU, and for more.
    """
    return {"nodeSelector": dict(SELECTOR), **fields}
