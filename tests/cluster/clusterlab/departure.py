"""
A release that goes: uninstalled as users do it, or with all that helm and Kubernetes leave behind.
"""

from __future__ import annotations

from apilab.helm import NAMESPACE, RELEASE
from fractioning_core import resource

from clusterlab import fractioningconfig
from clusterlab.release import PODS, Release

_DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{resource.PLURAL}.{resource.GROUP}"
_NAMESPACE = f"/api/v1/namespaces/{NAMESPACE}"
_GONE_SECONDS = 90.0


async def uninstall(release: Release) -> None:
    """
    Uninstall it, and wait until its pods and conditions are gone, too; one that is not there is fine.
    """
    await release.helm().run("uninstall", RELEASE, "--ignore-not-found", f"--timeout={_GONE_SECONDS:.0f}s")
    await fractioningconfig.cleaned(release)
    for pod in await release.pods():
        await release.api.until_gone(f"{PODS}/{pod['metadata']['name']}", timeout_seconds=_GONE_SECONDS)


async def erase(release: Release) -> None:
    """
    Uninstall it, and remove its definition and its namespace, so that the next one is the first of the cluster.
    """
    await uninstall(release)
    for path in (_DEFINITION, _NAMESPACE):
        await release.api.delete(path)
        await release.api.until_gone(path, timeout_seconds=_GONE_SECONDS)
