from __future__ import annotations

import pytest
from fractioning_core.nvml.samples import Device
from metricsd import series
from metricsd.snapshot import PodOnGpu

GPUS = {index: Device(index, f"GPU-{index}", minor=index, memory_total_bytes=None) for index in range(2)}
NAMELESS = {0: Device(0, "", minor=0, memory_total_bytes=None)}
SWAPPED = {0: Device(0, "GPU-1", minor=0, memory_total_bytes=None)}


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
            pytest.param([a_key(uuid="")], [a_key()], [a_key()], id="UUID became known, busy"),
            pytest.param([a_key(uuid="")], [], [a_key()], id="UUID became known, idle"),
            pytest.param([a_key(uuid="", index=7)], [], [a_key(uuid="", index=7)], id="GPU without UUID is gone"),
            pytest.param([a_key(index=5)], [a_key()], [a_key()], id="numbered anew, busy"),
            pytest.param([a_key(index=5)], [], [a_key()], id="numbered anew, idle"),
            pytest.param([a_key(uuid="GPU-9")], [], [a_key(uuid="GPU-9")], id="GPU is gone"),
            pytest.param([], [a_key(uid="")], [a_key(uid="")], id="record without UID, in use"),
            pytest.param([a_key(uid="")], [], [], id="record without UID, no more in use"),
        ],
    )
    def test_which_series_are_shown(
        self, before: list[PodOnGpu], now: list[PodOnGpu], expected: list[PodOnGpu]
    ) -> None:
        """A series lasts as long as its pod's UID, and has the index and UUID that its GPU has now."""
        shown = series.lasting(before, now, active_uids={"uid-1", "uid-2"}, gpus=GPUS)

        assert set(expected) == shown

    def test_a_uuid_that_is_still_not_known(self) -> None:
        """A GPU without a UUID is shown without one."""
        shown = series.lasting([a_key(uuid="")], [], active_uids={"uid-1"}, gpus=NAMELESS)

        assert {a_key(uuid="")} == shown

    def test_two_gpus_one_of_which_has_the_other_s_index(self) -> None:
        """They are two series, though for a time both have the same index."""
        before = [a_key(), a_key(uuid="GPU-1", index=1)]

        shown = series.lasting(before, [], active_uids={"uid-1"}, gpus=SWAPPED)

        assert {a_key(), a_key(uuid="GPU-1", index=0)} == shown
