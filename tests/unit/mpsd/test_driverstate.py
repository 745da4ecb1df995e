from __future__ import annotations

import asyncio

import attrs
import pytest
from mpsd.driverstate import (
    REASON_LIMIT,
    REFUSAL_SECONDS,
    DriverFacts,
    DriverProblem,
    DriverState,
    LabelFacts,
    LabelProblem,
)


@attrs.define
class Clock:
    """
    Time that the test sets.
    """

    now: float = 100.0

    def __call__(self) -> float:
        """
        Tell it.
        """
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state(clock: Clock) -> DriverState:
    return DriverState(clock)


class TestDriver:
    """
    What is known of the driver.
    """

    def test_beginning(self, state: DriverState, clock: Clock) -> None:
        """
        Until NVML first answers, the driver counts as starting.
        """
        clock.now += 12.4

        assert (None, "driver starting, 12 s") == (state.current(), state.complaint())

    def test_answer(self, state: DriverState) -> None:
        """
        An answer leaves nothing to complain of.
        """
        state.learn("615.43.02", 615)

        assert (615, "") == (state.current(), state.complaint())

    def test_silence_after_an_answer(self, state: DriverState, clock: Clock) -> None:
        """
        What was known stays known while NVML is silent, and the silence is counted from its beginning.
        """
        state.learn("615.43.02", 615)
        state.doubt(DriverProblem.SILENT, "no answer", lasting_seconds=10.0)
        clock.now += 5
        state.doubt(DriverProblem.SILENT, "no answer", lasting_seconds=15.0)

        assert (615, "NVML does not answer, 15 s") == (state.current(), state.complaint())

    def test_slow_start(self, state: DriverState, clock: Clock) -> None:
        """
        A slow start is counted from the first question.
        """
        clock.now += 150
        state.doubt(DriverProblem.STARTING, "no answer", lasting_seconds=20.0)

        assert "driver starting, 150 s" == state.complaint()

    @pytest.mark.parametrize("problem", [DriverProblem.LIBRARY_MISSING, DriverProblem.FAILED, DriverProblem.MALFORMED])
    def test_failure(self, state: DriverState, problem: DriverProblem) -> None:
        """
        A failure is told in its own words.
        """
        state.doubt(problem, "NVML Init: UNKNOWN (999)")

        assert "NVML Init: UNKNOWN (999)" == state.complaint()

    def test_half_upgraded(self, state: DriverState) -> None:
        """
        Only a mismatch counts as half an upgrade; a problem that follows is part of it, and only an answer ends it.
        """
        seen = []
        for problem in DriverProblem:
            state.doubt(problem, "r")
            before = state.is_half_upgraded
            state.doubt(DriverProblem.MISMATCH, "r")
            state.doubt(problem, "r")
            during = state.is_half_upgraded
            state.learn("620.10.01", 620)
            seen.append((problem, before, during, state.is_half_upgraded))

        assert [(problem, problem is DriverProblem.MISMATCH, True, False) for problem in DriverProblem] == seen

    def test_long_reason(self, state: DriverState) -> None:
        """
        A reason is cut to what fits a probe's answer.
        """
        state.doubt(DriverProblem.FAILED, "x" * 10_000)

        assert "x" * REASON_LIMIT == state.complaint()


class TestAnnouncement:
    """
    What the cluster is to know of the driver.
    """

    @pytest.mark.parametrize(
        ("problem", "reason", "expected"),
        [
            pytest.param(DriverProblem.STARTING, "no answer for 10 s", "NVML has not answered yet", id="slow start"),
            pytest.param(DriverProblem.SILENT, "no answer for 10 s", "NVML does not answer any more", id="silence"),
            pytest.param(DriverProblem.LIBRARY_MISSING, "no library", "no library", id="no library"),
            pytest.param(DriverProblem.MISMATCH, "both versions", "both versions", id="half an upgrade"),
            pytest.param(DriverProblem.FAILED, "an error", "an error", id="an error"),
            pytest.param(DriverProblem.MALFORMED, "a text", "a text", id="no version"),
        ],
    )
    def test_problem(self, state: DriverState, problem: DriverProblem, reason: str, expected: str) -> None:
        """
        A problem is told in words that do not change while it lasts.
        """
        state.doubt(problem, reason)

        assert expected == state.announcement()

    def test_not_asked(self, state: DriverState) -> None:
        """
        Nothing is told, not even that all is well, before NVML was asked.
        """
        assert state.announcement() is None

    def test_well(self, state: DriverState) -> None:
        """
        That nothing is wrong is told by an empty text.
        """
        state.doubt(DriverProblem.MISMATCH, "both versions")
        state.learn("620.10.01", 620)

        assert "" == state.announcement()

    def test_announced(self, state: DriverState) -> None:
        """
        An announcement that was written ends what was wrong with writing, and is no label.
        """
        state.not_labelled(LabelProblem.FORBIDDEN, "no right")
        state.announced()

        assert (None, None, "") == (state.label.problem, state.label.value, state.label_reason())


