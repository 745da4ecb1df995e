from __future__ import annotations

import pytest
from nri_aio import snapshot
from nri_aio.errors import Refused
from nri_aio.pb import nri_pb2 as pb
from nri_aio.snapshot import Part, Snapshot


def a_part(*, pods: tuple[str, ...] = (), containers: tuple[str, ...] = ()) -> Part:
    request = pb.SynchronizeRequest(
        pods=[pb.PodSandbox(id=id_) for id_ in pods], containers=[pb.Container(id=id_) for id_ in containers]
    )
    return Part.decode(request.SerializeToString())


class TestSnapshot:
    """Putting the parts of a Synchronize together."""

    def test_parts_add_up(self) -> None:
        """Pods and containers are gathered in order, each from whatever part it came in."""
        gathered = Snapshot()
        for part in (a_part(containers=("c1",)), a_part(), a_part(pods=("p1",), containers=("c2",))):
            gathered.add(part)

        assert (["p1"], ["c1", "c2"]) == ([p.id for p in gathered.pods], [c.id for c in gathered.containers])

    def test_empty_parts_cost_nothing(self) -> None:
        """Thousands of empty parts leave nothing behind."""
        gathered = Snapshot()
        for _ in range(5000):
            gathered.add(a_part())

        assert Snapshot() == gathered

    def test_too_many_pods_are_refused(self) -> None:
        """A state with more pods than any node has is refused with the limit."""
        with pytest.raises(Refused, match="more than 20000 pods"):
            Snapshot().add(a_part(pods=("p",) * 20_001))

    def test_too_many_containers_over_all_parts_are_refused(self) -> None:
        """The limit is on the sum."""
        gathered = Snapshot()
        gathered.add(a_part(containers=("c",) * 60_000))

        with pytest.raises(Refused, match="more than 100000 containers"):
            gathered.add(a_part(containers=("c",) * 40_001))

    def test_too_many_bytes_are_refused(self) -> None:
        """A state larger than any node's is refused by its size on the wire."""
        gathered = Snapshot(size_bytes=snapshot.MAX_BYTES)

        with pytest.raises(Refused) as caught:
            gathered.add(a_part(pods=("p1",)))

        assert 8 == caught.value.code
