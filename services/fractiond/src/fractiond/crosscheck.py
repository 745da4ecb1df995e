"""
Compares CRI's list of containers with what NRI told at the last Synchronize.

A container can be in neither the list nor an event: on runtimes without a barrier around Synchronize always, on newer
ones now and then (containerd issue 13698). The one that is missed runs unfenced and unseen, so it is looked up here
and judged like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import structlog
from fractioning_core.injection import Observed
from fractioning_core.service.backoff import Schedule
from nri_aio.cri import Container, ContainerState, ContainerStatus, PodSandbox
from nri_aio.errors import CriError, CriFailed

from fractiond import audit
from fractiond.audit import Violation
from fractiond.fencing import Assessor
from fractiond.metrics import Metrics
from fractiond.wire import Subject

RETRY = Schedule(first=1.0, cap=30.0)
ALIVE = (ContainerState.CREATED, ContainerState.RUNNING)


class Runtime(Protocol):
    """The calls of the CRI client that are needed here."""

    async def list_containers(self) -> Sequence[Container]:
        """List every container the runtime knows."""

    async def list_pod_sandboxes(self) -> Sequence[PodSandbox]:
        """List every pod sandbox the runtime knows."""

    async def container_status(self, container_id: str) -> ContainerStatus | None:
        """Give one container with its OCI spec; None if it is gone."""


class CrossCheck:
    """Runs once after every Synchronize, and until it succeeds."""

    def __init__(
        self,
        runtime: Runtime,
        assessor: Assessor,
        *,
        known: Collection[str],
        report: Callable[[Sequence[Violation]], None],
        retain: Callable[[Collection[str]], None],
        metrics: Metrics,
    ) -> None:
        self._runtime = runtime
        self._assessor = assessor
        self._known = known
        self._report = report
        self._retain = retain
        self._metrics = metrics
        self._log = structlog.get_logger()
        self._judged: set[str] = set()
        self._wanted = asyncio.Event()

    def trigger(self) -> None:
        """Ask for a comparison soon."""
        self._judged.clear()
        self._wanted.set()

    async def run(self) -> None:
        """Compare whenever asked, for ever; a runtime that does not answer is asked again."""
        attempt = 0
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._compare()
            except CriError as error:
                delay = RETRY.delay(attempt)
                self._log.warning("containers_not_compared", error=str(error), retry_in=delay)
                await asyncio.sleep(delay)
                attempt += 1
                self._wanted.set()
            else:
                attempt = 0

    async def _compare(self) -> None:
        """
        Compare once; those judged already since the last Synchronize are left out.

        Raises:
            CriError: the runtime did not answer, or could not show a container; the others were judged all the same.
        """
        alive = [each for each in await self._runtime.list_containers() if each.state in ALIVE]
        self._retain({each.id for each in alive} | set(self._known))
        missed = [each for each in alive if each.id not in self._known and each.id not in self._judged]
        if not missed:
            return
        sandboxes = {pod.id: pod for pod in await self._runtime.list_pod_sandboxes()}
        failure: CriFailed | None = None
        for container in missed:
            try:
                await self._judge(sandboxes.get(container.pod_sandbox_id), container)
                self._judged.add(container.id)
            except CriFailed as error:
                self._log.warning("container_not_judged", container_id=container.id, error=str(error))
                failure = error
        if failure is not None:
            raise failure

    async def _judge(self, pod: PodSandbox | None, container: Container) -> None:
        status = await self._runtime.container_status(container.id)
        if status is None or container.id in self._known:
            return  # it ended, or was told of, while we asked
        self._metrics.unreported.inc()
        if pod is None or status.env is None or status.mounts is None:
            reason = "the runtime does not show its " + ("pod" if pod is None else "spec")
            self._log.error("container_not_judged", container_id=container.id, container=container.name, error=reason)
            return
        subject = Subject(pod.namespace, pod.name, pod.uid, container.name, container.id)
        self._log.warning("container_unreported", **subject.keys())
        observed = Observed(env=status.env, mounts=status.mounts, cdi_devices=None)
        assessment = self._assessor.assess(pod.annotations, container.name)
        violation = audit.judge(subject, observed, assessment, pipe_dir=self._assessor.pipe_dir)
        if violation is not None:
            self._report([violation])
