from __future__ import annotations

import attrs
import pytest
from fractioning_core.nvml.errors import returned
from fractioning_core.nvml.samples import Device, DeviceSample, LostDevice, Sample
from metricsd import gpus
from metricsd.gpus import Known
from metricsd.snapshot import Gpu, SilentGpu

A = Device(0, "GPU-a", minor=1, memory_total_bytes=16)
B = Device(1, "GPU-b", minor=0, memory_total_bytes=32)
C = Device(0, "GPU-c", minor=1, memory_total_bytes=None)
KNOWN = Known({0: A, 1: B})
B_FIRST = attrs.evolve(B, index=0)
B_ALONE = Known({0: B_FIRST}, {"GPU-a": A})
LOST = returned(15, name="GPU_IS_LOST", function="DeviceGetUUID")


def a_sample(*devices: Device, lost: tuple[int, ...] = ()) -> Sample:
    return Sample(
        "615.43.02",
        tuple(DeviceSample(device) for device in devices),
        tuple(LostDevice(index, LOST) for index in lost),
    )


def untold(device: Device) -> Device:
    return attrs.evolve(device, memory_total_bytes=None)


class TestRemember:
    @pytest.mark.parametrize(
        ("known", "sample", "expected"),
        [
            pytest.param(Known(), a_sample(A, B), KNOWN, id="first sight"),
            pytest.param(KNOWN, a_sample(A, B), KNOWN, id="unchanged"),
            pytest.param(KNOWN, a_sample(A, lost=(1,)), KNOWN, id="one is lost"),
            pytest.param(KNOWN, a_sample(A), KNOWN, id="one is not listed"),
            pytest.param(KNOWN, a_sample(), KNOWN, id="none is listed"),
            pytest.param(KNOWN, a_sample(untold(A), B), KNOWN, id="size is not told now"),
            pytest.param(KNOWN, a_sample(attrs.evolve(A, memory_total_bytes=0), B), KNOWN, id="size is told as 0 now"),
            pytest.param(KNOWN, a_sample(attrs.evolve(A, uuid=""), B), KNOWN, id="UUID is not told now"),
            pytest.param(
                Known(),
                a_sample(attrs.evolve(A, memory_total_bytes=0)),
                Known({0: untold(A)}),
                id="size was never told",
            ),
            pytest.param(Known({0: untold(A)}), a_sample(A), Known({0: A}), id="size becomes known"),
            pytest.param(Known({0: attrs.evolve(A, uuid="")}), a_sample(A), Known({0: A}), id="UUID becomes known"),
            pytest.param(
                KNOWN, a_sample(C, B), Known({0: C, 1: B}, {"GPU-a": A}), id="another card, whose size is its own"
            ),
            pytest.param(KNOWN, a_sample(B_FIRST), B_ALONE, id="numbered anew without the first"),
            pytest.param(KNOWN, a_sample(untold(B_FIRST)), B_ALONE, id="numbered anew, and the size is not told now"),
            pytest.param(
                KNOWN,
                a_sample(attrs.evolve(B_FIRST, minor=2)),
                Known({0: attrs.evolve(B_FIRST, minor=2)}, {"GPU-a": A}),
                id="numbered anew, minors too",
            ),
            pytest.param(
                KNOWN,
                a_sample(attrs.evolve(C, minor=0)),
                Known({0: attrs.evolve(C, minor=0)}, {"GPU-a": A, "GPU-b": B}),
                id="another card with an absent one's minor",
            ),
            pytest.param(B_ALONE, a_sample(B_FIRST), B_ALONE, id="one is gone still"),
            pytest.param(B_ALONE, a_sample(untold(A), B), KNOWN, id="one is back"),
            pytest.param(
                KNOWN,
                a_sample(attrs.evolve(A, index=1), B_FIRST),
                Known({0: B_FIRST, 1: attrs.evolve(A, index=1)}),
                id="the other way round",
            ),
        ],
    )
    def test_what_is_known_afterwards(self, known: Known, sample: Sample, expected: Known) -> None:
        """What is not told never replaces what is known, and no GPU is forgotten or at two indices."""
        assert expected == gpus.remember(known, sample)

    def test_nothing_new(self) -> None:
        """Where nothing changed what was known is given as the very same object."""
        assert [True] * 2 == [
            gpus.remember(known, sample) is known
            for known, sample in [(KNOWN, a_sample(A, B)), (B_ALONE, a_sample(B_FIRST))]
        ]


class TestSilent:
    ABSENT = "NVML does not list it any more"

    @pytest.mark.parametrize(
        ("known", "sample", "expected"),
        [
            pytest.param(KNOWN, a_sample(A, B), [], id="all tell"),
            pytest.param(KNOWN, a_sample(A, lost=(1,)), [SilentGpu(1, "GPU-b", str(LOST))], id="lost"),
            pytest.param(KNOWN, a_sample(B), [SilentGpu(0, "GPU-a", ABSENT)], id="not listed"),
            pytest.param(
                KNOWN, a_sample(), [SilentGpu(0, "GPU-a", ABSENT), SilentGpu(1, "GPU-b", ABSENT)], id="none listed"
            ),
            pytest.param(B_ALONE, a_sample(B_FIRST), [SilentGpu(0, "GPU-a", ABSENT)], id="another has its index"),
            pytest.param(Known({0: A}), a_sample(A, lost=(1,)), [SilentGpu(1, "", str(LOST))], id="never known"),
        ],
    )
    def test_who_does_not_tell(self, known: Known, sample: Sample, expected: list[SilentGpu]) -> None:
        """Every GPU that is known and not read is listed once, with the reason."""
        assert tuple(expected) == gpus.silent(known, sample)

    @pytest.mark.parametrize(
        ("function", "silent", "telling", "telling_sm"),
        [
            pytest.param("DeviceGetComputeRunningProcesses", True, False, False, id="who computes"),
            pytest.param("DeviceGetGraphicsRunningProcesses", True, False, False, id="who draws"),
            pytest.param("DeviceGetProcessUtilization", False, True, False, id="SM use"),
            pytest.param("DeviceGetMemoryInfo", False, True, True, id="size"),
        ],
    )
    def test_what_fails(self, *, function: str, silent: bool, telling: bool, telling_sm: bool) -> None:
        """Without a list of its processes a GPU tells nothing; without SM use it tells the rest."""
        problem = returned(999, name="UNKNOWN", function=function)
        sample = Sample("615.43.02", (DeviceSample(A, problems=(problem,)),))

        found = gpus.silent(Known({0: A}), sample)

        assert ([SilentGpu(0, "GPU-a", str(problem))] if silent else []) == list(found)
        assert (telling, telling_sm) == (0 in gpus.telling(sample), 0 in gpus.telling_sm(sample))


class TestAnswering:
    def test_lost_ones_are_left_out(self) -> None:
        """Those that answered are listed by index, with what was known of them before."""
        sample = a_sample(Device(1, "", 0, memory_total_bytes=None), lost=(0,))

        answered = gpus.answering(KNOWN.placed, sample)

        assert (Gpu(1, "GPU-b", memory_total_bytes=32),) == answered
