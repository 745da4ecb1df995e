"""
The NRI handlers: fence at creation, check what became of it, keep the records.

Every handler is synchronous and does no I/O, so it is answered in the same turn of the loop; what it has to say in
the log comes after the answer. An un-annotated container costs two dictionary look-ups.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NoReturn, Protocol

import nri_aio
import structlog
from fractioning_core import injection
from fractioning_core.injection import Observed
from fractioning_core.record import Record
from nri_aio import Call, ChangeRequest, Configuration, runtimes
from nri_aio.pb import nri_pb2 as pb

from fractiond import audit, fencing, wire
from fractiond.audit import Kind, Violation
from fractiond.fencing import Assessment, Assessor, Fenced, Unusable
from fractiond.metrics import Metrics, Outcome
from fractiond.refusals import Refusals
from fractiond.wire import Subject

ALIVE = frozenset({pb.CONTAINER_CREATED, pb.CONTAINER_RUNNING, pb.CONTAINER_PAUSED})


class Keeper(Protocol):
    """Who keeps the records; no call waits."""

    def put(self, container_id: str, record: Record) -> None:
        """Want this record."""

    def put_new(self, container_id: str, record: Record) -> None:
        """Want this record, unless a newer one is wanted already."""

    def drop(self, container_id: str) -> None:
        """Want none for this container."""

    def replace(self, records: Mapping[str, Record], *, spare: Collection[str]) -> None:
        """Want these, and leave those of the containers to spare as they are."""


class Court(Protocol):
    """Who deals with containers that are not as they should be; no call waits."""

    def submit(self, violations: Sequence[Violation]) -> None:
        """Report and queue them."""

    def forget(self, container_id: str) -> None:
        """The container is gone."""

    def retain(self, existing: Collection[str]) -> None:
        """All containers but these are gone."""


class Line(Protocol):
    """Who keeps the connection."""

    def registered(self) -> None:
        """The runtime took our registration."""

    def synchronized(self) -> None:
        """We are on the runtime's list."""

    def lost(self, reason: str) -> None:
        """The connection is as good as gone."""


