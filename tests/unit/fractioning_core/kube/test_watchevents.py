from __future__ import annotations

from typing import Any

import pytest
from fractioning_core.kube import watchevents
from fractioning_core.kube.collections import Key
from fractioning_core.kube.errors import BadAnswer
from fractioning_core.kube.watchevents import Bookmark, Changed, Deleted

REQUEST = "GET /api/v1/pods"
POD = {"metadata": {"name": "p", "namespace": "a", "resourceVersion": "7"}, "spec": {}}


class TestObjects:
    """
    Objects and bookmarks out of JSON.
    """

    def test_changed(self) -> None:
        """
        An object says who it is and of which version.
        """
        assert Changed(Key("a", "p"), "7", POD) == watchevents.changed(REQUEST, POD)

    def test_no_namespace(self) -> None:
        """
        An object of the cluster has an empty namespace.
        """
        node = {"metadata": {"name": "n", "resourceVersion": "7"}}

        assert Changed(Key("", "n"), "7", node) == watchevents.changed(REQUEST, node)

    def test_deleted(self) -> None:
        """
        Of an object that is gone, only that is kept.
        """
        assert Deleted(Key("a", "p"), "7") == watchevents.deleted(REQUEST, POD)

    @pytest.mark.parametrize(
        "manifest",
        [
            pytest.param({}, id="empty"),
            pytest.param([POD], id="a list"),
            pytest.param({"metadata": {"name": "p"}}, id="no version"),
            pytest.param({"metadata": {"resourceVersion": "7"}}, id="no name"),
            pytest.param({"metadata": {"name": 7, "resourceVersion": "7"}}, id="a name that is a number"),
            pytest.param({"metadata": {"name": "p", "resourceVersion": ""}}, id="an empty version"),
            pytest.param({"metadata": {"name": "", "resourceVersion": "7"}}, id="an empty name"),
        ],
    )
    def test_nobody(self, manifest: object) -> None:
        """
        An object that does not say so is refused.
        """
        with pytest.raises(BadAnswer) as raised:
            watchevents.changed(REQUEST, manifest)

        assert BadAnswer(REQUEST, "has an object without name or version") == raised.value

    @pytest.mark.parametrize(
        ("annotations", "ends"),
        [
            pytest.param({}, False, id="no annotations"),
            pytest.param({"annotations": None}, False, id="null"),
            pytest.param({"annotations": {"k8s.io/initial-events-end": "true"}}, True, id="the one"),
        ],
    )
    def test_bookmark(self, *, annotations: dict[str, Any], ends: bool) -> None:
        """
        A bookmark has a version, and one annotation that ends the initial events.
        """
        manifest = {"metadata": {"resourceVersion": "9", **annotations}}

        assert Bookmark("9", ends) == watchevents.bookmark(REQUEST, manifest)

    def test_bookmark_without_version(self) -> None:
        """
        A bookmark without a version marks nothing.
        """
        with pytest.raises(BadAnswer):
            watchevents.bookmark(REQUEST, {"metadata": {}})


class TestPage:
    """
    The answer to a list.
    """

    def test_objects(self) -> None:
        """
        A page has objects, the version of the list, and where the next one begins.
        """
        page = watchevents.page(REQUEST, {"items": [POD], "metadata": {"resourceVersion": "9", "continue": "more"}})

        assert ("9", "more", [Changed(Key("a", "p"), "7", POD)]) == (
            page.version,
            page.continue_token,
            list(page.objects()),
        )

    def test_empty(self) -> None:
        """
        A list of nothing may be null, and has no next page.
        """
        page = watchevents.page(REQUEST, {"items": None, "metadata": {"resourceVersion": "9"}})

        assert ("", []) == (page.continue_token, list(page.objects()))

    @pytest.mark.parametrize(
        "answer",
        [
            pytest.param({"metadata": {"resourceVersion": "9"}}, id="no items"),
            pytest.param({"items": {}, "metadata": {"resourceVersion": "9"}}, id="items that are no list"),
            pytest.param({"items": [], "metadata": {}}, id="no version"),
        ],
    )
    def test_no_list(self, answer: dict[str, Any]) -> None:
        """
        Anything else is refused.
        """
        with pytest.raises(BadAnswer) as raised:
            watchevents.page(REQUEST, answer)

        assert BadAnswer(REQUEST, "is not a list") == raised.value
