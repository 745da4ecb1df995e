"""The parts of metricsd put together, without a GPU."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import attrs
import pytest
from fractioning_core.nvml.devicenodes import DevicesRevoked
from fractioning_core.service.addresses import Address
from fractioning_core.service.http import CannotListen
from metricsd import app
from metricsd.settings import Settings

LOOPBACK = "127.0.0.1"


@pytest.fixture
def chosen(tmp_path: Path, unused_tcp_port: int) -> Settings:
    """Settings of a node that has nothing on it."""
    return Settings(metrics_address=Address(LOOPBACK, unused_tcp_port), map_dir=str(tmp_path), dev_root=str(tmp_path))


@asynccontextmanager
async def serving(chosen: Settings) -> AsyncIterator[None]:
    """Run metricsd beside a test, and end it as the first signal does."""
    stop = asyncio.Event()
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(app.serve(chosen, stop))
        try:
            yield
        finally:
            stop.set()


async def page(chosen: Settings, path: str, *, until: str = "") -> tuple[int, str]:
    """Fetch a page, again and again until a text is in it."""
    async with aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(f"http://{chosen.metrics_address}{path}") as answer:
                    text = await answer.text()
            except aiohttp.ClientConnectorError:
                text = ""
            if until in text and text:
                return answer.status, text
            await asyncio.sleep(0)


class TestServe:
    async def test_a_node_without_a_driver(self, chosen: Settings) -> None:
        """It lives, is not ready with the reason, and shows what it knows: that NVML is down."""
        async with serving(chosen):
            ready = await page(chosen, "/readyz", until="libnvidia-ml")
            alive = await page(chosen, "/healthz")
            metrics = await page(chosen, "/metrics")

        assert (503, 200, 200) == (ready[0], alive[0], metrics[0])
        assert "gpu_fractioning_nvml_up 0.0\n" in metrics[1]
        assert 'gpu_fractioning_metricsd_cycles_total{outcome="nvml_error"} ' in metrics[1]
        assert "gpu_fractioning_gpu_memory_used_bytes" not in metrics[1]

    async def test_metrics_elsewhere(self, chosen: Settings) -> None:
        """The page is where the setting says."""
        async with serving(attrs.evolve(chosen, metrics_path="/pods")):
            found = await page(chosen, "/pods")

        assert (200, True) == (found[0], "gpu_fractioning_nvml_up" in found[1])

    @pytest.mark.parametrize("wanted", [True, False])
    async def test_container_metrics(self, chosen: Settings, *, wanted: bool) -> None:
        """The part of the page that tells of containers is there if the setting says so."""
        async with serving(attrs.evolve(chosen, container_metrics=wanted)):
            _, text = await page(chosen, "/metrics", until='collector="pods"')

        assert wanted is ('collector="containers"' in text)

    @pytest.mark.looptime
    async def test_device_nodes_that_may_not_be_opened(self, chosen: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
        """While NVML fails, that ends it within minutes: only a new container has its rights back."""
        node, opened = Path(chosen.dev_root) / "nvidiactl", os.open

        def refuse(path: str | Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            if path == node:
                raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))
            return opened(path, flags, mode, dir_fd=dir_fd)

        monkeypatch.setattr(os, "open", refuse)
        async with asyncio.timeout(300):
            with pytest.raises(ExceptionGroup) as caught:
                await app.serve(chosen, asyncio.Event())

        (error,) = caught.value.exceptions
        assert isinstance(error, DevicesRevoked)
        assert str(node) in str(error)

    async def test_an_address_that_is_taken(self, chosen: Settings) -> None:
        """It does not live on unseen: the error is an expected one, which the runner tells in one line."""
        with socket.create_server((LOOPBACK, chosen.metrics_address.port)):
            with pytest.raises(CannotListen, match=f"cannot listen on {chosen.metrics_address}: "):
                await app.serve(chosen, asyncio.Event())

    async def test_metrics_off(self, chosen: Settings) -> None:
        """There is nothing to do then, and it ends well, without waiting for a signal."""
        async with asyncio.timeout(5):
            await app.serve(attrs.evolve(chosen, metrics_enabled=False), asyncio.Event())
