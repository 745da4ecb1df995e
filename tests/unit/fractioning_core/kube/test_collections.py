from __future__ import annotations

import pytest
from fractioning_core.kube.collections import Collection

NODES = Collection("", "v1", "nodes")
PODS = Collection("", "v1", "pods", "a")
DAEMON_SETS = Collection("apps", "v1", "daemonsets", "a")


class TestCollection:
    """
    The objects of one kind.
    """

    @pytest.mark.parametrize(
        ("collection", "path"),
        [
            pytest.param(NODES, "/api/v1/nodes", id="core group, whole cluster"),
            pytest.param(PODS, "/api/v1/namespaces/a/pods", id="core group, one namespace"),
            pytest.param(DAEMON_SETS, "/apis/apps/v1/namespaces/a/daemonsets", id="another group"),
            pytest.param(NODES.within("b/c"), "/api/v1/namespaces/b%2Fc/nodes", id="escaped"),
        ],
    )
    def test_path(self, collection: Collection, path: str) -> None:
        """
        A path is made of group, version, namespace and plural.
        """
        assert path == collection.path

    def test_item_path(self) -> None:
        """
        An object and a part of it lie below the collection.
        """
        assert ("/api/v1/nodes/a%2Fb", "/api/v1/nodes/a/status") == (
            NODES.item_path("a/b"),
            NODES.subresource("a", "status"),
        )

    @pytest.mark.parametrize(
        ("collection", "text"),
        [pytest.param(NODES, "nodes", id="cluster"), pytest.param(DAEMON_SETS, "daemonsets.apps in a", id="namespace")],
    )
    def test_text(self, collection: Collection, text: str) -> None:
        """
        A message calls it as RBAC does.
        """
        assert text == str(collection)
