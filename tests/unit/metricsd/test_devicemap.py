"""Which GPUs a record means."""

from __future__ import annotations

import pytest
from fractioning_core.nvml.samples import Device
from fractioning_core.record import GpuDevice
from fractioning_core.testing.builders import a_record
from metricsd import devicemap

# The driver found the cards in another order than they have on the bus.
SWAPPED = (
    Device(index=0, uuid="GPU-a", minor=1, memory_total_bytes=None),
    Device(index=1, uuid="GPU-b", minor=0, memory_total_bytes=None),
)


class TestIndices:
    @pytest.mark.parametrize(
        ("entries", "expected"),
        [
            pytest.param([GpuDevice(uuid="GPU-a")], (0,), id="UUID"),
            pytest.param([GpuDevice(minor_number=0)], (1,), id="minor"),
            pytest.param([GpuDevice(minor_number=1)], (0,), id="the other minor"),
            pytest.param([GpuDevice(uuid="GPU-a", minor_number=0)], (0,), id="the UUID before the minor"),
            pytest.param([GpuDevice(uuid="GPU-x", minor_number=0)], (1,), id="the minor where the UUID is unknown"),
            pytest.param([GpuDevice(uuid="GPU-x")], (), id="an unknown UUID alone"),
            pytest.param([GpuDevice(minor_number=7)], (), id="an unknown minor"),
            pytest.param([GpuDevice(index=1, minor_number=0)], (0,), id="an older writer's minor"),
            pytest.param([GpuDevice(index=1)], (0,), id="an older writer's minor, with no other"),
            pytest.param([GpuDevice(index=7, minor_number=0)], (), id="an older writer's minor, unknown"),
            pytest.param([GpuDevice()], (1,), id="an older writer's minor 0"),
            pytest.param([GpuDevice(index=1, minor_number=1)], (0,), id="both of them"),
            pytest.param([GpuDevice(uuid="GPU-b"), GpuDevice(uuid="GPU-a")], (1, 0), id="the record's order"),
            pytest.param([GpuDevice(uuid="GPU-b"), GpuDevice(minor_number=0)], (1,), id="the same by two names"),
            pytest.param([], (), id="none"),
            pytest.param(None, (), id="not told"),
        ],
    )
    def test_found(self, entries: list[GpuDevice] | None, expected: tuple[int, ...]) -> None:
        """A UUID tells before a minor does, and a GPU that is not here is passed over."""
        record = a_record(gpu_devices=None if entries is None else tuple(entries))

        assert expected == devicemap.indices(record, SWAPPED)

    def test_one_that_is_gone(self) -> None:
        """A GPU that was here before is passed over, whoever has its minor now."""
        record = a_record(gpu_devices=(GpuDevice(uuid="GPU-x", minor_number=0), GpuDevice(minor_number=1)))

        assert (0,) == devicemap.indices(record, SWAPPED, gone={"GPU-x"})

    def test_a_node_without_gpus(self) -> None:
        """Nothing is found where nothing is."""
        assert devicemap.indices(a_record(gpu_devices=(GpuDevice(minor_number=0),)), ()) == ()
