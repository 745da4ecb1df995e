"""CRI's list of containers against what NRI told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import attrs
import pytest
from fractiond.audit import Kind, Violation
from fractiond.crosscheck import CrossCheck
from fractiond.fencing import Assessor, Inventory, Policy
from fractiond.metrics import Metrics
from fractiond.wire import Subject
from fractioning_core import names
from fractioning_core.injection import Options
from fractioning_core.podannotations import Grammar
from fractioning_core.testing.builders import annotations_for
from nri_aio.cri import Container, ContainerState, ContainerStatus, PodSandbox, PodSandboxState
from nri_aio.errors import CriFailed, CriUnavailable

pytestmark = pytest.mark.looptime

Sample = Callable[..., float | None]
Running = Callable[[CrossCheck], AbstractAsyncContextManager[asyncio.Task[None]]]
LogLines = list[MutableMapping[str, Any]]

ANNOTATED = annotations_for(limit="1Gi")
FENCED_ENV = (
    "PATH=/bin",
    f"{names.ENV_MEMORY_REQUEST}=1024",
    f"{names.ENV_MEMORY_LIMIT}=1024",
    f"{names.ENV_MPS_PIPE_DIRECTORY}=/run/nvidia-mps",
)
FENCED_MOUNTS = (("proc", "/proc"), ("/run/nvidia-mps", "/run/nvidia-mps"))


class Unknowing:
    """A node of which nothing is known."""

    current = Inventory()

    def doubt(self) -> None:
        """Nothing to renew."""


@attrs.define
class Runtime:
    """A runtime with containers of one pod each; `down` is how often it does not answer first."""

    down: int = 0
    calls: list[str] = attrs.field(factory=list)
    containers: list[Container] = attrs.field(factory=list)
    sandboxes: list[PodSandbox] = attrs.field(factory=list)
    specs: dict[str, ContainerStatus | None] = attrs.field(factory=dict)
    during_status: Callable[[], None] = lambda: None
    broken: set[str] = attrs.field(factory=set)

    def add(
        self,
        container_id: str,
        *,
        state: ContainerState = ContainerState.RUNNING,
        annotations: Mapping[str, str] = ANNOTATED,
        env: tuple[str, ...] | None = (),
        mounts: tuple[tuple[str, str], ...] | None = (),
        with_pod: bool = True,
    ) -> None:
        """Run a container whose spec has what is given."""
        self.containers.append(Container(container_id, f"p-{container_id}", "main", 0, state, 0, {}, {}))
        if with_pod:
            self.sandboxes.append(
                PodSandbox(f"p-{container_id}", "job-1", "team-a", "uid-1", PodSandboxState.READY, 0, {}, annotations)
            )
        self.specs[container_id] = ContainerStatus(
            container_id, "main", 0, state, 0, 0, {}, pid=1, env=env, mounts=mounts, annotations=None
        )

    async def list_containers(self) -> Sequence[Container]:
        """List every container, or fail as often as set."""
        self.calls.append("containers")
        if self.down:
            self.down -= 1
            raise CriUnavailable("ListContainers", "connection refused")
        return self.containers

    async def list_pod_sandboxes(self) -> Sequence[PodSandbox]:
        """List every pod."""
        self.calls.append("sandboxes")
        return self.sandboxes

    async def container_status(self, container_id: str) -> ContainerStatus | None:
        """Give a container's spec."""
        self.calls.append(container_id)
        self.during_status()
        if container_id in self.broken:
            raise CriFailed("ContainerStatus", "UNKNOWN", "failed to load its spec")
        return self.specs[container_id]


@attrs.define
class Around:
    """A cross-check and what it tells."""

    runtime: Runtime
    check: CrossCheck
    known: set[str]
    reported: list[Violation]
    retained: list[Collection[str]]


