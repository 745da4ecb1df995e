from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from controller import drift

US = "us"
SPEC: Mapping[str, Any] = {"f:spec": {"f:template": {}}}
OURS = {"manager": US, "operation": "Apply", "fieldsV1": SPEC}
THEIRS = {"manager": "manager", "operation": "Update", "fieldsV1": SPEC}
STATUS = {"manager": "controller", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {}}}


def found(entries: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return {"metadata": {"managedFields": entries}}


class TestIsForeign:
    """
    Whether somebody else has fields of the spec.
    """

    @pytest.mark.parametrize(
        ("entries", "expected"),
        [
            pytest.param([{"manager": US, "operation": "Apply", "fieldsV1": SPEC}], False, id="ours"),
            pytest.param([{"manager": US, "operation": "Update", "fieldsV1": SPEC}], False, id="ours, by replacing"),
            pytest.param([{"manager": "kubectl-edit", "operation": "Update", "fieldsV1": SPEC}], True, id="another's"),
            pytest.param(
                [{"manager": "kube-controller-manager", "subresource": "status", "fieldsV1": {"f:status": {}}}],
                False,
                id="the status",
            ),
            pytest.param([{"manager": "other", "fieldsV1": {"f:metadata": {"f:labels": {}}}}], False, id="a label"),
            pytest.param(
                [{"manager": "scaler", "subresource": "scale", "fieldsV1": SPEC}], False, id="through a subresource"
            ),
            pytest.param([], False, id="nobody"),
        ],
    )
    def test_entries(self, entries: Sequence[Mapping[str, Any]], expected: bool) -> None:  # noqa: FBT001 - a table
        """
        Only another's fields of the spec itself count.
        """
        assert expected is drift.is_foreign(found(entries), manager=US)


class TestReplacement:
    """
    The object that is written whole.
    """

    def test_whole(self) -> None:
        """
        It has our spec alone, the version that was read, the labels and annotations of both, and no record of others.
        """
        wanted = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {
                "name": "a",
                "labels": {"ours": "new"},
                "annotations": {"hash": "2"},
                "ownerReferences": [{"uid": "u"}],
            },
            "spec": {"selector": {}},
        }
        live = {
            "metadata": {
                "name": "a",
                "uid": "d",
                "resourceVersion": "7",
                "labels": {"ours": "old", "theirs": "1"},
                "annotations": {"hash": "1", "deprecated.daemonset.template.generation": "3"},
                "managedFields": [OURS, THEIRS, STATUS],
            },
            "spec": {"selector": {}, "minReadySeconds": 5},
            "status": {},
        }

        assert {
            **wanted,
            "metadata": {
                "name": "a",
                "uid": "d",
                "resourceVersion": "7",
                "labels": {"ours": "new", "theirs": "1"},
                "annotations": {"hash": "2", "deprecated.daemonset.template.generation": "3"},
                "ownerReferences": [{"uid": "u"}],
                "managedFields": [OURS, STATUS],
            },
        } == drift.replacement(live, wanted, manager=US)
