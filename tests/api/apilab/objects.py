"""
The objects that tests need in a cluster, made by an administrator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from fractioning_core.kube.transport import Request, Transport
from lab import waiting

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_SECONDS = 30.0
_RBAC_GROUP = "rbac.authorization.k8s.io"


@attrs.frozen
class ServiceAccount:
    """
    Who a pod is.
    """

    namespace: str
    name: str

    @property
    def path(self) -> str:
        """
        Its path below the server's address.
        """
        return f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{self.name}"


@attrs.frozen
class Rule:
    """
    What may be done to which resources of the core group.
    """

    verbs: Sequence[str]
    resources: Sequence[str]


async def create_node(api: Transport, name: str, *, labels: Mapping[str, str] | None = None) -> None:
    """
    Register a node that no kubelet stands behind.
    """
    await _create(api, "/api/v1/nodes", {"metadata": {"name": name, "labels": dict(labels or {})}})


async def read_node(api: Transport, name: str) -> Mapping[str, Any]:
    """
    Read a node.
    """
    return await api.ask(Request("GET", f"/api/v1/nodes/{name}"))


async def node_labels(api: Transport, name: str) -> Mapping[str, str]:
    """
    Read the labels of a node.
    """
    labels: Mapping[str, str] = (await read_node(api, name))["metadata"].get("labels", {})
    return labels


async def create_account(api: Transport, namespace: str, name: str) -> ServiceAccount:
    """
    Make a ServiceAccount in a namespace of its own.
    """
    await _create(api, "/api/v1/namespaces", {"metadata": {"name": namespace}})
    await _create(api, f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
    return ServiceAccount(namespace, name)


async def grant(api: Transport, account: ServiceAccount, rule: Rule) -> None:
    """
    Give an account a right in the whole cluster, by a role and a binding called after the namespace, and wait until the
    API server goes by them.
    """
    role = {
        "metadata": {"name": account.namespace},
        "rules": [{"apiGroups": [""], "resources": list(rule.resources), "verbs": list(rule.verbs)}],
    }
    binding = {
        "metadata": {"name": account.namespace},
        "roleRef": {"apiGroup": _RBAC_GROUP, "kind": "ClusterRole", "name": account.namespace},
        "subjects": [{"kind": "ServiceAccount", "namespace": account.namespace, "name": account.name}],
    }
    await _create(api, f"{_RBAC}/clusterroles", role)
    await _create(api, f"{_RBAC}/clusterrolebindings", binding)

    user = f"system:serviceaccount:{account.namespace}:{account.name}"
    rights = [{"verb": verb, "resource": resource} for verb in rule.verbs for resource in rule.resources]

    async def is_allowed() -> bool:
        return all([await may(api, user, right) for right in rights])

    await waiting.until_awaited(is_allowed, what=f"the rights of {account.name}", timeout_seconds=_SECONDS)


async def may(api: Transport, user: str, attributes: Mapping[str, str]) -> bool:
    """
    Tell whether the API server would let a user do something, by the attributes of a SubjectAccessReview.
    """
    body = {"spec": {"user": user, "resourceAttributes": attributes}}
    return bool((await _create(api, _REVIEWS, body))["status"]["allowed"])


async def issue_token(api: Transport, account: ServiceAccount) -> str:
    """
    Issue a token for an account, each time another one.
    """
    answer = await _create(api, f"{account.path}/token", {"spec": {"expirationSeconds": 3600}})
    token: str = answer["status"]["token"]
    return token


async def _create(api: Transport, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    return await api.ask(Request("POST", path, body=body))
