"""
The parts of metricsd, and how they are put together.
"""

from __future__ import annotations

import asyncio
import gc
import time
from contextlib import AsyncExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path

import structlog
from fractioning_core.nvml.devicenodes import DeviceNodes, open_node
from fractioning_core.nvml.monitor import NvmlMonitor
from fractioning_core.nvml.worker import Worker
from fractioning_core.service import runner, settings
from fractioning_core.service.http import HealthServer
from prometheus_client import CollectorRegistry

from metricsd import procfs, windows
from metricsd.collectors import collectors
from metricsd.cycle import Clocks, Cycle, Output, Rhythm
from metricsd.health import Health
from metricsd.metrics import Metrics
from metricsd.node import Node
from metricsd.page import Page, Renderer
from metricsd.settings import Settings

PROGRAM = "metricsd"


def main() -> None:
    """
    Run metricsd as a program.
    """
    chosen = settings.parse_or_exit(Settings, program=PROGRAM, version=version(PROGRAM))
    # What is loaded stays: looking through it for garbage took 30 ms, in the middle of some cycle.
    gc.freeze()
    raise SystemExit(runner.run(partial(serve, chosen), service=PROGRAM, log_level=chosen.log_level))


async def serve(chosen: Settings, stop: asyncio.Event) -> None:
    """
    Run every part until `stop` is set; not at all where metrics are off.

    Raises:
        CannotListen: nobody could scrape us.
        DevicesRevoked: this container has to be re-created.
    """
    if not chosen.metrics_enabled:
        structlog.get_logger().info("metrics_disabled")
        return
    registry = CollectorRegistry()
    parts = collectors(chosen.pod_names, with_containers=chosen.container_metrics)
    health = Health(time.perf_counter, interval_seconds=chosen.metrics_interval_seconds)
    metrics = Metrics(registry, vitals=health, collectors=parts)
    renderer = Renderer(parts, metrics=metrics, clock=time.perf_counter)
    page = Page(registry, has_figures=lambda: health.snapshot_age_seconds() is not None)
    node = Node(
        map_dir=Path(chosen.map_dir),
        proc_root=Path(chosen.proc_root),
        cgroup_root=Path(chosen.cgroup_root),
        with_limits=chosen.container_metrics,
    )
    nodes = DeviceNodes(Path(chosen.dev_root), driver_reason=health.driver_reason, opener=open_node)
    server = HealthServer(
        chosen.metrics_address.port,
        host=chosen.metrics_address.host,
        readiness=health.readiness,
        page=page.text,
        metrics_path=chosen.metrics_path,
    )
    async with AsyncExitStack() as stack:
        # Left last: NVML is shut down when nothing asks it any more.
        nvml = await stack.enter_async_context(NvmlMonitor.of_driver(interval_seconds=chosen.metrics_interval_seconds))
        await stack.enter_async_context(server)
        thread = Worker("cycle")
        stack.callback(thread.close)
        cycle = Cycle(
            nvml,
            node=node,
            thread=thread,
            output=Output(renderer.render, page=page, health=health, metrics=metrics),
            rhythm=_rhythm(chosen),
            clocks=Clocks(elapsed=time.perf_counter, boot=procfs.boot_seconds),
        )
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(part.run(), name=type(part).__name__) for part in (cycle, nodes)]
            await stop.wait()
            for task in running:
                task.cancel()


def _rhythm(chosen: Settings) -> Rhythm:
    window = windows.length(
        window_ns=round(chosen.sm_util_window_seconds * 1e9), interval_ns=round(chosen.metrics_interval_seconds * 1e9)
    )
    return Rhythm(chosen.metrics_interval_seconds, window)
