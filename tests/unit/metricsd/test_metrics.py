"""metricsd's own families."""

from __future__ import annotations

import attrs
import pytest
from fractioning_core.nvml.samples import CallTime
from metricsd import families
from metricsd.family import Family
from metricsd.health import Outcome
from metricsd.metrics import Metrics
from metricsd.snapshot import Snapshot
from prometheus_client import CollectorRegistry

PARTS = ("pods", "gpus")


@attrs.define
class Vitals:
    """A health that says what the test wants."""

    is_nvml_up: bool = False
    age: float | None = None
    stale: bool | None = None

    def snapshot_age_seconds(self) -> float | None:
        """Say it."""
        return self.age

    def is_stale(self) -> bool | None:
        """Say it."""
        return self.stale


@attrs.define
class Scene:
    """Metrics, and the registry to look into."""

    vitals: Vitals = attrs.field(factory=Vitals)
    registry: CollectorRegistry = attrs.field(factory=CollectorRegistry)
    metrics: Metrics = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.metrics = Metrics(self.registry, vitals=self.vitals, collectors=PARTS)

    def value(self, family: Family, suffix: str = "", **labels: str) -> float | None:
        """Read one sample."""
        return self.registry.get_sample_value(family.name + suffix, labels)


@pytest.fixture
def scene() -> Scene:
    return Scene()


class TestFamilies:
    def test_those_of_the_list(self, scene: Scene) -> None:
        """The registry has the list's own families with their types and help, and no other."""
        scene.vitals.age, scene.vitals.stale = 1.0, False

        found = {(family.name, family.type, family.documentation) for family in scene.registry.collect()}
        expected = {(family.name.removesuffix("_total"), family.type, family.help) for family in families.OWN_FAMILIES}
        assert expected == found

    def test_labels_are_there_at_zero(self, scene: Scene) -> None:
        """What has not happened yet is a zero."""
        assert dict.fromkeys(Outcome, 0.0) == {
            outcome: scene.value(families.CYCLES, outcome=outcome.value) for outcome in Outcome
        }
        assert [0.0, 0.0] == [scene.value(families.COLLECTOR_FAILURES, collector=name) for name in PARTS]
        assert [0.0, 0.0] == [
            scene.value(families.ATTRIBUTION_FAILURES, reason=reason) for reason in ("no_record", "vanished")
        ]


class TestVitals:
    def test_what_is_not_known_is_not_there(self, scene: Scene) -> None:
        """Without figures on the page they have no age."""
        assert (0.0, None, None) == self.read(scene)

    def test_what_is_known(self, scene: Scene) -> None:
        """They are read when the page is."""
        scene.vitals.is_nvml_up, scene.vitals.age, scene.vitals.stale = True, 2.5, False

        assert (1.0, 2.5, 0.0) == self.read(scene)

    def read(self, scene: Scene) -> tuple[float | None, ...]:
        """Read all three."""
        return tuple(
            scene.value(family) for family in (families.NVML_UP, families.SNAPSHOT_AGE, families.SNAPSHOT_STALE)
        )


class TestCounting:
    def test_attribution_failures(self, scene: Scene, snapshot: Snapshot) -> None:
        """What could not be attributed is added up over the cycles, for the reasons that are faults."""
        scene.metrics.found(snapshot)
        scene.metrics.found(snapshot)

        assert 4.0 == scene.value(families.ATTRIBUTION_FAILURES, reason="no_record")
        assert 2.0 == scene.value(families.ATTRIBUTION_FAILURES, reason="vanished")
        assert scene.value(families.ATTRIBUTION_FAILURES, reason="host") is None

    def test_calls(self, scene: Scene) -> None:
        """Calls are timed by function, and failures counted by error as well."""
        scene.metrics.called(
            [CallTime("Init", 0.5), CallTime("Init", 20.0, "UNKNOWN"), CallTime("DeviceGetCount", 0.00005)]
        )

        assert 2.0 == scene.value(families.NVML_CALL_SECONDS, "_count", function="Init")
        assert 1.0 == scene.value(families.NVML_CALL_SECONDS, "_bucket", function="Init", le="10.0")
        assert 1.0 == scene.value(families.NVML_CALL_SECONDS, "_bucket", function="DeviceGetCount", le="0.0001")
        assert 1.0 == scene.value(families.NVML_CALL_FAILURES, function="Init", error="UNKNOWN")
        assert scene.value(families.NVML_CALL_FAILURES, function="DeviceGetCount", error="") is None