@pytest.fixture
async def around(metrics: Metrics) -> Around:
    runtime, known = Runtime(), set[str]()
    reported: list[Violation] = []
    retained: list[Collection[str]] = []
    check = CrossCheck(
        runtime,
        Assessor(Policy(Grammar(), Options()), Unknowing()),
        known=known,
        report=reported.extend,
        retain=retained.append,
        metrics=metrics,
    )
    return Around(runtime, check, known, reported, retained)


class TestWhenItRuns:
    async def test_not_before_it_is_asked(self, around: Around, running: Running) -> None:
        """Without a synchronise there is nothing to compare with."""
        async with running(around.check):
            await asyncio.sleep(600)

        assert [] == around.runtime.calls

    async def test_once_for_each_asking(self, around: Around, running: Running) -> None:
        """Every synchronise is compared, and nothing in between."""
        async with running(around.check):
            for _ in range(2):
                around.check.trigger()
                await asyncio.sleep(600)

        assert ["containers"] * 2 == around.runtime.calls

    async def test_until_the_runtime_answers(self, around: Around, running: Running, log: LogLines) -> None:
        """A CRI socket that is away is asked again, ever more slowly."""
        around.runtime.down = 6
        async with running(around.check):
            around.check.trigger()
            await asyncio.sleep(600)

        assert [1.0, 2.0, 4.0, 8.0, 16.0, 30.0] == [line["retry_in"] for line in log]
        assert 7 == len(around.runtime.calls)

    async def test_after_a_success_it_is_patient_anew(self, around: Around, running: Running, log: LogLines) -> None:
        """The next trouble begins with a short wait again."""
        async with running(around.check):
            for _ in range(2):
                around.runtime.down = 2
                around.check.trigger()
                await asyncio.sleep(600)

        assert [1.0, 2.0, 1.0, 2.0] == [line["retry_in"] for line in log]


