"""
The controller's rights as the chart grants them, and what it is like without one of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fractioning_core.kube.collections import Collection

from apilab import objects
from apilab.audit import Right
from apilab.cluster import Cluster
from apilab.helm import NAMESPACE, RELEASE

# Where events about objects without a namespace lie.
_EVENTS = "default"
_GROUP = "rbac.authorization.k8s.io"
_ROLES = (
    Collection(_GROUP, "v1", "clusterroles").item_path(RELEASE),
    Collection(_GROUP, "v1", "roles", NAMESPACE).item_path(RELEASE),
    Collection(_GROUP, "v1", "roles", _EVENTS).item_path(f"{RELEASE}-events"),
)
USER = f"system:serviceaccount:{NAMESPACE}:{RELEASE}"


async def granted(cluster: Cluster) -> frozenset[Right]:
    """
    Read what the controller's roles grant.
    """
    rules = [rule for path in _ROLES for rule in (await cluster.objects.get(path) or {})["rules"]]
    return frozenset(right for rule in rules for right in _rights(rule))


@asynccontextmanager
async def without(cluster: Cluster, *taken: Right) -> AsyncIterator[None]:
    """
    Take rights from the controller while entered.
    """
    before = {path: (await cluster.objects.get(path) or {})["rules"] for path in _ROLES}
    try:
        for path, rules in before.items():
            left = [each for rule in rules for each in _split(rule) if not set(_rights(each)) & set(taken)]
            await cluster.objects.merge_patch(path, {"rules": left})
        for right in taken:
            await _come_to(cluster, right, is_allowed=False)
        yield
    finally:
        for path, rules in before.items():
            await cluster.objects.merge_patch(path, {"rules": rules})
        for right in taken:
            await _come_to(cluster, right, is_allowed=True)


def _rights(rule: Mapping[str, Any]) -> Sequence[Right]:
    return [
        Right(group, name, verb) for group in rule["apiGroups"] for name in rule["resources"] for verb in rule["verbs"]
    ]


def _split(rule: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """
    Make a rule of its own for each right.
    """
    return [
        {**rule, "apiGroups": [right.group], "resources": [right.resource], "verbs": [right.verb]}
        for right in _rights(rule)
    ]


async def _come_to(cluster: Cluster, right: Right, *, is_allowed: bool) -> None:
    """
    Wait until the API server goes by the new roles.
    """
    name, _, subresource = right.resource.partition("/")
    # For any object of that kind, and for the ones that roles name.
    names = ("gpu-fractioning-mpsd", "gpu-fractioning.kai.scheduler", "")

    async def asked() -> bool:
        answers = [
            await _review(cluster, right, name, subresource, item=item, namespace=namespace)
            for item in names
            for namespace in (NAMESPACE, _EVENTS)
        ]
        return any(answers) is is_allowed

    await cluster.until(asked, what=f"{right} to be {'granted' if is_allowed else 'refused'}")


async def _review(cluster: Cluster, right: Right, name: str, subresource: str, *, item: str, namespace: str) -> bool:
    attributes = {
        "group": right.group,
        "resource": name,
        "subresource": subresource,
        "verb": right.verb,
        "namespace": namespace,
        "name": item,
    }
    return await objects.may(cluster.admin, USER, attributes)
