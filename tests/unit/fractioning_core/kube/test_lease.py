from __future__ import annotations

from typing import Any

import pytest
from fractioning_core.kube import lease
from fractioning_core.kube.lease import Lease, Pod, Sighting

NOW = "2026-03-04T05:06:07.000000Z"
MINE = Lease("me", 15, 3, "2026-01-01T00:00:00.000000Z", "7")
OTHERS = Lease("other", 15, 3, "2026-01-01T00:00:00.000000Z", "7")
NOBODYS = Lease("", 1, 3, None, "7")


def written(manifest: dict[str, Any]) -> tuple[Any, ...]:
    """
    Take what a Lease says, in one row.
    """
    spec = manifest["spec"]
    return (
        manifest["metadata"].get("resourceVersion"),
        *(spec[name] for name in ("holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime")),
        spec["leaseTransitions"],
    )


class TestLease:
    """
    The record.
    """

    def test_round_trip(self) -> None:
        """
        What is written is read again.
        """
        manifest = lease.held("l", by="me", duration_seconds=15.0, before=MINE, now=NOW)

        assert MINE == Lease.from_manifest(manifest)

    @pytest.mark.parametrize(
        "spec",
        [
            pytest.param({}, id="no spec"),
            pytest.param({"spec": None}, id="null"),
            pytest.param({"spec": {"holderIdentity": None, "leaseDurationSeconds": "x"}}, id="odd values"),
        ],
    )
    def test_nobody(self, spec: dict[str, Any]) -> None:
        """
        What is missing or odd is as if nobody held it.
        """
        record = Lease.from_manifest({"metadata": {"resourceVersion": "7"}, **spec})

        assert Lease("", 0, 0, None, "7") == record

    @pytest.mark.parametrize(
        ("before", "row"),
        [
            pytest.param(None, (None, "me", 15, NOW, NOW, 0), id="the first ever"),
            pytest.param(MINE, ("7", "me", 15, MINE.acquired_at, NOW, 3), id="renewed"),
            pytest.param(OTHERS, ("7", "me", 15, NOW, NOW, 4), id="taken over"),
            pytest.param(NOBODYS, ("7", "me", 15, NOW, NOW, 4), id="taken after a release"),
        ],
    )
    def test_held(self, before: Lease | None, row: tuple[Any, ...]) -> None:
        """
        A renewal moves one time, a change of hands both, and is counted.
        """
        assert row == written(lease.held("l", by="me", duration_seconds=15.0, before=before, now=NOW))

    def test_released(self) -> None:
        """
        A lease that is given back has no holder and lasts no time to speak of.
        """
        assert ("7", "", 1, NOW, NOW, 3) == written(lease.released("l", MINE, now=NOW))

    @pytest.mark.parametrize(
        ("pod", "owners"),
        [
            pytest.param(None, None, id="no pod"),
            pytest.param(Pod("p", "u"), [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}], id="a pod"),
        ],
    )
    def test_owner(self, pod: Pod | None, owners: list[dict[str, str]] | None) -> None:
        """
        A lease goes with the pod that holds it, or has given it back last.
        """
        held = lease.held("l", by="me", duration_seconds=15.0, before=OTHERS, now=NOW, pod=pod)
        released = lease.released("l", MINE, now=NOW, pod=pod)

        assert [owners, owners] == [each["metadata"].get("ownerReferences") for each in (held, released)]


class TestSighting:
    """
    A record and the own clock.
    """

    @pytest.mark.parametrize(
        ("record", "now", "is_free"),
        [
            pytest.param(OTHERS, 100.0, False, id="just seen"),
            pytest.param(OTHERS, 114.9, False, id="not over yet"),
            pytest.param(OTHERS, 115.0, True, id="over"),
            pytest.param(NOBODYS, 100.0, True, id="nobody's"),
        ],
    )
    def test_is_free(self, record: Lease, now: float, *, is_free: bool) -> None:
        """
        A lease is free when nobody has it, or when it has stayed the same for as long as it lasts.
        """
        assert is_free == Sighting(record, 100.0).is_free(now)

    def test_same(self) -> None:
        """
        A record seen again counts from when it was seen first.
        """
        assert Sighting(OTHERS, 100.0) == Sighting(OTHERS, 100.0).then(OTHERS, 110.0)

    def test_renewed(self) -> None:
        """
        A record that changed counts from now, whatever its times say.
        """
        renewed = Lease("other", 15, 3, OTHERS.acquired_at, "8")

        assert Sighting(renewed, 110.0) == Sighting(OTHERS, 100.0).then(renewed, 110.0)
