"""
Keeps the node's label at the driver's major version, and beside it an annotation that says what is wrong with the
driver.

The label is what the controller and fractiond's placement go by, so it is written when mpsd starts, whenever NVML
reports another version, and every ten minutes in case somebody removed it. A failure is retried with back-off and
never ends mpsd: memory accounting does not need the API server. While library and module differ the label is left as
it is, since either half of an upgrade could be the wrong one to announce. The annotation is there while the driver is
in trouble and no longer, for whoever looks at the node and not into the pod. Outside a cluster there is no node to
label, and that is said once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Protocol

import attrs
import structlog
from fractioning_core import names
from fractioning_core.errors import FileUnavailable, FractioningError, InvalidInput, ProtocolViolation, Unavailable
from fractioning_core.kube import errors as kube
from fractioning_core.kube.incluster import ACCOUNT_DIR, HOST_VARIABLE, Account
from fractioning_core.kube.nodes import Nodes
from fractioning_core.kube.transport import Transport
from fractioning_core.service.backoff import Schedule

from mpsd.driverstate import DriverState, LabelProblem

REFRESH_SECONDS = 600.0
RETRIES = Schedule(first=1.0, cap=60.0)
FIELD_MANAGER = "gpu-fractioning-mpsd"
NO_CLUSTER = "not in a cluster: no label"

_KINDS: Mapping[type[FractioningError], LabelProblem] = {
    kube.InvalidNodeName: LabelProblem.BAD_NODE_NAME,
    kube.NotFound: LabelProblem.NO_SUCH_NODE,
    kube.Unauthorized: LabelProblem.UNAUTHORIZED,
    kube.NoToken: LabelProblem.UNAUTHORIZED,
    kube.Forbidden: LabelProblem.FORBIDDEN,
    kube.NotInCluster: LabelProblem.NOT_CONFIGURED,
    # Of the files, only the certificate authority's is read here.
    FileUnavailable: LabelProblem.NOT_CONFIGURED,
    kube.ApiUnreachable: LabelProblem.UNREACHABLE,
    kube.ApiOverloaded: LabelProblem.UNREACHABLE,
}


class Labels(Protocol):
    """
    Who writes labels of nodes.
    """

    async def patch(
        self, node: str, *, labels: Mapping[str, str | None], annotations: Mapping[str, str | None]
    ) -> None:
        """
        Set labels and annotations, or remove them with None; raises FractioningError.
        """


@attrs.frozen
class NoWay:
    """
    Stands in for an API server that the environment does not tell the way to.
    """

    error: kube.NotInCluster

    async def patch(
        self,
        node: str,  # noqa: ARG002 - it refuses them all
        *,
        labels: Mapping[str, str | None],  # noqa: ARG002
        annotations: Mapping[str, str | None],  # noqa: ARG002
    ) -> None:
        """
        Say why not.
        """
        # A new one each time: an exception that is raised again gathers tracebacks for ever.
        raise attrs.evolve(self.error)


@attrs.frozen
class Marks:
    """
    What the node is to carry.

    Args:
        version: The driver version to label for; None leaves the label as it is.
        problem: What is wrong with the driver; empty for nothing, None leaves the annotation as it is.
    """

    version: str | None
    problem: str | None

    def __bool__(self) -> bool:
        return self.version is not None or self.problem is not None


class DriverLabel:
    """
    The loop that writes label and annotation.

    Args:
        labels: Who writes it; None outside a cluster.
        node: The name of this node; empty when nobody told.
        state: What is known of the driver; learns what became of the label.
        retries: The waits after failures; `RETRIES` in a cluster.
    """

    def __init__(self, labels: Labels | None, *, node: str, state: DriverState, retries: Schedule) -> None:
        self._labels = labels
        self._node = node
        self._state = state
        self._retries = retries
        self._log = structlog.get_logger()

    async def run(self) -> None:
        """
        Keep the label, for ever; there is nothing to do outside a cluster.
        """
        if self._labels is None:
            self._state.nothing_to_label(NO_CLUSTER)
            self._log.info("nothing_to_label", reason=NO_CLUSTER)
        else:
            await self._keep(self._labels)

    async def _keep(self, labels: Labels) -> None:
        failures = 0
        while True:
            wanted = self._wanted()
            if not wanted:
                await self._state.changed()
                continue
            failures = 0 if await self._write(labels, wanted) else failures + 1
            delay = self._retries.delay(failures - 1) if failures else REFRESH_SECONDS
            if await self._other_wanted(wanted, delay):
                failures = 0

    def _wanted(self) -> Marks:
        state = self._state
        return Marks(None if state.is_half_upgraded else state.driver.version, state.announcement())

    async def _write(self, labels: Labels, wanted: Marks) -> bool:
        value = str(self._state.current())
        before = self._state.label
        try:
            await labels.patch(
                self._node,
                labels={} if wanted.version is None else {names.DRIVER_LABEL: value},
                annotations={} if wanted.problem is None else {names.DRIVER_PROBLEM_ANNOTATION: wanted.problem or None},
            )
        except (Unavailable, InvalidInput, ProtocolViolation) as error:
            problem = classify(error)
            self._state.not_labelled(problem, _told(problem, error))
            if before.problem is not problem:
                self._log.warning("node_not_labelled", node=self._node, kind=problem.value, error=str(error))
            return False
        if wanted.version is None:
            self._state.announced()
            return True
        self._state.labelled(value, wanted.version)
        if before.value != value or before.problem is not None:
            self._log.info(
                "node_labelled", node=self._node, label=names.DRIVER_LABEL, value=value, version=wanted.version
            )
        return True

    async def _other_wanted(self, wanted: Marks, seconds: float) -> bool:
        """
        Wait, but no longer than until other marks are wanted.
        """
        try:
            async with asyncio.timeout(seconds):
                while self._wanted() == wanted:
                    await self._state.changed()
        except TimeoutError:
            return False
        return True


@asynccontextmanager
async def labels_from(environ: Mapping[str, str], *, directory: Path = ACCOUNT_DIR) -> AsyncIterator[Labels | None]:
    """
    Give who writes labels, as the pod's environment has it; None outside a cluster. Where a cluster's environment is
    malformed, every write is refused with the reason.

    Args:
        environ: The environment.
        directory: Where the ServiceAccount's files are mounted.
    """
    if not environ.get(HOST_VARIABLE):
        # As client-go tells: every container of every pod has it.
        yield None
        return
    async with AsyncExitStack() as stack:
        try:
            account = Account.from_environ(environ, directory=directory)
        except kube.NotInCluster as error:
            labels: Labels = NoWay(error)
        else:
            api = await stack.enter_async_context(Transport.of_account(account, user_agent=FIELD_MANAGER))
            labels = Nodes(api, field_manager=FIELD_MANAGER)
        yield labels


def classify(error: FractioningError) -> LabelProblem:
    """
    Name the kind of a failed write.
    """
    return next((problem for kind, problem in _KINDS.items() if isinstance(error, kind)), LabelProblem.REFUSED)


def _told(problem: LabelProblem, error: FractioningError) -> str:
    """
    Add which setting is meant, where the error knows only its value.
    """
    if problem in {LabelProblem.BAD_NODE_NAME, LabelProblem.NO_SUCH_NODE}:
        return f"--node-name (NODE_NAME): {error}"
    return str(error)
