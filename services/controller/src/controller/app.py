"""
The parts of the controller, and how they are put together.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path

import structlog
from fractioning_core.kube import timestamps
from fractioning_core.kube.election import Election
from fractioning_core.kube.events import Recorder
from fractioning_core.kube.incluster import Account
from fractioning_core.kube.lease import Pod
from fractioning_core.kube.nodes import Nodes
from fractioning_core.kube.objects import Objects
from fractioning_core.kube.transport import Api, StreamingApi, Transport
from fractioning_core.service import http, runner, settings
from fractioning_core.service.addresses import NOWHERE
from fractioning_core.service.http import HealthServer, serve_if_possible
from prometheus_client import CollectorRegistry, generate_latest

from controller.applier import Applier
from controller.commands import COMMANDS
from controller.guard import GuardedApi
from controller.health import Alone, Candidate, Health
from controller.latest import Latest
from controller.metrics import Metrics
from controller.options import Image, Options
from controller.reconciler import Reconciler, Wakeup
from controller.scrapers import Scrapers
from controller.securemetrics import RELOAD_SECONDS, Certificate, SecureMetrics
from controller.settings import Settings
from controller.sources import Sources
from controller.writes import FIELD_MANAGER, Writes

PROGRAM = "controller"
LEASE = "gpu-fractioning.kai.scheduler"
EVENT_SOURCE = "gpufractioningconfig-controller"

# What the pages of the probes answer for metrics, which have an address of their own.
_NO_METRICS = b"# served at --metrics-bind-address\n"


def main() -> None:
    """
    Run the controller as a program, or one of its commands.
    """
    if command := COMMANDS.get("".join(sys.argv[1:2])):
        raise SystemExit(command(sys.argv[2:]))
    chosen = settings.parse_or_exit(Settings, program=PROGRAM, version=version(PROGRAM))
    log_level = "debug" if chosen.development else "info"
    raise SystemExit(runner.run(partial(serve, chosen), service=PROGRAM, log_level=log_level))


async def serve(chosen: Settings, stop: asyncio.Event) -> None:
    """
    Run every part until `stop` is set.

    Raises:
        FractioningError: we are in no cluster, cannot serve the metrics as asked, or have lost the lease.
    """
    if chosen.skip_gpu_stack_version_checks:
        structlog.get_logger().error("version_checks_skipped", meaning="a GPU stack that cannot enforce limits passes")
    account = Account.from_environ(os.environ)
    async with Transport.of_account(account, user_agent=FIELD_MANAGER) as transport:
        await run(chosen, transport, stop)


async def run(chosen: Settings, transport: StreamingApi, stop: asyncio.Event) -> None:
    """
    Run every part on an API server until `stop` is set.
    """
    clock = asyncio.get_running_loop().time
    registry = CollectorRegistry()
    metrics, wakeup, latest, led = Metrics(registry), Wakeup(), Latest(), asyncio.Event()
    options = options_of(chosen)
    sources = Sources(transport, options=options, changed=wakeup.wake, clock=clock)
    async with AsyncExitStack() as stack:
        # Left last of all: the lease is given back when nothing is written any more.
        candidate = await _candidate(stack, chosen, transport, led)
        api = GuardedApi(transport, may_write=lambda: not stop.is_set() and candidate.may_write())
        recorder = _recorder(api)
        writes = Writes(
            Objects(api, field_manager=FIELD_MANAGER),
            nodes=Nodes(api, field_manager=FIELD_MANAGER),
            namespace=options.namespace,
            utcnow=timestamps.utcnow,
        )
        reconciler = Reconciler(
            sources,
            applier=Applier(writes, recorder=recorder, latest=latest, metrics=metrics),
            latest=latest,
            wakeup=wakeup,
            metrics=metrics,
            clock=time.perf_counter,
            utcnow=timestamps.utcnow,
        )
        _sample(metrics, candidate, sources, recorder)
        health = Health(candidate, sources, reconciler)
        address = chosen.health_probe_bind_address
        pages = HealthServer(address.port, host=address.host, readiness=health.readiness, page=lambda: _NO_METRICS)
        await serve_if_possible(stack, pages)
        secure = await _serve_metrics(stack, chosen, transport, health, partial(generate_latest, registry))
        async with asyncio.TaskGroup() as group:
            leading = group.create_task(_lead(led, sources, recorder, reconciler), name="leading")
            others = [group.create_task(candidate.run(), name="candidate")]
            others += [group.create_task(part.run(), name="certificate") for part in secure]
            await stop.wait()
            reconciler.stop()
            if not led.is_set():
                leading.cancel()
            # It ends by itself, after the request that is under way.
            await asyncio.wait([leading])
            for task in others:
                task.cancel()


def options_of(chosen: Settings) -> Options:
    """
    Give what the plans need to know of the settings.
    """
    return Options(
        namespace=chosen.pod_namespace,
        fractiond=Image(
            chosen.fractiond_image_repository, chosen.fractiond_image_tag, chosen.fractiond_image_pull_policy
        ),
        metricsd=Image(chosen.metricsd_image_repository, chosen.metricsd_image_tag, chosen.metricsd_image_pull_policy),
        mpsd=Image(chosen.mpsd_image_repository, chosen.mpsd_image_tag, chosen.mpsd_image_pull_policy),
        support_sm_sharing=chosen.support_sm_sharing,
        audit_log=chosen.mpsd_audit_log,
        skip_version_checks=chosen.skip_gpu_stack_version_checks,
        fips_mode=chosen.fips_mode,
        daemon_service_account=chosen.daemon_service_account_name,
        fractiond_service_account=chosen.fractiond_service_account_name,
        image_pull_secrets=chosen.image_pull_secrets,
        required_scc=chosen.daemon_required_scc,
        priority_class_name=chosen.daemon_priority_class_name,
    )


async def _lead(led: asyncio.Event, sources: Sources, recorder: Recorder, reconciler: Reconciler) -> None:
    """
    Begin to read when we lead, so that nothing is planned from what was read before; go on until told to stop.
    """
    await led.wait()
    structlog.get_logger().info("leading")
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(sources.run(), name="sources")
        telling = group.create_task(recorder.run(), name="events")
        await reconciler.run()
        reading.cancel()
        telling.cancel()


async def _candidate(stack: AsyncExitStack, chosen: Settings, transport: StreamingApi, led: asyncio.Event) -> Candidate:
    if not chosen.leader_elect:
        led.set()
        return Alone()

    def look() -> None:
        if election.is_leader:
            led.set()

    election = Election(
        transport,
        namespace=chosen.pod_namespace,
        name=LEASE,
        identity=chosen.identity or f"{socket.gethostname()}_{uuid.uuid4()}",
        changed=look,
        utcnow=timestamps.utcnow,
        pod=Pod(chosen.identity, chosen.pod_uid) if chosen.identity and chosen.pod_uid else None,
    )
    return await stack.enter_async_context(election)


def _recorder(api: Api) -> Recorder:
    def tell() -> None:
        # No event can say that events cannot be told.
        if recorder.problem:
            structlog.get_logger().warning("events_failing", reason=recorder.problem)
        else:
            structlog.get_logger().info("events_told")

    recorder = Recorder(api, component=EVENT_SOURCE, changed=tell, utcnow=timestamps.utcnow)
    return recorder


async def _serve_metrics(
    stack: AsyncExitStack, chosen: Settings, transport: StreamingApi, health: Health, page: Callable[[], bytes]
) -> Sequence[SecureMetrics]:
    """
    Serve the metrics as it is asked for; give what has to run for that.
    """
    address = chosen.metrics_bind_address
    if address == NOWHERE:
        return ()
    if not chosen.metrics_secure:
        server = HealthServer(address.port, host=address.host, readiness=health.readiness, page=page)
        await serve_if_possible(stack, server)
        return ()
    directory = Path(chosen.metrics_cert_path)
    reviews = Objects(transport, field_manager=FIELD_MANAGER)
    clock = asyncio.get_running_loop().time
    secure = SecureMetrics(
        address,
        certificate=Certificate(directory / chosen.metrics_cert_name, directory / chosen.metrics_cert_key),
        scrapers=Scrapers(reviews, path=http.METRICS_PATH, clock=clock),
        page=page,
        reload_seconds=RELOAD_SECONDS,
    )
    return (await stack.enter_async_context(secure),)


def _sample(metrics: Metrics, candidate: Candidate, sources: Sources, recorder: Recorder) -> None:
    metrics.leader.read_from(lambda: candidate.is_leader)
    metrics.dropped_events.read_from(lambda: recorder.dropped)
    metrics.mirrors.read_from(sources.iter_states)
