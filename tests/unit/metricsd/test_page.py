"""What a scrape gets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import Any

import attrs
import pytest
from fractioning_core.nvml.samples import CallTime
from metricsd import families
from metricsd.collectors import Collector, collectors
from metricsd.exposition import Series
from metricsd.families import PodNames
from metricsd.family import Family
from metricsd.health import Outcome
from metricsd.metrics import Metrics
from metricsd.page import Page, Renderer
from metricsd.snapshot import Snapshot
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

CALLS = (
    CallTime("DeviceGetCount", 0.0005),
    CallTime("DeviceGetMemoryLimits", 0.02),
    CallTime("DeviceGetMemoryLimits", 0.003, "NOT_FOUND"),
)
# The library writes the time of day there.
WHEN_CREATED = re.compile(r"(?m)^(\S+_created\S*) \S+$")


@attrs.frozen
class Well:
    """A health without a complaint."""

    is_nvml_up: bool = True

    def snapshot_age_seconds(self) -> float | None:
        """Say how old the figures are."""
        return 0.5

    def is_stale(self) -> bool | None:
        """Say that they are not too old."""
        return False


@attrs.define
class Scene:
    """A page of some collectors."""

    collectors: dict[str, Collector]
    registry: CollectorRegistry = attrs.field(factory=CollectorRegistry)
    metrics: Metrics = attrs.field(init=False)
    renderer: Renderer = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.metrics = Metrics(self.registry, vitals=Well(), collectors=self.collectors)
        ticks = iter(range(1000))
        self.renderer = Renderer(self.collectors, metrics=self.metrics, clock=lambda: next(ticks) / 4)

    def page(self, snapshot: Snapshot) -> Page:
        """Give the page after a cycle."""
        page = Page(self.registry, has_figures=lambda: True)
        page.show(self.renderer.render(snapshot))
        self.metrics.found(snapshot)
        self.metrics.called(CALLS)
        self.metrics.cycle_seconds.observe(0.03)
        self.metrics.cycles[Outcome.COMPLETE].inc()
        return page

    def value(self, family: Family, collector: str) -> float | None:
        """Read a sample of a collector."""
        return self.registry.get_sample_value(family.name, {"collector": collector})


@pytest.fixture
def scene() -> Scene:
    return Scene(dict(collectors(PodNames(), with_containers=True)))


class TestFigures:
    def test_golden(self, scene: Scene, snapshot: Snapshot, golden: Callable[[str, str], str]) -> None:
        """The whole page after a cycle, as it was last looked at."""
        text = WHEN_CREATED.sub(r"\1 0", scene.page(snapshot).text().decode())

        assert golden("page.txt", text) == text

    def test_it_is_read_as_it_was_meant(self, scene: Scene, snapshot: Snapshot) -> None:
        """A reader of the format finds every family, with its help, once."""
        text = scene.renderer.render(snapshot).decode()

        found = [(family.name, family.documentation) for family in text_string_to_metric_families(text)]
        made = [family for family in families.all_families(PodNames()) if family not in families.OWN_FAMILIES]
        assert [(family.name, family.help) for family in made] == found

    def test_half_a_character(self, scene: Scene, snapshot: Snapshot) -> None:
        """A name that is no text costs its own letter only."""
        pod = snapshot.pods[0]._replace(key=snapshot.pods[0].key._replace(pod="a\ud800b"))
        text = scene.renderer.render(attrs.evolve(snapshot, pods=(pod,))).decode()

        assert 3 == text.count('pod="a?b"')

    def test_no_pods(self, scene: Scene, snapshot: Snapshot) -> None:
        """A node without fractional pods has the families all the same, without samples."""
        text = scene.renderer.render(attrs.evolve(snapshot, pods=(), containers=())).decode()

        found = {family.name: len(family.samples) for family in text_string_to_metric_families(text)}
        assert (0, 0) == (found[PodNames().memory_used], found[families.CONTAINER_USED.name])


class TestFaults:
    def test_a_part_that_fails(self, snapshot: Snapshot, log: list[MutableMapping[str, Any]]) -> None:
        """It costs the page its own families, is counted each time and logged once."""

        def broken(_: Snapshot) -> Iterator[Series]:
            yield Series(families.GPUS_LOST, [((), 1)])
            raise LookupError("a bug")

        def sound(_: Snapshot) -> Iterable[Series]:
            return [Series(families.RECORDS, [((), 2)])]

        scene = Scene({"broken": broken, "sound": sound})
        texts = [scene.renderer.render(snapshot).decode() for _ in range(2)]

        assert [f"{families.RECORDS.name} 2"] * 2 == [text.splitlines()[-1] for text in texts]
        assert [False] * 2 == [families.GPUS_LOST.name in text for text in texts]
        assert (2.0, 0.0) == tuple(scene.value(families.COLLECTOR_FAILURES, name) for name in ("broken", "sound"))
        assert ["broken"] == [line["collector"] for line in log if line["event"] == "collector_failed"]

    def test_a_part_that_fails_again(self, snapshot: Snapshot, log: list[MutableMapping[str, Any]]) -> None:
        """A fault that comes back after a good page is logged anew."""
        faults = iter((True, False, True))

        def moody(_: Snapshot) -> Iterable[Series]:
            if next(faults):
                raise LookupError("a bug")
            return []

        scene = Scene({"moody": moody})
        for _ in range(3):
            scene.renderer.render(snapshot)

        assert 2 == len(log)

    def test_durations(self, scene: Scene, snapshot: Snapshot) -> None:
        """Each part's duration is known, and that of the parts before is not in it."""
        scene.renderer.render(snapshot)

        assert [0.25] * 4 == [scene.value(families.COLLECTOR_SECONDS, name) for name in scene.collectors]


class TestPage:
    def test_both_parts(self, scene: Scene, snapshot: Snapshot) -> None:
        """The figures come first and metricsd's own families after them; it is one text of the format."""
        page = scene.page(snapshot)

        found = [family.name for family in text_string_to_metric_families(page.text().decode())]
        assert len(set(found)) == len(found)
        assert {PodNames().memory_used, families.NVML_UP.name} <= set(found)

    def test_figures_withdrawn(self, scene: Scene, snapshot: Snapshot) -> None:
        """Figures that may not be shown leave no trace, and metricsd's own families stay."""
        shown = True
        page = Page(scene.registry, has_figures=lambda: shown)
        page.show(scene.renderer.render(snapshot))
        shown = False

        text = page.text().decode()
        assert (False, True) == (PodNames().memory_used in text, families.NVML_UP.name in text)

    def test_before_the_first_cycle(self, scene: Scene) -> None:
        """There is a page from the start."""
        text = Page(scene.registry, has_figures=lambda: False).text().decode()

        assert f"{families.NVML_UP.name} 1.0" in text
