"""When the container has lost its right to the device nodes."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from fractioning_core.nvml import devicenodes
from fractioning_core.nvml.devicenodes import DeviceNodes, DevicesRevoked

pytestmark = pytest.mark.looptime


@attrs.define
class Host:
    """A driver, and a node that opens or does not."""

    reason: str = "NVML Init: UNKNOWN (999)"
    errno: int | None = errno.EPERM
    opened: int = 0

    def open(self, path: Path) -> int:
        """Open, or refuse as the test says."""
        self.opened += 1
        if self.errno is not None:
            raise OSError(self.errno, os.strerror(self.errno), str(path))
        return os.open("/dev/null", os.O_RDONLY)

    def watch(self) -> DeviceNodes:
        """Make a watch of this host."""
        return DeviceNodes(Path("/dev"), driver_reason=lambda: self.reason, opener=self.open)


async def goes_on(watch: DeviceNodes, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await watch.run()
    except TimeoutError:
        return True
    return False


class TestDeviceNodes:
    async def test_refused_while_nvml_fails(self) -> None:
        """It ends the service well within five minutes, saying that the container has to be re-created."""
        with pytest.raises(DevicesRevoked) as caught:
            await Host().watch().run()

        assert asyncio.get_running_loop().time() < 300.0
        assert "/dev/nvidiactl may not be opened (EPERM)" in str(caught.value)
        assert "has to be re-created" in str(caught.value)
        assert "UNKNOWN (999)" in str(caught.value)

    @pytest.mark.parametrize(
        "number",
        [pytest.param(None, id="opens"), errno.ENOENT, errno.EIO, errno.ENODEV],
        ids=lambda number: os.strerror(number) if number else None,
    )
    async def test_any_other_outcome_ends_nothing(self, number: int | None) -> None:
        """A broken driver is not mended by a new container."""
        assert await goes_on(Host(errno=number).watch(), 3600.0)

    async def test_nothing_is_opened_while_nvml_works(self) -> None:
        """A healthy driver's nodes are left alone."""
        host = Host(reason="")

        assert (True, 0) == (await goes_on(host.watch(), 3600.0), host.opened)

    async def test_a_single_refusal_is_forgiven(self) -> None:
        """Rules are rewritten now and then; only refusals in a row count."""
        host = Host()
        toggling: Callable[[Path], int] = host.open

        def open_every_other(path: Path) -> int:
            host.errno = None if host.errno else errno.EPERM
            return toggling(path)

        watch = DeviceNodes(Path("/dev"), driver_reason=lambda: host.reason, opener=open_every_other)

        assert await goes_on(watch, 3600.0)

    async def test_a_node_is_opened_for_reading_and_writing(self, tmp_path: Path) -> None:
        """As NVML opens it, for a right to read alone is not enough."""
        file = tmp_path / "nvidiactl"
        file.touch()
        descriptor = devicenodes.open_node(file)
        try:
            assert 1 == os.write(descriptor, b"x")
        finally:
            os.close(descriptor)
