"""
The API server as the holder of a token sees it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fractioning_core.kube.incluster import Account
from fractioning_core.kube.tokens import FixedTokens
from fractioning_core.kube.transport import Request, Transport

from clusterlab.client import Client
from clusterlab.cluster import Cluster

_RULES = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"


def bearer(cluster: Cluster, token: str) -> Transport:
    """
    Give the way in of whoever has a token; enter it.
    """
    layout = cluster.layout
    account = Account(
        url=f"https://127.0.0.1:{layout.port.read_text()}",
        ca_file=cluster.plane.certificates.ca,
        token_file=layout.pki / "no-token",
    )
    return Transport(account, tokens=FixedTokens(token), user_agent="clusterlab")


async def issue(api: Client, namespace: str, account: str) -> str:
    """
    Have a token made for a ServiceAccount.
    """
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    token: str = (await api.create(path, {"spec": {"expirationSeconds": 600}}))["status"]["token"]
    return token


async def rights(cluster: Cluster, token: str, namespace: str) -> frozenset[str]:
    """
    List what the holder of a token may do in a namespace, as the API server tells it: "verb resource.group [name]".
    """
    async with bearer(cluster, token) as api:
        answer = await api.ask(Request("POST", _RULES, body={"spec": {"namespace": namespace}}))
    status = answer["status"]
    pages = (f"{verb} {path}" for rule in status["nonResourceRules"] for verb in rule["verbs"] for path in _paths(rule))
    return frozenset({*(right for rule in status["resourceRules"] for right in _rights(rule)), *pages})


def _rights(rule: Mapping[str, Any]) -> Iterator[str]:
    names = [f" {name}" for name in rule.get("resourceNames", [])] or [""]
    for verb in rule["verbs"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                yield from (f"{verb} {resource}{'.' if group else ''}{group}{name}" for name in names)


def _paths(rule: Mapping[str, Any]) -> list[str]:
    paths: list[str] = rule.get("nonResourceURLs", [])
    return paths
