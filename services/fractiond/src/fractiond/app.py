"""The parts of fractiond, and how they are put together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path

import nri_aio
import structlog
from fractioning_core.injection import Options
from fractioning_core.mapdir import MapDir
from fractioning_core.podannotations import Grammar
from fractioning_core.service import runner, settings
from fractioning_core.service.backoff import RetryBudget, Schedule
from fractioning_core.service.http import HealthServer, serve_if_possible
from nri_aio import cri
from prometheus_client import CollectorRegistry, generate_latest

from fractiond.afterwards import Afterwards
from fractiond.connection_state import ConnectionState
from fractiond.crosscheck import CrossCheck
from fractiond.enforcer import Enforcer, NoEnforcer, Terms
from fractiond.fencing import Assessor, Policy
from fractiond.inventory import NodeInventory, Sources
from fractiond.link import RuntimeLink
from fractiond.metrics import Metrics
from fractiond.plugin import FractionPlugin
from fractiond.records import Records
from fractiond.settings import Settings
from fractiond.syncwatch import SynchronizeWatch
from fractiond.turn import Turn

PROGRAM = "fractiond"
RETRY_CAP_SECONDS = 60.0
# What is still to be written or stopped when we are told to go; a stuck disk must not hold up the shutdown.
DRAIN_SECONDS = 2.0


def main() -> None:
    """Run fractiond as a program."""
    chosen = settings.parse_or_exit(Settings, program=PROGRAM, version=version(PROGRAM))
    raise SystemExit(runner.run(partial(serve, chosen), service=PROGRAM, log_level=chosen.log_level))


async def serve(chosen: Settings, stop: asyncio.Event) -> None:
    """
    Run every part until `stop` is set.

    Raises:
        Unavailable: the retry budget of the runtime's connection is spent.
    """
    loop = asyncio.get_running_loop()
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    turn = Turn()
    afterwards = Afterwards(loop.call_later)
    known: set[str] = set()
    state = ConnectionState(loop.time, turn=turn, metrics=metrics)
    node = NodeInventory(_sources(chosen))
    assessor = Assessor(_policy(chosen), node)
    records = Records(MapDir(chosen.map_dir), metrics=metrics, log_events=chosen.log_pod_events)
    async with AsyncExitStack() as stack:
        runtime = await stack.enter_async_context(cri.Client(chosen.cri_socket))
        enforcer = Enforcer(runtime, _terms(chosen), turn=turn, metrics=metrics)
        court = enforcer if chosen.retroactive_enforcement else NoEnforcer()
        crosscheck = CrossCheck(
            runtime, assessor, known=known, report=court.submit, retain=records.retain, metrics=metrics
        )
        plugin = FractionPlugin(
            assessor,
            known=known,
            keeper=records,
            court=court,
            line=state,
            after_synchronize=crosscheck.trigger,
            metrics=metrics,
            later=afterwards.add,
            # Not the loop's time, which uvloop counts in milliseconds.
            clock=time.perf_counter,
        )
        watch = SynchronizeWatch(runtime, state=state, metrics=metrics)
        dial = partial(_dial, plugin, chosen)
        link = RuntimeLink(dial, watch=watch, turn=turn, budget=_budget(chosen), state=state, metrics=metrics)
        metrics.record_queue_depth.set_function(lambda: records.depth)
        metrics.pending_stops.set_function(lambda: enforcer.pending)
        server = HealthServer(chosen.readiness_port, readiness=state.readiness, page=partial(generate_latest, registry))
        await serve_if_possible(stack, server)
        await node.start()
        async with asyncio.TaskGroup() as group:
            connected = group.create_task(link.run(), name="link")
            workers = [
                group.create_task(part.run(), name=type(part).__name__)
                for part in (records, node, crosscheck, enforcer)
            ]
            await stop.wait()
            connected.cancel()
            # The last answers are to be in the log.
            afterwards.run()
            await _drain(records, turn)
            for worker in workers:
                worker.cancel()


@asynccontextmanager
async def _dial(plugin: FractionPlugin, chosen: Settings) -> AsyncIterator[nri_aio.Connection]:
    connection = await nri_aio.Connection.open(
        plugin, name=chosen.plugin_name, index=chosen.plugin_idx, socket_path=chosen.socket_path
    )
    async with connection:
        yield connection


async def _drain(records: Records, turn: Turn) -> None:
    """Give a stop under way and unwritten records a moment; what is left, the next fractiond does."""
    log = structlog.get_logger()
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            await records.flush()
            async with turn:
                pass
    except TimeoutError:
        log.warning("left_unfinished", records=records.depth, stop_under_way=turn.is_taken)


def _policy(chosen: Settings) -> Policy:
    grammar = Grammar(prefix=chosen.annotation_prefix, sm_sharing=chosen.support_sm_sharing)
    options = Options(pipe_dir=chosen.pipe_dir, inject_cdi=chosen.inject_cdi_device)
    return Policy(grammar, options, fail_open=chosen.fail_open)


def _sources(chosen: Settings) -> Sources:
    directories = tuple(Path(text) for text in chosen.cdi_spec_dirs) if chosen.inject_cdi_device else ()
    return Sources(proc_root=Path(chosen.proc_root), cdi_spec_dirs=directories)


def _terms(chosen: Settings) -> Terms:
    return Terms(
        grace_seconds=chosen.stop_timeout_seconds,
        interval_seconds=chosen.stop_interval_seconds,
        dry_run=chosen.retroactive_dry_run,
    )


def _budget(chosen: Settings) -> RetryBudget:
    return RetryBudget(
        max_retries=chosen.max_retries,
        stable_threshold=chosen.stable_threshold_seconds,
        schedule=Schedule(first=chosen.retry_interval_seconds, cap=RETRY_CAP_SECONDS),
    )
