from __future__ import annotations

from fractioning_core.kube.collections import Collection
from fractioning_core.kube.transport import METADATA_ONLY, METADATA_ONLY_LIST, Request
from fractioning_core.kube.watchqueries import WatchQueries

PODS = Collection("", "v1", "pods", "a")
PATH = "/api/v1/namespaces/a/pods"


class TestRequests:
    """
    What is asked of a collection.
    """

    def test_initial_events(self) -> None:
        """
        A watch may begin with all that is there, as new as a list would be, and mark the end of it.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": "300",
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            "resourceVersion": "",
        }

        assert Request("GET", PATH, query=query) == WatchQueries(PODS).initial_events(timeout_seconds=300)

    def test_watch(self) -> None:
        """
        A watch goes on from a version, and brings bookmarks.
        """
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": "300", "resourceVersion": "7"}

        assert Request("GET", PATH, query=query) == WatchQueries(PODS).watch("7", timeout_seconds=300)

    def test_page(self) -> None:
        """
        A page has a hundred objects; the first is asked for without saying where to begin.
        """
        queries = WatchQueries(PODS)

        assert [
            Request("GET", PATH, query={"limit": "100"}),
            Request("GET", PATH, query={"limit": "100", "continue": "x"}),
        ] == [queries.page(""), queries.page("x")]

    def test_selectors(self) -> None:
        """
        Both selectors go into lists and watches alike.
        """
        queries = WatchQueries(PODS, label_selector="a=b", field_selector="metadata.name=c")
        selectors = {"labelSelector": "a=b", "fieldSelector": "metadata.name=c"}
        requests = [queries.page(""), queries.watch("7", timeout_seconds=1), queries.initial_events(timeout_seconds=1)]

        assert [selectors] * 3 == [{name: request.query[name] for name in selectors} for request in requests]

    def test_metadata_only(self) -> None:
        """
        Metadata is asked for by what the answer may be, which differs between lists and watches.
        """
        queries = WatchQueries(PODS, metadata_only=True)

        assert [METADATA_ONLY_LIST, METADATA_ONLY] == [
            queries.page("").accept,
            queries.watch("7", timeout_seconds=1).accept,
        ]
