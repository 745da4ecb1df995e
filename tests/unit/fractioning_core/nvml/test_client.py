from __future__ import annotations

import threading

import attrs
import pytest
from fractioning_core.nvml import errors
from fractioning_core.nvml.client import Nvml
from fractioning_core.nvml.errors import DriverMismatch, NvmlSilent
from fractioning_core.nvml.samples import Device

GPU = Device(index=0, uuid="GPU-1", minor=2, memory_total_bytes=None)


@attrs.define
class FakeReadings:
    """
    Readings that a test decides on.
    """

    version: str | Exception = "615.43.02"
    gate: threading.Event = attrs.field(factory=threading.Event)
    doing: str = "Init"

    def driver_version(self) -> str:
        """
        Give the version, or raise it.
        """
        if isinstance(self.version, Exception):
            raise self.version
        return self.version

    def devices(self) -> tuple[Device, ...]:
        """
        Hang until the gate opens.
        """
        self.doing = "DeviceGetCount"
        self.gate.wait()
        return (GPU,)


class TestNvml:
    async def test_a_version(self) -> None:
        """
        The driver's version text is given as it is.
        """
        async with Nvml(FakeReadings(), deadline_seconds=10.0) as nvml:
            assert await nvml.driver_version() == "615.43.02"

    async def test_the_devices(self) -> None:
        """
        The devices are given as frozen values.
        """
        readings = FakeReadings()
        readings.gate.set()
        async with Nvml(readings, deadline_seconds=10.0) as nvml:
            assert await nvml.devices() == (GPU,)

    async def test_an_error(self) -> None:
        """
        An error of NVML reaches the caller as its kind, and the next reading tries again.
        """
        mismatch = errors.returned(18, name="LIB_RM_VERSION_MISMATCH", function="Init")
        readings = FakeReadings(mismatch)
        async with Nvml(readings, deadline_seconds=10.0) as nvml:
            with pytest.raises(DriverMismatch):
                await nvml.driver_version()
            readings.version = "620.10.01"

            assert await nvml.driver_version() == "620.10.01"

    async def test_silence(self) -> None:
        """
        A reading that hangs names the function in which it does, for its caller and for later ones.
        """
        readings = FakeReadings()
        async with Nvml(readings, deadline_seconds=0.02) as nvml:
            for ask in (nvml.devices, nvml.driver_version):
                with pytest.raises(NvmlSilent) as told:
                    await ask()
                assert told.value.function == "DeviceGetCount"
        readings.gate.set()