class TestLabel:
    """
    What became of the label.
    """

    def test_written(self, state: DriverState, clock: Clock) -> None:
        """
        A written label has an age.
        """
        state.labelled("615", "615.43.02")
        clock.now += 7

        assert (7.0, LabelFacts(value="615", version="615.43.02", written_at=100.0)) == (
            state.label_age_seconds(),
            state.label,
        )

    def test_never_written(self, state: DriverState) -> None:
        """
        A label that was never written has none.
        """
        assert state.label_age_seconds() is None

    def test_failure(self, state: DriverState, clock: Clock) -> None:
        """
        A failure keeps what was written, and the time since which writing fails.
        """
        state.labelled("615", "615.43.02")
        clock.now += 5
        state.not_labelled(LabelProblem.UNREACHABLE, "nobody there")
        clock.now += 5
        state.not_labelled(LabelProblem.FORBIDDEN, "no right")

        assert (
            LabelFacts(
                value="615",
                version="615.43.02",
                written_at=100.0,
                problem=LabelProblem.FORBIDDEN,
                reason="no right",
                since=105.0,
            )
            == state.label
        )

    @pytest.mark.parametrize(
        ("problem", "seconds", "complaint"),
        [
            pytest.param(LabelProblem.UNAUTHORIZED, REFUSAL_SECONDS, "node not labelled: r", id="401 that stays"),
            pytest.param(LabelProblem.UNAUTHORIZED, REFUSAL_SECONDS - 1, "", id="401 for a moment"),
            pytest.param(LabelProblem.FORBIDDEN, REFUSAL_SECONDS, "node not labelled: r", id="no right"),
            pytest.param(LabelProblem.BAD_NODE_NAME, REFUSAL_SECONDS, "node not labelled: r", id="bad node name"),
            pytest.param(LabelProblem.NOT_CONFIGURED, REFUSAL_SECONDS, "node not labelled: r", id="bad environment"),
            pytest.param(LabelProblem.UNREACHABLE, 3600.0, "", id="API server gone for an hour"),
        ],
    )
    def test_complaint(
        self, state: DriverState, clock: Clock, problem: LabelProblem, seconds: float, complaint: str
    ) -> None:
        """
        What a person must mend counts against readiness once it stays; an API server out of reach never does.
        """
        state.learn("615.43.02", 615)
        state.not_labelled(problem, "r")
        clock.now += seconds

        assert (complaint, "r") == (state.complaint(), state.label_reason())

    def test_nothing_to_label(self, state: DriverState, clock: Clock) -> None:
        """
        Where there is no node to label, that is told and never counts against readiness.
        """
        state.learn("615.43.02", 615)
        state.nothing_to_label("no cluster")
        clock.now += 3600

        assert ("", "no cluster", None) == (state.complaint(), state.label_reason(), state.label_age_seconds())


class TestChanged:
    """
    Waking those who wait.
    """

    async def test_change(self, state: DriverState) -> None:
        """
        A change wakes everybody who waits for one.
        """
        async with asyncio.timeout(1), asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(state.changed())
            await asyncio.sleep(0)
            state.learn("615.43.02", 615)

        assert DriverFacts(version="615.43.02", major=615) == state.driver

    @pytest.mark.looptime
    async def test_no_change(self, state: DriverState) -> None:
        """
        The same facts once more wake nobody.
        """
        state.learn("615.43.02", 615)
        waiting = asyncio.create_task(state.changed())
        await asyncio.sleep(1)
        state.learn("615.43.02", 615)
        await asyncio.sleep(1)

        assert not waiting.done()
        waiting.cancel()
