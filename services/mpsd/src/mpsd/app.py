"""
The parts of mpsd, and how they are put together.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path, PurePath

import structlog
from fractioning_core.errors import FractioningError
from fractioning_core.nvml.client import Nvml
from fractioning_core.nvml.devicenodes import DeviceNodes, open_node
from fractioning_core.rpc.mpsserver import mps_server
from fractioning_core.rpc.mpsvalues import ConfigurationStatus
from fractioning_core.service import runner, settings
from fractioning_core.service.backoff import RetryBudget, Schedule
from fractioning_core.service.http import HealthServer, serve_if_possible
from prometheus_client import CollectorRegistry, generate_latest

from mpsd import controlconfig, gate, status
from mpsd.commands import CommandLine
from mpsd.control import Control
from mpsd.controlconfig import Choices
from mpsd.driverlabel import RETRIES, DriverLabel, labels_from
from mpsd.driverstate import DriverState
from mpsd.driverwatch import DriverWatch
from mpsd.health import Health, Terms
from mpsd.launcher import Launcher, Plan
from mpsd.metrics import Metrics
from mpsd.rpc import MpsService, Sources
from mpsd.settings import Settings
from mpsd.strays import CONTROL_PROGRAM, Neighbourhood
from mpsd.supervisor import Supervisor
from mpsd.truth import Truth

PROGRAM = "mpsd"
STATUS = "status"
BACKOFF_CAP_SECONDS = 60.0
# What a check takes beyond its command's deadline, on a node under load.
CHECK_SECONDS = 2.0


def main() -> None:
    """
    Run mpsd as a program, or ask the one that runs: `mpsd status`.
    """
    if sys.argv[1:2] == [STATUS]:
        raise SystemExit(status.main(sys.argv[2:]))
    chosen = settings.parse_or_exit(Settings, program=PROGRAM, version=version(PROGRAM))
    raise SystemExit(runner.run(partial(serve, chosen), service=PROGRAM, log_level=chosen.log_level))


async def serve(chosen: Settings, stop: asyncio.Event) -> None:
    """
    Run every part until `stop` is set.

    Raises:
        FractioningError: the node cannot be set up, or the daemon's retry budget is spent.
    """
    loop = asyncio.get_running_loop()
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    driver = DriverState(loop.time)
    line = _line(chosen)
    control = Control(line, os.environ)
    launcher = Launcher(
        _plan(chosen, line), environ=os.environ, neighbourhood=_neighbourhood(chosen), major=driver.current
    )
    supervisor = Supervisor(
        launcher,
        driver=driver,
        budget=_budget(chosen),
        stop_delay_seconds=chosen.graceful_stop_delay_seconds,
        clock=loop.time,
    )
    # Not the loop's time, which uvloop counts in milliseconds: an answer takes three of them.
    truth = Truth(
        supervisor,
        complaint=_complaint(chosen, driver),
        max_age_seconds=chosen.probe_interval_seconds + chosen.probe_timeout_seconds + CHECK_SECONDS,
        clock=time.perf_counter,
    )
    health = Health(
        supervisor,
        asked=control,
        disk=launcher,
        truth=truth,
        terms=_terms(chosen),
        metrics=metrics,
        clock=time.perf_counter,
    )
    _sample(metrics, supervisor, truth, driver)
    nodes = DeviceNodes(Path(chosen.dev_root), driver_reason=driver.driver_reason, opener=open_node)
    sources = Sources(
        version=version(PROGRAM),
        supervised=supervisor,
        told=truth,
        driver=driver,
        configuration=lambda: ConfigurationStatus(chosen.mps_config_path, launcher.config_text or ""),
        clock=time.perf_counter,
    )
    async with AsyncExitStack() as stack:
        server = HealthServer(chosen.health_port, readiness=truth.readiness, page=partial(generate_latest, registry))
        await serve_if_possible(stack, server)
        await _serve_rpc(stack, chosen.rpc_socket, MpsService(sources, commands=control))
        nvml = await stack.enter_async_context(Nvml.of_driver())
        watch = DriverWatch(nvml, proc_root=Path(chosen.proc_root), state=driver)
        labels = await stack.enter_async_context(labels_from(os.environ))
        label = DriverLabel(labels, node=chosen.node_name, state=driver, retries=RETRIES)
        async with asyncio.TaskGroup() as group:
            supervising = group.create_task(supervisor.run(), name="supervisor")
            others = [group.create_task(part.run(), name=type(part).__name__) for part in (health, nodes, watch, label)]
            await stop.wait()
            supervisor.stop()
            # It ends by itself, after the daemon; the others tell of it until then.
            await asyncio.wait([supervising])
            for task in others:
                task.cancel()


async def _serve_rpc(stack: AsyncExitStack, path: str, service: MpsService) -> None:
    """
    Serve mps.v1 unless it is off; without it MPS runs all the same.
    """
    if not path:
        return
    try:
        await stack.enter_async_context(mps_server(Path(path), service))
    except FractioningError as error:
        structlog.get_logger().error("rpc_not_served", error=str(error))


def _complaint(chosen: Settings, driver: DriverState) -> Callable[[], str]:
    gap = controlconfig.accounting_gap(config_path=chosen.mps_config_path, protocol=chosen.mps_control_port)
    return lambda: gap or gate.refusal(driver) or driver.complaint()


def _sample(metrics: Metrics, supervisor: Supervisor, truth: Truth, driver: DriverState) -> None:
    metrics.restarts.read_from(lambda: supervisor.restarts)
    metrics.daemon_up.read_from(lambda: truth.is_up)
    metrics.ready.read_from(lambda: truth.readiness().ready)
    metrics.daemon_uptime.read_from(lambda: supervisor.uptime_seconds)
    metrics.clients.read_from(lambda: _clients(truth))
    metrics.driver_major.read_from(driver.current)
    metrics.label_age.read_from(driver.label_age_seconds)


def _clients(truth: Truth) -> int | None:
    probe = truth.last_probe
    return None if probe is None or probe.clients is None else len(probe.clients)


def _line(chosen: Settings) -> CommandLine:
    return CommandLine(
        binary=chosen.mps_binary,
        protocol=chosen.mps_control_port,
        pipe_dir=chosen.pipe_dir,
        log_dir=chosen.log_dir,
    )


def _plan(chosen: Settings, line: CommandLine) -> Plan:
    choices = Choices(audit_log=chosen.memacct_audit_log, sm_sharing=chosen.support_sm_sharing)
    return Plan(line, choices, chosen.mps_config_path)


def _neighbourhood(chosen: Settings) -> Neighbourhood:
    programs = frozenset({CONTROL_PROGRAM, PurePath(chosen.mps_binary).name})
    return Neighbourhood(Path(chosen.proc_root), chosen.pipe_dir, programs)


def _budget(chosen: Settings) -> RetryBudget:
    return RetryBudget(
        max_retries=chosen.max_retries,
        stable_threshold=chosen.stable_threshold_seconds,
        schedule=Schedule(first=chosen.backoff_seconds, cap=BACKOFF_CAP_SECONDS),
    )


def _terms(chosen: Settings) -> Terms:
    return Terms(
        interval_seconds=chosen.probe_interval_seconds,
        timeout_seconds=chosen.probe_timeout_seconds,
        failures=chosen.probe_failures,
    )
