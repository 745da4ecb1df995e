"""Who holds up our registration."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import attrs
import pytest
from fractiond.connection_state import ConnectionState
from fractiond.metrics import Metrics
from fractiond.syncwatch import SynchronizeWatch
from fractiond.turn import Turn
from nri_aio.cri import Container, ContainerState
from nri_aio.errors import CriUnavailable

pytestmark = pytest.mark.looptime

Sample = Callable[..., float | None]
Running = Callable[[SynchronizeWatch], AbstractAsyncContextManager[asyncio.Task[None]]]
LogLines = list[MutableMapping[str, Any]]


def a_container(
    container_id: str, *, name: str = "main", state: ContainerState = ContainerState.RUNNING, labelled: bool = True
) -> Container:
    labels = {"io.kubernetes.pod.namespace": "team-a", "io.kubernetes.pod.name": "job-1"} if labelled else {}
    return Container(container_id, "p1", name, 0, state, 0, labels, {})


@attrs.define
class Lister:
    """Lists answer after answer; None is a runtime that does not answer."""

    answers: list[list[Container] | None] = attrs.field(factory=list)
    asked: int = 0

    async def list_containers(self) -> Sequence[Container]:
        """Give the next answer."""
        self.asked += 1
        answer = self.answers.pop(0) if self.answers else []
        if answer is None:
            raise CriUnavailable("ListContainers", "connection refused")
        return answer


@pytest.fixture
def lister() -> Lister:
    return Lister()


@pytest.fixture
async def state(metrics: Metrics) -> ConnectionState:
    return ConnectionState(asyncio.get_running_loop().time, turn=Turn(), metrics=metrics)


@pytest.fixture
def watch(lister: Lister, state: ConnectionState, metrics: Metrics) -> SynchronizeWatch:
    return SynchronizeWatch(lister, state=state, metrics=metrics)


class TestAShortWait:
    @pytest.mark.parametrize("after", [pytest.param(0.2, id="as usual"), pytest.param(1.9, id="on a busy node")])
    async def test_nobody_is_asked_and_nothing_said(
        self,
        watch: SynchronizeWatch,
        state: ConnectionState,
        lister: Lister,
        log: LogLines,
        running: Running,
        after: float,
    ) -> None:
        """A registration that goes as it should costs no call and no line."""
        async with running(watch):
            state.registered()
            await asyncio.sleep(after)
            state.synchronized()
            await asyncio.sleep(60)

        assert (0, []) == (lister.asked, log)


class TestALongWait:
    async def test_it_is_said_and_counted_while_it_lasts(
        self,
        watch: SynchronizeWatch,
        state: ConnectionState,
        lister: Lister,
        log: LogLines,
        running: Running,
        sample: Sample,
    ) -> None:
        """After two seconds the log has what is waited for, and how many containers run."""
        lister.answers = [[a_container("c1"), a_container("c2", state=ContainerState.EXITED)]]
        async with running(watch):
            state.registered()
            await asyncio.sleep(30)

        assert 1.0 == sample("delayed_synchronizations_total")
        assert [
            {
                "event": "synchronize_delayed",
                "log_level": "warning",
                "state": "registered, waiting for the runtime's synchronise (2 s)",
                "running": 1,
            }
        ] == log

    async def test_what_ended_meanwhile_is_named(
        self, watch: SynchronizeWatch, state: ConnectionState, lister: Lister, log: LogLines, running: Running
    ) -> None:
        """The container whose graceful stop held us up is among those that ran before and do not now."""
        lister.answers = [
            [a_container("stop" * 16), a_container("stays"), a_container("gone", name="side", labelled=False)],
            [a_container("stop" * 16, state=ContainerState.EXITED), a_container("stays"), a_container("new")],
        ]
        async with running(watch):
            state.registered()
            await asyncio.sleep(60)
            state.synchronized()
            await asyncio.sleep(1)

        assert {
            "event": "synchronize_arrived",
            "log_level": "warning",
            "waited_seconds": 60.0,
            "ended_meanwhile": ["?/?/side gone", "team-a/job-1/main stopstopstop"],
        } == log[-1]

    @pytest.mark.parametrize(
        "answers",
        [
            pytest.param([None, [a_container("c1")]], id="no answer before"),
            pytest.param([[a_container("c1")], None], id="no answer after"),
        ],
    )
    async def test_nobody_is_named_where_cri_does_not_answer(
        self,
        watch: SynchronizeWatch,
        state: ConnectionState,
        lister: Lister,
        log: LogLines,
        running: Running,
        answers: list[list[Container] | None],
    ) -> None:
        """Half the facts accuse no container, and the wait is told all the same."""
        lister.answers = answers
        async with running(watch):
            state.registered()
            await asyncio.sleep(60)
            state.synchronized()
            await asyncio.sleep(1)

        assert ["containers_not_listed", "synchronize_arrived", "synchronize_delayed"] == sorted(
            line["event"] for line in log
        )
        assert log[-1]["ended_meanwhile"] is None

    async def test_it_ends_with_the_connection(
        self, watch: SynchronizeWatch, state: ConnectionState, log: LogLines, running: Running
    ) -> None:
        """Cancelled while it waits, it says no more."""
        async with running(watch):
            state.registered()
            await asyncio.sleep(60)
        state.synchronized()
        await asyncio.sleep(60)

        assert ["synchronize_delayed"] == [line["event"] for line in log]