class TestWhatWasMissed:
    async def test_one_that_nri_told_of_is_not_looked_at(self, around: Around, running: Running) -> None:
        """Where both lists agree one call is enough."""
        around.runtime.add("c1")
        around.known.add("c1")
        async with running(around.check):
            around.check.trigger()
            await asyncio.sleep(1)

        assert (["containers"], []) == (around.runtime.calls, around.reported)

    @pytest.mark.parametrize(
        "state",
        [pytest.param(ContainerState.RUNNING, id="running"), pytest.param(ContainerState.CREATED, id="created")],
    )
    async def test_an_unfenced_one_is_reported(
        self, around: Around, running: Running, sample: Sample, log: LogLines, state: ContainerState
    ) -> None:
        """A container in neither the list nor an event is judged by its spec, like any other."""
        around.runtime.add("c1", state=state, env=("PATH=/bin",))
        async with running(around.check):
            around.check.trigger()
            await asyncio.sleep(1)

        (violation,) = around.reported
        assert (Subject("team-a", "job-1", "uid-1", "main", "c1"), Kind.UNFENCED) == (violation.subject, violation.kind)
        assert (1.0, ["container_unreported"]) == (
            sample("unreported_containers_total"),
            [line["event"] for line in log],
        )

    async def test_a_fenced_one_is_counted_and_left_alone(
        self, around: Around, running: Running, sample: Sample
    ) -> None:
        """Having been missed in the list is no fault of the container."""
        around.runtime.add("c1", env=FENCED_ENV, mounts=FENCED_MOUNTS)
        async with running(around.check):
            around.check.trigger()
            await asyncio.sleep(1)

        assert ([], 1.0) == (around.reported, sample("unreported_containers_total"))

    async def test_one_without_annotations_is_left_alone(self, around: Around, running: Running) -> None:
        """Most containers of a node are none of our business."""
        around.runtime.add("c1", annotations={})
        async with running(around.check):
            around.check.trigger()
            await asyncio.sleep(1)

        assert [] == around.reported

    @pytest.mark.parametrize(
        ("env", "mounts"),
        [
            pytest.param(None, FENCED_MOUNTS, id="environment not shown"),
            pytest.param(FENCED_ENV, None, id="mounts not shown"),
        ],
    )
    async def test_one_whose_spec_is_not_shown_is_not_judged(
        self,
        around: Around,
        running: Running,
        log: LogLines,
        env: tuple[str, ...] | None,
        mounts: tuple[tuple[str, str], ...] | None,
    ) -> None:
        """A runtime that shows no spec gets no fenced container stopped."""
        around.runtime.add("c1", env=env, mounts=mounts)
        async with running(around.check):
            around.check.trigger()
            await asyncio.sleep(1)

        assert ([], "container_not_judged") == (around.reported, log[-1]["event"])

    @pytest.mark.parametrize(
        "state", [pytest.param(ContainerState.EXITED, id="exited"), pytest.param(ContainerState.UNKNOWN, id="unknown")]
    )
    async def test_one_that_does_not_live_is_passed_over(
        self, around: Around, running: Running, state: ContainerState
    ) -> None:
        """What has ended uses no GPU."""
        around.runtime.add("c1", state=state)
        async with running(around.check):
            around.check.trigger()
            await asyncio.sleep(1)

        assert ["containers"] == around.runtime.calls

    async def test_one_without_a_pod_is_passed_over(self, around: Around, running: Running) -> None:
        """Without a pod there are no annotations to judge by."""
        around.runtime.add("c1", with_pod=False)
        async with running(around.check):
            around.check.trigger()
            await asyncio.sleep(1)

        assert [] == around.reported

    async def test_one_that_ended_meanwhile_is_passed_over(
        self, around: Around, running: Running, sample: Sample
    ) -> None:
        """Between list and look a container may go."""
        around.runtime.add("c1")
        around.runtime.specs["c1"] = None
        async with running(around.check):
            around.check.trigger()
            await asyncio.sleep(1)

        assert ([], 0.0) == (around.reported, sample("unreported_containers_total"))

    async def test_one_that_nri_told_of_meanwhile_is_passed_over(
        self, around: Around, running: Running, sample: Sample
    ) -> None:
        """A container that was being created while we listed is not taken for missed."""
        around.runtime.add("c1")
        around.runtime.during_status = lambda: around.known.add("c1")
        async with running(around.check):
            around.check.trigger()
            await asyncio.sleep(1)

        assert ([], 0.0) == (around.reported, sample("unreported_containers_total"))


class TestOneThatCannotBeShown:
    async def test_it_does_not_keep_the_others_from_being_judged(
        self, around: Around, running: Running, sample: Sample
    ) -> None:
        """A container whose spec does not load is asked for again; each other one is judged and counted once."""
        for container_id in ("first", "broken", "last"):
            around.runtime.add(container_id)
        around.runtime.broken = {"broken"}
        async with running(around.check):
            around.check.trigger()
            await asyncio.sleep(20)
            around.runtime.broken.clear()
            await asyncio.sleep(60)

        assert ["first", "last", "broken"] == [each.subject.container_id for each in around.reported]
        assert 3.0 == sample("unreported_containers_total")


class TestRetaining:
    async def test_records_of_living_and_of_known_containers_stay(self, around: Around, running: Running) -> None:
        """What CRI has alive and what NRI told of since both exist."""
        around.runtime.add("alive", annotations={})
        around.runtime.add("dead", state=ContainerState.EXITED)
        around.known |= {"known"}
        async with running(around.check):
            around.check.trigger()
            await asyncio.sleep(1)

        assert [{"alive", "known"}] == [set(each) for each in around.retained]

    async def test_nothing_goes_while_the_runtime_does_not_answer(self, around: Around, running: Running) -> None:
        """Not knowing is no reason to remove a record."""
        around.runtime.down = 1000
        async with running(around.check):
            around.check.trigger()
            await asyncio.sleep(600)

        assert [] == around.retained
