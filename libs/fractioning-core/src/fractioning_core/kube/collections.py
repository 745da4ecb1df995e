"""
Which objects: one kind in the whole cluster or in one namespace, and how an object of it is called.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

import attrs


class Key(NamedTuple):
    """
    The name of an object within its kind; the namespace is empty for one of the cluster.
    """

    namespace: str
    name: str


@attrs.frozen
class Collection:
    """
    All objects of one kind.

    Args:
        group: The API group; empty for the core group.
        version: Its version.
        plural: The kind as paths call it, `nodes`.
        namespace: The only namespace to look at; empty for the whole cluster.
    """

    group: str
    version: str
    plural: str
    namespace: str = ""

    @property
    def path(self) -> str:
        """
        The path of the collection below the server's address.
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        namespace = f"/namespaces/{quote(self.namespace, safe='')}" if self.namespace else ""
        return f"{root}{namespace}/{self.plural}"

    def item_path(self, name: str) -> str:
        """
        Give the path of one object.
        """
        return f"{self.path}/{quote(name, safe='')}"

    def subresource(self, name: str, subresource: str) -> str:
        """
        Give the path of a part of one object that has rights of its own, `status`.
        """
        return f"{self.item_path(name)}/{subresource}"

    def within(self, namespace: str) -> Collection:
        """
        Give the same kind in one namespace.
        """
        return attrs.evolve(self, namespace=namespace)

    def __str__(self) -> str:
        kind = f"{self.plural}.{self.group}" if self.group else self.plural
        return f"{kind} in {self.namespace}" if self.namespace else kind
