from __future__ import annotations

import pytest
from metricsd import series
from metricsd.snapshot import PodOnGpu


def a_key(*, uid: str = "uid-1", uuid: str = "GPU-0", index: int = 0, pod: str = "trainer") -> PodOnGpu:
    return PodOnGpu("team-ml", pod, uid, uuid, index)


class TestLasting:
    @pytest.mark.parametrize(
        ("before", "now", "expected"),
        [
            pytest.param([], [a_key()], [a_key()], id="new"),
            pytest.param([a_key()], [], [a_key()], id="pod is there, its process is not"),
            pytest.param([a_key(uid="gone")], [], [], id="pod is gone"),
            pytest.param([a_key(uid="gone")], [a_key()], [a_key()], id="successor of the same name"),
            pytest.param([a_key(uuid="")], [a_key()], [a_key()], id="UUID became known"),
            pytest.param([a_key()], [a_key(uuid="")], [a_key()], id="UUID was known"),
            pytest.param([a_key(uuid="")], [], [a_key(uuid="")], id="UUID still not known"),
            pytest.param(
                [a_key(uuid="")],
                [a_key(uuid="GPU-1", index=1)],
                [a_key(uuid=""), a_key(uuid="GPU-1", index=1)],
                id="UUID of another GPU became known",
            ),
            pytest.param(
                [a_key(uuid="")],
                [a_key(uid="uid-2")],
                [a_key(uuid=""), a_key(uid="uid-2")],
                id="UUID of another pod's became known",
            ),
            pytest.param([], [a_key(uid="")], [a_key(uid="")], id="record without UID, in use"),
            pytest.param([a_key(uid="")], [], [], id="record without UID, no more in use"),
        ],
    )
    def test_which_series_are_shown(
        self, before: list[PodOnGpu], now: list[PodOnGpu], expected: list[PodOnGpu]
    ) -> None:
        """A series lasts as long as its pod's UID, and a GPU without UUID gives way to the same with it."""
        shown = series.lasting(before, now, {"uid-1", "uid-2"})

        assert set(expected) == shown