class FractionPlugin(nri_aio.Plugin):
    """
    Answers the runtime.

    `known` is kept to the containers that the runtime has told us of and not yet removed.
    """

    def __init__(  # noqa: PLR0913 - the parts it works with, each by name
        self,
        assessor: Assessor,
        *,
        known: set[str],
        keeper: Keeper,
        court: Court,
        line: Line,
        after_synchronize: Callable[[], None],
        metrics: Metrics,
        later: Callable[[Callable[[], object]], object],
        clock: Callable[[], float],
    ) -> None:
        self._assessor = assessor
        self._known = known
        self._keeper = keeper
        self._court = court
        self._line = line
        self._after_synchronize = after_synchronize
        self._metrics = metrics
        self._later = later
        self._clock = clock
        self._log = structlog.get_logger()
        self._refusals = Refusals()
        self._obeys_starts = False

    def configure(self, configuration: Configuration) -> None:
        """Note whom we are talking to."""
        self._line.registered()
        self._log.info(
            "runtime_registered",
            runtime=configuration.runtime_name,
            runtime_version=configuration.runtime_version,
            nri_version=configuration.nri_version,
            request_timeout_seconds=configuration.request_timeout,
            validates=runtimes.has_validation(configuration.events),
        )
        name, version = configuration.runtime_name, configuration.runtime_version
        # CRI-O logs a plugin's refusal of a start, and starts the container.
        self._obeys_starts = name == "containerd"
        if self._assessor.injects_cdi and runtimes.ignores_cdi_devices(runtime_name=name, runtime_version=version):
            self._log.error(
                "cdi_devices_ignored", runtime=name, runtime_version=version, effect="containers get no GPU"
            )

    def synchronize(self, pods: Sequence[pb.PodSandbox], containers: Sequence[pb.Container]) -> None:
        """Take the runtime's list as the truth: rebuild the records and audit every container."""
        started = self._clock()
        by_id = {pod.id: pod for pod in pods}
        records: dict[str, Record] = {}
        violations: list[Violation] = []
        unclear: set[str] = set()
        self._known.clear()
        for container in containers:
            # A container whose pod is missing stays unknown, so that the comparison with CRI looks it up.
            if (pod := by_id.get(container.pod_sandbox_id)) is not None:
                self._known.add(container.id)
                self._examine(pod, container, records, violations)
            else:
                unclear.add(container.id)
        # Some runtimes list nothing right after their own restart; CRI's list decides what is gone then.
        if containers:
            self._keeper.replace(records, spare=unclear)
            self._court.retain(self._known)
        self._court.submit(violations)
        self._metrics.seconds["synchronize"].observe(self._clock() - started)
        self._later(
            partial(self._log.info, "synchronized", pods=len(pods), containers=len(containers), fractional=len(records))
        )

    def synchronized(self) -> None:
        """Note that the runtime calls us from now on."""
        self._line.synchronized()
        self._after_synchronize()

    def create_container(self, request: pb.CreateContainerRequest, call: Call) -> pb.CreateContainerResponse | None:
        """Give the container what its pod's annotations ask for, or refuse it."""
        started = self._clock()
        pod, container = request.pod, request.container
        self._known.add(container.id)
        assessment = self._assessor.assess(pod.annotations, container.name)
        if assessment is fencing.UNTOUCHED:
            self._count("create", started, Outcome.UNTOUCHED)
            return None
        if isinstance(assessment, Fenced):
            return self._fence(request, assessment, started)
        subject = Subject.of(pod, container)
        if isinstance(assessment, Unusable):
            self._refuse("create", started, Outcome.REFUSED, subject=subject, problems=assessment.problems)
        self._count("create", started, Outcome.FAILED_OPEN)
        facts = {"ignored": assessment.ignored, **subject.keys()}
        self._later(partial(self._log.warning, "container_failed_open", **facts))
        return None

    def validate_container_adjustment(
        self, request: pb.ValidateContainerAdjustmentRequest, call: Call
    ) -> pb.ValidateContainerAdjustmentResponse | None:
        """
        Refuse a fractional container that is about to be made without what we injected.

        The runtime asks this after all plugins had their say, and even if we missed the creation itself: this is what
        makes a late or dead fractiond refuse containers instead of letting them start without a limit.
        """
        started = self._clock()
        pod, container = request.pod, request.container
        assessment = self._assessor.assess(pod.annotations, container.name)
        problems = () if assessment is fencing.UNTOUCHED else _lacking(assessment, wire.adjusted(request.adjust))
        if problems:
            self._refuse(
                "validate",
                started,
                Outcome.REJECTED_AT_VALIDATION,
                subject=Subject.of(pod, container),
                problems=problems,
            )
        self._metrics.seconds["validate"].observe(self._clock() - started)
        return None

    def start_container(self, request: ChangeRequest, call: Call) -> None:
        """Look at the finished container a moment before its program runs: the last chance to see it unfenced."""
        started = self._clock()
        pod, container = request.pod, request.container
        assessment = self._assessor.assess(pod.annotations, container.name)
        if assessment is not fencing.UNTOUCHED:
            self._check_start(Subject.of(pod, container), container, assessment, started)
        self._metrics.seconds["start"].observe(self._clock() - started)

    def remove_container(self, request: ChangeRequest, call: Call) -> None:
        """Forget the container."""
        started = self._clock()
        container_id = request.container.id
        self._known.discard(container_id)
        self._keeper.drop(container_id)
        self._court.forget(container_id)
        self._metrics.seconds["remove"].observe(self._clock() - started)

    def shutdown(self) -> None:
        """Note that the runtime is going."""
        self._line.lost("the runtime is shutting down")

    def handler_failed(self, method: str, error: BaseException) -> None:
        """Count and log a fault of ours; the runtime got an error, so nothing started because of it."""
        self._metrics.failed(method)
        self._log.error("handler_failed", method=method, exc_info=error)

    def _fence(self, request: pb.CreateContainerRequest, fenced: Fenced, started: float) -> pb.CreateContainerResponse:
        container = request.container
        destinations = (mount.destination for mount in container.mounts)
        obstacles = fencing.obstacles(fenced.injection, env=container.env, destinations=destinations)
        if obstacles:
            self._refuse(
                "create", started, Outcome.REFUSED, subject=Subject.of(request.pod, container), problems=obstacles
            )
        response = wire.adjustment(fenced.injection)
        # Record and log line cost as much again as the answer, which goes first: a tenth of the whole round trip.
        self._later(partial(self._keep_fenced, request, fenced))
        self._count("create", started, Outcome.FENCED)
        return response

    def _keep_fenced(self, request: pb.CreateContainerRequest, fenced: Fenced) -> None:
        subject = Subject.of(request.pod, request.container)
        # Its creation may have failed since, and what is removed needs no record.
        if subject.container_id in self._known:
            self._keeper.put_new(subject.container_id, wire.record_of(subject, request.container, fenced.fraction))
        self._log_fenced(subject, fenced)

    def _check_start(self, subject: Subject, container: pb.Container, assessment: Assessment, started: float) -> None:
        violation = audit.judge(subject, wire.observed(container), assessment, pipe_dir=self._assessor.pipe_dir)
        if violation is not None:
            if not self._obeys_starts:
                self._court.submit([violation])
            self._refuse("start", started, Outcome.REJECTED_AT_START, subject=subject, problems=violation.reasons)
        if isinstance(assessment, Fenced):
            # Now the runtime shows the device nodes that CDI and the NVIDIA runtime added after the creation.
            self._keeper.put(subject.container_id, wire.record_of(subject, container, assessment.fraction))

    def _examine(
        self, pod: pb.PodSandbox, container: pb.Container, records: dict[str, Record], violations: list[Violation]
    ) -> None:
        assessment = self._assessor.assess(pod.annotations, container.name)
        if assessment is fencing.UNTOUCHED:
            return
        subject = Subject.of(pod, container)
        violation = audit.judge(subject, wire.observed(container), assessment, pipe_dir=self._assessor.pipe_dir)
        if violation is not None and container.state in ALIVE:
            violations.append(violation)
        fraction = None if isinstance(assessment, fencing.Untouched) else assessment.fraction
        # What today's rules would refuse and was fenced before runs on, and so does its record.
        is_kept = isinstance(assessment, Fenced) or (violation is not None and violation.kind is Kind.TOLERATED)
        if fraction is not None and is_kept:
            records[container.id] = wire.record_of(subject, container, fraction)

    def _count(self, method: str, started: float, outcome: Outcome) -> None:
        self._metrics.outcomes[outcome].inc()
        self._metrics.seconds[method].observe(self._clock() - started)

    def _refuse(
        self, method: str, started: float, outcome: Outcome, *, subject: Subject, problems: tuple[str, ...]
    ) -> NoReturn:
        """Answer an error: one line that the user reads in `kubectl describe pod`."""
        text = f"{subject}: {'; '.join(problems)}"
        self._count(method, started, outcome)
        self._assessor.node.doubt()
        log = self._log.warning if self._refusals.is_new(subject.pod_uid, text) else self._log.debug
        self._later(partial(log, "container_refused", outcome=outcome.value, problems=problems, **subject.keys()))
        raise nri_aio.Refused(text)

    def _log_fenced(self, subject: Subject, fenced: Fenced) -> None:
        fraction = fenced.fraction
        self._log.info(
            "container_fenced",
            **subject.keys(),
            request_mib=fraction.request_mib,
            limit_mib=fraction.limit_mib,
            mode=fraction.mode.value,
            devices=fraction.devices_value,
            ignored=fenced.ignored,
        )


def _lacking(assessment: Assessment, adjusted: Observed) -> tuple[str, ...]:
    match assessment:
        case Unusable(problems=problems):
            return problems
        case Fenced(injection=expected):
            return injection.differences(expected, adjusted)
        case _:
            return ()
