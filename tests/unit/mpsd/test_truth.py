"""What mpsd says of itself."""

from __future__ import annotations

import attrs
import pytest
from fractioning_core.service.http import Readiness
from mpsd.lifecycle import State
from mpsd.truth import Probe, Problem, Truth


@attrs.define
class World:
    """A supervisor, a driver and a clock."""

    state: State = State.RUNNING
    reason: str = ""
    complaint: str = ""
    now: float = 100.0


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def truth(world: World) -> Truth:
    return Truth(world, complaint=lambda: world.complaint, max_age_seconds=10.0, clock=lambda: world.now)


def good(at: float) -> Probe:
    return Probe(at, latency_seconds=0.01, clients=())


def bad(at: float) -> Probe:
    return Probe(at, Problem.NO_ANSWER, "the control daemon did not answer")


def reason(truth: Truth) -> str:
    answer = truth.readiness()
    assert answer.ready is not bool(answer.reason)
    return answer.reason


class TestReadiness:
    def test_after_a_good_check(self, truth: Truth) -> None:
        """An answer in time is what ready means."""
        truth.note(good(100))

        assert (Readiness(ready=True), True) == (truth.readiness(), truth.is_up)

    def test_before_the_first_check(self, truth: Truth) -> None:
        """A process alone is not ready."""
        assert "control daemon starting: it has not answered yet" == reason(truth)

    def test_after_a_bad_check(self, truth: Truth, world: World) -> None:
        """The check's own words are the reason, with its age."""
        truth.note(bad(100))
        world.now = 104.0

        assert "the control daemon did not answer (seen 4 s ago)" == reason(truth)
        assert not truth.is_up

    @pytest.mark.parametrize("state", [state for state in State if state is not State.RUNNING])
    def test_in_any_other_state(self, truth: Truth, world: World, state: State) -> None:
        """No state but running is ready, and each has words even without a reason."""
        truth.note(good(100))
        world.state = state

        assert reason(truth).startswith(f"control daemon {state.value}: ")
        assert not truth.is_up

    def test_a_state_with_a_reason(self, truth: Truth, world: World) -> None:
        """The supervisor's reason is passed on."""
        world.state, world.reason = State.PARKED, "/x is not there"

        assert "control daemon parked: /x is not there" == reason(truth)

    def test_a_complaint_of_the_driver(self, truth: Truth, world: World) -> None:
        """A driver or label that is complained of makes not ready what else would be."""
        truth.note(good(100))
        world.complaint = "driver starting, 3 s"

        assert ("driver starting, 3 s", True) == (reason(truth), truth.is_up)

    @pytest.mark.parametrize(
        ("age", "ready"), [pytest.param(10.0, True, id="fresh"), pytest.param(10.1, False, id="old")]
    )
    def test_a_good_check_has_an_age(self, truth: Truth, world: World, age: float, ready: bool) -> None:  # noqa: FBT001
        """One that is too old proves nothing, and the reason tells its age."""
        truth.note(good(100))
        world.now += age

        assert ready is truth.readiness().ready
        assert ready or "was last seen well 10 s ago" in reason(truth)

    def test_the_daemon_comes_before_the_driver(self, truth: Truth, world: World) -> None:
        """What is wrong with the daemon itself is told first."""
        truth.note(bad(100))
        world.complaint = "node not labelled"

        assert "did not answer" in reason(truth)


class TestSettling:
    def test_one_good_check_after_a_fault_is_not_enough(self, truth: Truth) -> None:
        """A socket that comes and goes is not ready in between."""
        truth.note(bad(100))
        truth.note(good(100.1))

        assert "ready once it has for 1 s" in reason(truth)
        assert truth.is_settling

    def test_a_second_of_good_checks_is(self, truth: Truth) -> None:
        """Good checks a second apart end the doubt."""
        for probe in (bad(100), good(100.1), good(100.6), good(101.1)):
            truth.note(probe)

        assert Readiness(ready=True) == truth.readiness()

    def test_a_new_fault_starts_the_second_anew(self, truth: Truth) -> None:
        """The second counts from the last fault."""
        for probe in (bad(100), good(100.1), bad(100.6), good(101.2)):
            truth.note(probe)

        assert "ready once" in reason(truth)

    def test_a_restart_in_between_does_not_shorten_it(self, truth: Truth) -> None:
        """A daemon replaced for a fault has to prove itself, too, for a whole second."""
        for probe in (bad(100), good(100.1)):
            truth.note(probe)
        truth.forget()
        truth.note(good(101.2))

        assert "ready once" in reason(truth)

    def test_a_crash_alone_needs_no_proof(self, truth: Truth) -> None:
        """Without a failed check before, the first answer of the next daemon is enough."""
        truth.note(good(100))
        truth.forget()
        truth.note(good(101))

        assert Readiness(ready=True) == truth.readiness()
