"""Which drivers let the control daemon start."""

from __future__ import annotations

import asyncio

import pytest
from mpsd import gate
from mpsd.driverstate import DriverProblem, DriverState
from mpsd.gate import OPEN


@pytest.fixture
def state() -> DriverState:
    return DriverState(lambda: 0.0)


class TestJudge:
    def test_an_unknown_driver_holds_nothing_back(self, state: DriverState) -> None:
        """Enforcement does not depend on NVML."""
        state.doubt(DriverProblem.LIBRARY_MISSING, "no library")

        assert OPEN == gate.judge(state)

    @pytest.mark.parametrize("version", ["615.43.02", "620.10.01"])
    def test_new_enough(self, state: DriverState, version: str) -> None:
        """From r615 on it may start."""
        state.learn(version, int(version[:3]))

        assert OPEN == gate.judge(state)

    def test_too_old(self, state: DriverState) -> None:
        """Below r615 it may not, and one that runs is of no use."""
        state.learn("614.99", 614)
        verdict = gate.judge(state)

        assert verdict.is_final
        assert "driver r614" in verdict.reason
        assert "r615" in verdict.reason

    def test_half_upgraded(self, state: DriverState) -> None:
        """A mismatch holds back a start, but ends nothing that runs, whatever was known before."""
        state.learn("615.43.02", 615)
        state.doubt(DriverProblem.MISMATCH, "615.43.02 and 620.10.01: mismatch")

        assert gate.Verdict("615.43.02 and 620.10.01: mismatch") == gate.judge(state)

    def test_half_upgraded_until_a_version_is_told(self, state: DriverState) -> None:
        """Whoever reloads the module unloads it first, and that is no leave to start in between."""
        state.learn("615.43.02", 615)
        state.doubt(DriverProblem.MISMATCH, "615.43.02 and 620.10.01: mismatch")
        state.doubt(DriverProblem.FAILED, "NVML Init: DRIVER_NOT_LOADED (9)")
        during = gate.judge(state)
        state.learn("620.10.01", 620)

        assert gate.Verdict(f"{gate.HALF_UPGRADED}: NVML Init: DRIVER_NOT_LOADED (9)") == during
        assert OPEN == gate.judge(state)

    def test_a_known_driver_stays_known(self, state: DriverState) -> None:
        """NVML that fails later takes nothing back."""
        state.learn("615.43.02", 615)
        state.doubt(DriverProblem.SILENT, "no answer")

        assert OPEN == gate.judge(state)


class TestRefusal:
    def test_only_one_that_is_too_old(self, state: DriverState) -> None:
        """A daemon that runs is of use under any driver but an old one."""
        state.doubt(DriverProblem.MISMATCH, "mismatch")
        half = gate.refusal(state)
        state.learn("580.95.05", 580)

        assert ("", True) == (half, gate.refusal(state).startswith("driver r580 cannot account for memory"))


class TestIsUnknownYet:
    def test_until_the_first_word(self, state: DriverState) -> None:
        """Any answer or reason ends the wait."""
        before = gate.is_unknown_yet(state)
        state.doubt(DriverProblem.FAILED, "error 999")

        assert (True, False) == (before, gate.is_unknown_yet(state))


async def test_a_change_wakes() -> None:
    """Whoever waits for another driver is woken by it."""
    state = DriverState(lambda: 0.0)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        waiting = group.create_task(state.changed())
        await asyncio.sleep(0)
        state.learn("615.43.02", 615)

    assert waiting.done()
