"""The parts of metricsd put together, without a GPU."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import attrs
import pytest
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

    async def test_an_address_that_is_taken(self, chosen: Settings) -> None:
        """It does not live on unseen: the error is an expected one, which the runner tells in one line."""
        with socket.create_server((LOOPBACK, chosen.metrics_address.port)):
            with pytest.raises(CannotListen, match=f"cannot listen on {chosen.metrics_address}: "):
                await app.serve(chosen, asyncio.Event())

    async def test_metrics_off(self, chosen: Settings) -> None:
        """There is nothing to do then, and it ends well, without waiting for a signal."""
        async with asyncio.timeout(5):
            await app.serve(attrs.evolve(chosen, metrics_enabled=False), asyncio.Event())
