"""
The requests with which a collection is listed and watched.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from fractioning_core.kube.collections import Collection
from fractioning_core.kube.transport import JSON, METADATA_ONLY, METADATA_ONLY_LIST, Request

PAGE_SIZE = 100
"""
Objects in one answer to a list. A whole list of 5,000 nodes costs Python 300 MiB at its peak, and pages of 100 cost 13,
in the same time.
"""


@attrs.frozen
class WatchQueries:
    """
    What is asked about one collection.

    Args:
        collection: Which objects.
        label_selector: Only those with such labels; empty for all.
        field_selector: Only those with such fields; empty for all.
        metadata_only: Whether their metadata is enough.
    """

    collection: Collection
    label_selector: str = attrs.field(default="", kw_only=True)
    field_selector: str = attrs.field(default="", kw_only=True)
    metadata_only: bool = attrs.field(default=False, kw_only=True)

    def initial_events(self, *, timeout_seconds: int) -> Request:
        """
        Ask for everything that is there and for what happens afterwards, in one stream.

        Args:
            timeout_seconds: When the server ends the stream.
        """
        return self._watch(
            timeout_seconds,
            {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "resourceVersion": ""},
        )

    def watch(self, version: str, *, timeout_seconds: int) -> Request:
        """
        Ask for what happened since a version.
        """
        return self._watch(timeout_seconds, {"resourceVersion": version})

    def page(self, continue_token: str) -> Request:
        """
        Ask for some of what is there, from the first, or from where the last page ended.
        """
        query = {**self._selectors(), "limit": str(PAGE_SIZE)}
        if continue_token:
            query["continue"] = continue_token
        accept = METADATA_ONLY_LIST if self.metadata_only else JSON
        return Request("GET", self.collection.path, query=query, accept=accept)

    def _watch(self, timeout_seconds: int, more: Mapping[str, str]) -> Request:
        query = {
            **self._selectors(),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(timeout_seconds),
            **more,
        }
        accept = METADATA_ONLY if self.metadata_only else JSON
        return Request("GET", self.collection.path, query=query, accept=accept)

    def _selectors(self) -> dict[str, str]:
        selectors = {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}
        return {name: value for name, value in selectors.items() if value}
