"""Containers that slipped through are stopped: one at a time, at most once, for as long as it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import attrs
import pytest
from fractiond.audit import Kind, Violation
from fractiond.enforcer import Enforcer, NoEnforcer, Terms
from fractiond.metrics import Metrics
from fractiond.turn import Turn
from fractiond.wire import Subject
from nri_aio.errors import CriError, CriFailed, CriUnavailable

pytestmark = pytest.mark.looptime

Sample = Callable[..., float | None]
Running = Callable[[Enforcer], AbstractAsyncContextManager[asyncio.Task[None]]]
LogLines = list[MutableMapping[str, Any]]

# The pause differs from every wait after a failure.
TERMS = Terms(grace_seconds=30.0, interval_seconds=5.0, dry_run=False)
DOWN = CriUnavailable("StopContainer", "connection refused")


def a_violation(container_id: str, kind: Kind = Kind.UNFENCED, *reasons: str) -> Violation:
    subject = Subject("team-a", f"pod-{container_id}", f"uid-{container_id}", "main", container_id)
    return Violation(subject, kind, reasons or ("env:X missing",))


@attrs.define
class Stopper:
    """A runtime that stops containers, slowly or not at all, and notes when it was asked."""

    seconds: float = 0.0
    errors: Mapping[str, list[CriError]] = attrs.field(factory=dict)
    asked: list[tuple[float, str]] = attrs.field(factory=list)
    graces: list[int] = attrs.field(factory=list)
    stopped: list[str] = attrs.field(factory=list)
    under_way: int = 0
    most_at_once: int = 0

    async def stop_container(self, container_id: str, *, grace_seconds: int) -> None:
        """Take as long as set, then stop the container or raise what is next for it."""
        self.asked.append((asyncio.get_running_loop().time(), container_id))
        self.graces.append(grace_seconds)
        self.under_way += 1
        self.most_at_once = max(self.most_at_once, self.under_way)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.under_way -= 1
        if left := self.errors.get(container_id):
            raise left.pop(0)
        self.stopped.append(container_id)


@pytest.fixture
def stopper() -> Stopper:
    return Stopper()


@pytest.fixture
def turn() -> Turn:
    return Turn()


@pytest.fixture
def enforcer(stopper: Stopper, turn: Turn, metrics: Metrics) -> Enforcer:
    return Enforcer(stopper, TERMS, turn=turn, metrics=metrics)


class TestStopping:
    async def test_all_good_stops_none(self, enforcer: Enforcer, stopper: Stopper, running: Running) -> None:
        """An audit without violations asks the runtime for nothing."""
        async with running(enforcer):
            enforcer.submit([])
            await asyncio.sleep(60)

        assert [] == stopper.asked

    async def test_violators_are_stopped_in_turn_a_pause_apart(
        self, enforcer: Enforcer, stopper: Stopper, running: Running
    ) -> None:
        """A rollout that makes many violators restarts them one by one."""
        stopper.seconds = 10.0
        async with running(enforcer):
            enforcer.submit([a_violation("c1"), a_violation("c2"), a_violation("c3")])
            await asyncio.sleep(60)

        assert [(0.0, "c1"), (15.0, "c2"), (30.0, "c3")] == stopper.asked
        assert 1 == stopper.most_at_once

    async def test_those_without_any_limit_go_first(
        self, enforcer: Enforcer, stopper: Stopper, running: Running
    ) -> None:
        """What endangers the neighbours most is stopped before what merely differs."""
        async with running(enforcer):
            enforcer.submit([a_violation("c1", Kind.DIFFERENT), a_violation("c2"), a_violation("c3", Kind.DIFFERENT)])
            await asyncio.sleep(60)

        assert ["c2", "c1", "c3"] == stopper.stopped

    async def test_one_that_fails_does_not_keep_the_others(
        self, enforcer: Enforcer, stopper: Stopper, running: Running
    ) -> None:
        """All of them are tried, and the one that failed comes again behind the rest."""
        stopper.errors = {"c2": [CriFailed("StopContainer", "UNKNOWN", "no")]}
        async with running(enforcer):
            enforcer.submit([a_violation("c1"), a_violation("c2"), a_violation("c3")])
            await asyncio.sleep(60)

        assert ["c1", "c2", "c3", "c2"] == [container_id for _, container_id in stopper.asked]
        assert ["c1", "c3", "c2"] == stopper.stopped

    @pytest.mark.parametrize(
        ("seconds", "whole"),
        [
            pytest.param(7.0, 7, id="whole seconds"),
            pytest.param(0.5, 1, id="half a second is not an immediate kill"),
            pytest.param(0.0, 0, id="none at all"),
        ],
    )
    async def test_the_grace_is_whole_seconds_rounded_up(
        self, stopper: Stopper, turn: Turn, metrics: Metrics, running: Running, seconds: float, whole: int
    ) -> None:
        """CRI counts in seconds, and never gets fewer than were set."""
        enforcer = Enforcer(stopper, attrs.evolve(TERMS, grace_seconds=seconds), turn=turn, metrics=metrics)
        async with running(enforcer):
            enforcer.submit([a_violation("c1")])
            await asyncio.sleep(1)

        assert [whole] == stopper.graces

    async def test_one_submitted_later_is_stopped_too(
        self, enforcer: Enforcer, stopper: Stopper, running: Running
    ) -> None:
        """The worker waits for more when the queue is empty."""
        async with running(enforcer):
            enforcer.submit([a_violation("c1")])
            await asyncio.sleep(100)
            enforcer.submit([a_violation("c2")])
            await asyncio.sleep(1)

        assert [(0.0, "c1"), (100.0, "c2")] == stopper.asked


class TestAtMostOnce:
    async def test_one_that_is_listed_as_alive_after_its_stop_is_judged_anew(
        self, enforcer: Enforcer, stopper: Stopper, running: Running, log: LogLines
    ) -> None:
        """A stop leaves a container that was never started as it was; if it starts, it must not be forgotten."""
        async with running(enforcer):
            enforcer.submit([a_violation("c1")])
            await asyncio.sleep(5)
            enforcer.submit([a_violation("c1")])
            await asyncio.sleep(60)

        assert ["c1", "c1"] == stopper.stopped
        assert 2 == len([line for line in log if line["event"] == "violation_found"])

    async def test_one_that_is_listed_again_while_it_waits_is_queued_once(
        self, enforcer: Enforcer, stopper: Stopper, running: Running
    ) -> None:
        """Two audits in a row queue a container once."""
        enforcer.submit([a_violation("c1")])
        enforcer.submit([a_violation("c1")])
        pending = enforcer.pending
        async with running(enforcer):
            await asyncio.sleep(60)

        assert (1, ["c1"], 0) == (pending, stopper.stopped, enforcer.pending)

    async def test_one_that_was_removed_is_not_stopped(
        self, enforcer: Enforcer, stopper: Stopper, running: Running
    ) -> None:
        """A container that is gone before its turn comes needs no stop."""
        enforcer.submit([a_violation("c1"), a_violation("c2")])
        enforcer.forget("c1")
        async with running(enforcer):
            await asyncio.sleep(60)

        assert ["c2"] == stopper.stopped

    async def test_one_that_was_removed_while_it_was_stopped_is_not_remembered(
        self, enforcer: Enforcer, stopper: Stopper, running: Running
    ) -> None:
        """Ids of containers that no longer exist do not pile up."""
        stopper.seconds = 10.0
        async with running(enforcer):
            enforcer.submit([a_violation("c1")])
            await asyncio.sleep(5)
            enforcer.forget("c1")
            await asyncio.sleep(60)

        assert (["c1"], {}, 0) == (stopper.stopped, enforcer._reported, enforcer.pending)

    async def test_those_that_the_runtime_no_longer_lists_are_forgotten(self, enforcer: Enforcer) -> None:
        """What was removed while nobody was connected is neither remembered nor stopped."""
        enforcer.submit([a_violation("gone"), a_violation("here")])
        enforcer.retain(["here", "new"])

        assert ({"here"}, 1) == (set(enforcer._reported), enforcer.pending)

    async def test_removing_an_unknown_one_is_fine(self, enforcer: Enforcer) -> None:
        """The runtime tells of every removal, also of containers that were never judged."""
        enforcer.forget("c1")

        assert 0 == enforcer.pending


class TestTolerated:
    async def test_it_is_told_and_never_stopped(
        self, enforcer: Enforcer, stopper: Stopper, running: Running, sample: Sample
    ) -> None:
        """A stricter rule is no reason to end a container that was fenced."""
        async with running(enforcer):
            enforcer.submit([a_violation("c1", Kind.TOLERATED)])
            await asyncio.sleep(60)

        assert ([], 1.0) == (stopper.asked, sample("violations_total", kind="tolerated"))

    async def test_one_that_waits_to_be_stopped_is_let_off(
        self, enforcer: Enforcer, stopper: Stopper, running: Running
    ) -> None:
        """The latest judgement counts, while there is time."""
        enforcer.submit([a_violation("c1", Kind.DIFFERENT)])
        enforcer.submit([a_violation("c1", Kind.TOLERATED)])
        async with running(enforcer):
            await asyncio.sleep(60)

        assert ([], 0) == (stopper.asked, enforcer.pending)


class TestARuntimeThatDoesNotAnswer:
    async def test_it_is_asked_again_ever_more_slowly_until_it_does(
        self, enforcer: Enforcer, stopper: Stopper, running: Running, sample: Sample
    ) -> None:
        """A missing CRI socket delays a stop, and costs a try each half minute at most."""
        stopper.errors = {"c1": [DOWN] * 8}
        async with running(enforcer):
            enforcer.submit([a_violation("c1")])
            await asyncio.sleep(200)

        assert [0, 1, 3, 7, 15, 31, 61, 91, 121] == [round(at) for at, _ in stopper.asked]
        assert ["c1"] == stopper.stopped
        assert (8.0, 1.0) == (sample("stops_total", result="failed"), sample("stops_total", result="stopped"))

    async def test_what_could_not_be_stopped_stays_pending(
        self, enforcer: Enforcer, stopper: Stopper, running: Running
    ) -> None:
        """The gauge of pending stops does not forget a container that still runs."""
        stopper.errors = {"c1": [DOWN] * 100}
        async with running(enforcer):
            enforcer.submit([a_violation("c1")])
            await asyncio.sleep(600)

        assert 1 == enforcer.pending

    async def test_after_a_success_the_pause_is_the_short_one_again(
        self, enforcer: Enforcer, stopper: Stopper, running: Running
    ) -> None:
        """A runtime that is back is not punished for having been away."""
        stopper.errors = {"c1": [DOWN] * 5}
        async with running(enforcer):
            enforcer.submit([a_violation("c1")])
            await asyncio.sleep(200)
            enforcer.submit([a_violation("c2"), a_violation("c3")])
            await asyncio.sleep(10)

        assert [(200, "c2"), (205, "c3")] == [(round(at), each) for at, each in stopper.asked[-2:]]

    async def test_each_failure_is_logged_with_its_number(
        self, enforcer: Enforcer, stopper: Stopper, running: Running, log: LogLines
    ) -> None:
        """Whoever reads the log sees that it goes on, and why it does not succeed."""
        stopper.errors = {"c1": [DOWN] * 2}
        async with running(enforcer):
            enforcer.submit([a_violation("c1")])
            await asyncio.sleep(60)

        failed = [line for line in log if line["event"] == "container_not_stopped"]
        assert [(1, str(DOWN)), (2, str(DOWN))] == [(line["attempt"], line["error"]) for line in failed]


class TestDryRun:
    async def test_nothing_is_stopped_and_everything_told_once(
        self, stopper: Stopper, turn: Turn, metrics: Metrics, running: Running, log: LogLines, sample: Sample
    ) -> None:
        """A first rollout shows what it would do."""
        enforcer = Enforcer(stopper, attrs.evolve(TERMS, dry_run=True), turn=turn, metrics=metrics)
        async with running(enforcer):
            enforcer.submit([a_violation("c1"), a_violation("c2")])
            await asyncio.sleep(60)
            enforcer.submit([a_violation("c1")])
            await asyncio.sleep(60)

        told = [line["container_id"] for line in log if line["event"] == "container_would_be_stopped"]
        assert ([], ["c1", "c2"]) == (stopper.asked, told)
        assert (2.0, 0.0) == (sample("stops_total", result="dry_run"), sample("stops_total", result="stopped"))


class TestTheTurn:
    async def test_a_stop_waits_for_a_registration(
        self, enforcer: Enforcer, stopper: Stopper, turn: Turn, running: Running
    ) -> None:
        """While we register, no stop of ours freezes the node."""
        async with running(enforcer):
            async with turn:
                enforcer.submit([a_violation("c1")])
                await asyncio.sleep(90)
            await asyncio.sleep(1)

        assert [(90.0, "c1")] == stopper.asked

    async def test_it_is_held_for_the_length_of_the_stop(
        self, enforcer: Enforcer, stopper: Stopper, turn: Turn, running: Running
    ) -> None:
        """A registration that is due waits until the container has ended, and not for the pause after it."""
        stopper.seconds = 30.0
        async with running(enforcer):
            enforcer.submit([a_violation("c1"), a_violation("c2")])
            await asyncio.sleep(1)
            async with turn:
                entered = asyncio.get_running_loop().time()

        assert 30.0 == entered

    async def test_a_shutdown_in_the_middle_frees_it_and_keeps_the_container_pending(
        self, enforcer: Enforcer, stopper: Stopper, turn: Turn, running: Running
    ) -> None:
        """A stop that was cut off counts as not done."""
        stopper.seconds = 30.0
        async with running(enforcer):
            enforcer.submit([a_violation("c1")])
            await asyncio.sleep(10)

        assert (False, 1, []) == (turn.is_taken, enforcer.pending, stopper.stopped)


class TestReporting:
    async def test_a_violation_is_logged_with_all_its_facts(self, enforcer: Enforcer, log: LogLines) -> None:
        """One line says which container, how far it is from what it should be, and each reason."""
        enforcer.submit([a_violation("c1", Kind.DIFFERENT, "env:A missing", "env:B missing")])

        assert [
            {
                "event": "violation_found",
                "log_level": "warning",
                "namespace": "team-a",
                "pod": "pod-c1",
                "pod_uid": "uid-c1",
                "container": "main",
                "container_id": "c1",
                "kind": "different",
                "reasons": ("env:A missing", "env:B missing"),
            }
        ] == log

    async def test_the_same_violation_is_told_once(self, enforcer: Enforcer, log: LogLines, sample: Sample) -> None:
        """Every re-registration lists a tolerated container; the log says it once."""
        for _ in range(3):
            enforcer.submit([a_violation("c1", Kind.TOLERATED)])

        assert (1, 1.0) == (len(log), sample("violations_total", kind="tolerated"))

    async def test_another_violation_of_the_same_container_is_told(self, enforcer: Enforcer, log: LogLines) -> None:
        """What changed since is news."""
        enforcer.submit([a_violation("c1", Kind.DIFFERENT, "env:A missing")])
        enforcer.submit([a_violation("c1", Kind.DIFFERENT, "env:B missing")])

        assert 2 == len(log)

    async def test_a_removed_container_is_forgotten(self, enforcer: Enforcer, log: LogLines) -> None:
        """What is kept about a container ends with it."""
        enforcer.submit([a_violation("c1", Kind.TOLERATED)])
        enforcer.forget("c1")
        enforcer.submit([a_violation("c1", Kind.TOLERATED)])

        assert 2 == len(log)


class TestNoEnforcer:
    async def test_nothing_is_judged_where_it_is_off(self, log: LogLines) -> None:
        """Without retroactive enforcement a violation is neither told nor acted on."""
        court = NoEnforcer()

        court.submit([a_violation("c1")])
        court.forget("c1")

        assert [] == log
