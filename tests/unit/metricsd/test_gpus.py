from __future__ import annotations

import pytest
from fractioning_core.nvml.errors import returned
from fractioning_core.nvml.samples import Device, DeviceSample, LostDevice, Sample
from metricsd import gpus
from metricsd.gpus import Gpus
from metricsd.snapshot import Gpu

A = Device(0, "GPU-a", minor=1, memory_total_bytes=16)
B = Device(1, "GPU-b", minor=0, memory_total_bytes=32)
KNOWN = {0: A, 1: B}


def a_sample(*devices: Device, lost: tuple[int, ...] = ()) -> Sample:
    gone = tuple(LostDevice(index, returned(15, name="GPU_IS_LOST", function="DeviceGetUUID")) for index in lost)
    return Sample("615.43.02", tuple(DeviceSample(device) for device in devices), gone)


class TestRemember:
    @pytest.mark.parametrize(
        ("known", "sample", "expected"),
        [
            pytest.param({}, a_sample(A, B), KNOWN, id="first sight"),
            pytest.param(KNOWN, a_sample(A, B), KNOWN, id="unchanged"),
            pytest.param(KNOWN, a_sample(A, lost=(1,)), KNOWN, id="one is lost"),
            pytest.param(
                KNOWN, a_sample(Device(0, "GPU-a", 1, memory_total_bytes=None), B), KNOWN, id="size is not told now"
            ),
            pytest.param(
                KNOWN, a_sample(Device(0, "GPU-a", 1, memory_total_bytes=0), B), KNOWN, id="size is told as 0 now"
            ),
            pytest.param(KNOWN, a_sample(Device(0, "", 1, memory_total_bytes=16), B), KNOWN, id="UUID is not told now"),
            pytest.param(
                {},
                a_sample(Device(0, "GPU-a", 1, memory_total_bytes=0)),
                {0: Device(0, "GPU-a", 1, None)},
                id="size was never told",
            ),
            pytest.param({0: Device(0, "GPU-a", 1, None)}, a_sample(A), {0: A}, id="size becomes known"),
            pytest.param(
                KNOWN,
                a_sample(Device(0, "GPU-c", 1, memory_total_bytes=None), B),
                {0: Device(0, "GPU-c", 1, None), 1: B},
                id="another card, whose size is not the old one's",
            ),
            pytest.param(
                KNOWN,
                a_sample(Device(0, "GPU-b", 0, memory_total_bytes=32)),
                {0: Device(0, "GPU-b", 0, 32)},
                id="numbered anew without the first",
            ),
            pytest.param(
                KNOWN,
                a_sample(Device(0, "GPU-c", 0, memory_total_bytes=8)),
                {0: Device(0, "GPU-c", 0, 8)},
                id="another card with a lost one's minor",
            ),
            pytest.param(
                KNOWN,
                a_sample(Device(0, "GPU-b", 2, memory_total_bytes=32)),
                {0: Device(0, "GPU-b", 2, 32)},
                id="numbered anew, minors too",
            ),
        ],
    )
    def test_what_is_known_afterwards(self, known: Gpus, sample: Sample, expected: Gpus) -> None:
        """What is not told never replaces what is known, and two indices are never the same GPU."""
        assert expected == gpus.remember(known, sample)


class TestAnswering:
    def test_lost_ones_are_left_out(self) -> None:
        """Those that answered are listed by index, with what was known of them before."""
        answered = gpus.answering(KNOWN, a_sample(Device(1, "", 0, memory_total_bytes=None), lost=(0,)))

        assert (Gpu(1, "GPU-b", memory_total_bytes=32),) == answered
