"""
Small stand-ins for the GPU Operator's ClusterPolicy and OLM's ClusterServiceVersion: the fields that are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fractioning_core.kube.collections import Collection

POLICIES = Collection("nvidia.com", "v1", "clusterpolicies")
SERVICE_VERSIONS = Collection("operators.coreos.com", "v1alpha1", "clusterserviceversions")

TOOLKIT = "v1.20.1-ubuntu20.04"
DEVICE_PLUGIN = "v0.20.1"


def policy_definition() -> Mapping[str, Any]:
    """
    The CRD of ClusterPolicy.
    """
    return _definition(POLICIES, kind="ClusterPolicy", scope="Cluster")


def service_version_definition() -> Mapping[str, Any]:
    """
    The CRD of ClusterServiceVersion.
    """
    return _definition(SERVICE_VERSIONS, kind="ClusterServiceVersion", scope="Namespaced")


def policy(
    name: str = "cluster-policy",
    *,
    version: str = "v26.7.1",
    toolkit: str = TOOLKIT,
    device_plugin: str = DEVICE_PLUGIN,
    nri: object = False,
    environ: Mapping[str, str] | None = None,
    plugin_environ: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """
    A ClusterPolicy.

    Args:
        name: Its name.
        version: Of the GPU Operator, as its label says.
        toolkit: Version of the container toolkit.
        device_plugin: Version of the device plugin.
        nri: `spec.cdi.nriPluginEnabled`.
        environ: Variables of the toolkit.
        plugin_environ: Variables of the device plugin.
    """
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/version": version}},
        "spec": {
            "cdi": {"nriPluginEnabled": nri},
            "toolkit": {"version": toolkit, "env": _variables(environ)},
            "devicePlugin": {"version": device_plugin, "env": _variables(plugin_environ)},
        },
    }


def service_version(name: str, version: str) -> dict[str, Any]:
    """
    A ClusterServiceVersion of NVIDIA's.
    """
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": name},
        "spec": {"version": version, "provider": {"name": "NVIDIA Corporation"}},
    }


def _variables(environ: Mapping[str, str] | None) -> list[Mapping[str, str]]:
    return [{"name": key, "value": value} for key, value in (environ or {}).items()]


def _definition(collection: Collection, *, kind: str, scope: str) -> Mapping[str, Any]:
    # Whatever stands in it is kept, valid or not: the readers have to cope with that.
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    version = {
        "name": collection.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{collection.plural}.{collection.group}"},
        "spec": {
            "group": collection.group,
            "names": {"kind": kind, "plural": collection.plural, "singular": kind.lower()},
            "scope": scope,
            "versions": [version],
        },
    }
