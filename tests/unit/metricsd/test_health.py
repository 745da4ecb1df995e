"""What metricsd says about its own work."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
from fractioning_core.nvml.errors import NvmlSilent, returned
from fractioning_core.service.http import Readiness
from metricsd.health import REASON_LIMIT, Health, Outcome

UNKNOWN = returned(999, name="UNKNOWN", function="Init")


@attrs.define
class Clock:
    """Time, as far as the test turns it."""

    now: float = 1000.0

    def __call__(self) -> float:
        """Read it."""
        return self.now


@attrs.define
class Scene:
    """A health and its clock."""

    clock: Clock = attrs.field(factory=Clock)
    health: Health = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.health = Health(self.clock, interval_seconds=5.0)


@pytest.fixture
def scene() -> Scene:
    return Scene()


class TestStart:
    def test_nothing_asked_yet(self, scene: Scene) -> None:
        """Before NVML has answered, the driver is starting, and the seconds count."""
        scene.clock.now += 7.4

        assert Readiness(ready=False, reason="driver starting, 7 s") == scene.health.readiness()
        assert (False, None, None) == vitals(scene.health)

    def test_an_init_that_hangs(self, scene: Scene) -> None:
        """A start that takes minutes is told with its whole duration, however often it was asked again."""
        for _ in range(30):
            scene.clock.now += 5.0
            scene.health.nvml_failed(NvmlSilent("Init", 5.0))

        assert Readiness(ready=False, reason="driver starting, 150 s") == scene.health.readiness()

    def test_another_call_that_hangs(self, scene: Scene) -> None:
        """A call that hangs after the start is named, though nothing was read yet."""
        scene.clock.now += 70.0
        scene.health.nvml_failed(NvmlSilent("DeviceGetCount", 10.0))
        scene.clock.now += 2.0

        expected = Readiness(ready=False, reason="NVML DeviceGetCount does not answer, 12 s")
        assert expected == scene.health.readiness()

    def test_first_answer(self, scene: Scene) -> None:
        """One cycle that completes makes it ready."""
        scene.health.completed(began=scene.clock.now)

        assert Readiness(ready=True) == scene.health.readiness()
        assert (True, 0.0, False) == vitals(scene.health)


class TestFaults:
    def test_an_error_withdraws_the_figures(self, scene: Scene) -> None:
        """When NVML answers with an error, no figure is shown until a cycle has completed again."""
        scene.health.completed(began=scene.clock.now)
        scene.health.nvml_failed(UNKNOWN)
        during = (scene.health.readiness(), vitals(scene.health))
        scene.health.completed(began=scene.clock.now)

        assert (Readiness(ready=False, reason="NVML Init: UNKNOWN (999)"), (False, None, None)) == during
        assert (True, 0.0, False) == vitals(scene.health)

    def test_silence_after_an_error_brings_nothing_back(self, scene: Scene) -> None:
        """Figures once withdrawn do not come back by a fault of another kind."""
        scene.health.completed(began=scene.clock.now)
        scene.health.nvml_failed(UNKNOWN)
        scene.health.nvml_failed(NvmlSilent("Init", 10.0))

        assert (False, None, None) == vitals(scene.health)

    def test_an_explanation(self, scene: Scene) -> None:
        """What more is known of an error follows it."""
        scene.health.nvml_failed(UNKNOWN, explanation="reboot")

        assert Readiness(ready=False, reason="NVML Init: UNKNOWN (999): reboot") == scene.health.readiness()

    def test_age(self, scene: Scene) -> None:
        """The age of figures counts from the beginning of their cycle."""
        scene.clock.now += 4.0
        scene.health.completed(began=1000.0)

        assert (True, 4.0, False) == vitals(scene.health)

    def test_silence_keeps_the_figures_for_a_minute(self, scene: Scene) -> None:
        """While NVML is silent the last figures stay, marked as stale, and go after a minute."""
        scene.health.completed(began=scene.clock.now)
        found = []
        for age in (9.0, 11.0, 59.0, 61.0):
            scene.clock.now = 1000.0 + age
            scene.health.nvml_failed(NvmlSilent("DeviceGetMemoryInfo", age))
            found.append(vitals(scene.health))

        assert [(False, 9.0, False), (False, 11.0, True), (False, 59.0, True), (False, None, None)] == found

    def test_silence_is_told_with_function_and_duration(self, scene: Scene) -> None:
        """The reason names what does not return and since when."""
        scene.health.completed(began=scene.clock.now)
        scene.clock.now += 12.0
        scene.health.nvml_failed(NvmlSilent("DeviceGetMemoryInfo", 10.0))
        scene.clock.now += 3.0

        expected = Readiness(ready=False, reason="NVML DeviceGetMemoryInfo does not answer, 13 s")
        assert expected == scene.health.readiness()

    def test_records_out_of_reach(self, scene: Scene) -> None:
        """NVML counts as up when only the node's files are not to be had; the figures age."""
        scene.health.completed(began=scene.clock.now)
        scene.clock.now += 11.0
        scene.health.node_unreadable("cannot read /map: Permission denied")

        assert Readiness(ready=False, reason="cannot read /map: Permission denied") == scene.health.readiness()
        assert (True, 11.0, True) == vitals(scene.health)
        assert "" == scene.health.driver_reason()

    def test_a_cycle_that_does_not_end(self, scene: Scene) -> None:
        """Readiness goes when figures are too old, though nobody has told of a fault."""
        scene.health.completed(began=scene.clock.now)
        scene.clock.now += 10.1

        assert (
            Readiness(ready=False, reason="the last figures are older than two intervals") == scene.health.readiness()
        )
        is_nvml_up, age, is_stale = vitals(scene.health)
        assert (True, True) == (is_nvml_up, is_stale)
        assert pytest.approx(10.1) == age

    def test_long_intervals(self) -> None:
        """Figures of a long interval are not withdrawn before the next cycle is due."""
        clock = Clock()
        health = Health(clock, interval_seconds=60.0)
        health.completed(began=clock.now)
        found = []
        for age in (100.0, 170.0, 181.0):
            clock.now = 1000.0 + age
            found.append(vitals(health))

        assert [(True, 100.0, False), (True, 170.0, True), (True, None, None)] == found

    def test_long_reason(self, scene: Scene) -> None:
        """A reason is cut to what fits into a probe's answer."""
        scene.health.node_unreadable("x" * 5000)

        assert REASON_LIMIT == len(scene.health.readiness().reason)


class TestOutcome:
    @pytest.mark.parametrize(
        ("end", "expected"),
        [
            pytest.param(lambda health: health.completed(began=1000.0), Outcome.COMPLETE, id="complete"),
            pytest.param(lambda health: health.nvml_failed(UNKNOWN), Outcome.NVML_ERROR, id="error"),
            pytest.param(lambda health: health.nvml_failed(NvmlSilent("Init", 10)), Outcome.NVML_SILENT, id="silence"),
            pytest.param(lambda health: health.node_unreadable(""), Outcome.NODE_UNREADABLE, id="files"),
        ],
    )
    def test_outcome(self, scene: Scene, end: Callable[[Health], Outcome], expected: Outcome) -> None:
        """Each end of a cycle has its outcome, which is the state from then on."""
        outcome = end(scene.health)

        assert (expected, expected) == (outcome, scene.health.state.outcome)


def vitals(health: Health) -> tuple[bool, float | None, bool | None]:
    return health.is_nvml_up, health.snapshot_age_seconds(), health.is_stale()
