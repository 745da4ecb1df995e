"""Snapshots to samples."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from metricsd import collectors, families
from metricsd.exposition import Key, Series
from metricsd.families import PodFamilies, PodNames
from metricsd.family import Family
from metricsd.snapshot import ContainerUse, Enforcement, SilentGpu, Snapshot


def samples(found: list[Series], family: Family) -> list[tuple[Key, float]]:
    (series,) = [series for series in found if series.family == family]
    return list(series.samples)


class TestParts:
    @pytest.mark.parametrize("with_containers", [True, False])
    def test_every_family_once(self, snapshot: Snapshot, with_containers: bool) -> None:  # noqa: FBT001 - the case
        """Together they give every family that is made of a snapshot, in the order of the list."""
        names = PodNames(sm="renamed")
        parts = collectors.collectors(names, with_containers=with_containers)

        found = [series.family for part in parts.values() for series in part(snapshot)]

        left_out = (*families.OWN_FAMILIES, *(() if with_containers else families.CONTAINER_FAMILIES))
        assert [family for family in families.all_families(names) if family not in left_out] == found

    def test_labels_fit(self, snapshot: Snapshot) -> None:
        """Every sample has a value for each label of its family."""
        parts = collectors.collectors(PodNames(), with_containers=True)
        found = [series for part in parts.values() for series in part(snapshot)]

        assert [] == [
            (series.family.name, key)
            for series in found
            for key, _ in series.samples
            if len(key) != len(series.family.labels)
        ]


class TestPods:
    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            pytest.param({"memory_bytes": None}, [0, 1, 1], id="memory"),
            pytest.param({"sm_percent": None, "sm_normalized_percent": None}, [1, 0, 0], id="SM use"),
        ],
    )
    def test_what_is_not_known_is_not_there(
        self, snapshot: Snapshot, changes: dict[str, Any], expected: list[int]
    ) -> None:
        """A pod whose memory or SM use is not known has no sample of it, and keeps the others."""
        pod = snapshot.pods[0]._replace(**changes)
        found = collectors.pods(PodFamilies.named(PodNames()), attrs.evolve(snapshot, pods=(pod,)))

        assert expected == [len(list(series.samples)) for series in found]


class TestContainers:
    def test_what_is_not_known_is_not_there(self, snapshot: Snapshot) -> None:
        """A container has samples of what its record and the driver tell, and no zeros for the rest."""
        first, second = [one.key for one in snapshot.containers]
        unknown = snapshot.containers[0]._replace(memory_bytes=None)
        found = list(collectors.containers(attrs.evolve(snapshot, containers=(unknown, snapshot.containers[1]))))

        assert [(second, 0)] == samples(found, families.CONTAINER_USED)
        assert [(first, 4 * 2**30)] == samples(found, families.CONTAINER_REQUEST)
        assert [(first, 4 * 2**30), (second, 0)] == samples(found, families.CONTAINER_SOFT_LIMIT)
        assert [(first, 8 * 2**30)] == samples(found, families.CONTAINER_HARD_LIMIT)
        assert [(first, 0.25)] == samples(found, families.CONTAINER_PRESSURE)

    @pytest.mark.parametrize("verdict", Enforcement)
    def test_verdict(self, snapshot: Snapshot, verdict: Enforcement) -> None:
        """A limit counts as enforced by one verdict alone, and as neither after the end; the other family names all."""
        one = snapshot.containers[0]._replace(enforcement=verdict)
        found = list(collectors.containers(attrs.evolve(snapshot, containers=(one,))))

        value = int(verdict is Enforcement.ENFORCED)
        expected = [] if verdict is Enforcement.ENDED else [(one.key, value)]
        assert expected == samples(found, families.CONTAINER_ENFORCED)
        assert [((*one.key, verdict.value), 1)] == samples(found, families.CONTAINER_ENFORCEMENT)


class TestPressure:
    @pytest.mark.parametrize(
        ("accounted", "hard", "expected"),
        [
            pytest.param(0, 100, 0.0, id="nothing used"),
            pytest.param(95, 100, 0.95, id="nearly full"),
            pytest.param(120, 100, 1.2, id="above the limit"),
            pytest.param(None, 100, None, id="use not known"),
            pytest.param(95, None, None, id="no limit"),
            pytest.param(95, 0, None, id="limit of nothing"),
        ],
    )
    def test_ratio(self, snapshot: Snapshot, accounted: int | None, hard: int | None, expected: float | None) -> None:
        """Pressure is what is accounted for as a part of the hard limit in force."""
        one: ContainerUse = snapshot.containers[0]._replace(accounted_bytes=accounted, hard_limit_bytes=hard)

        assert expected == collectors.pressure(one)


class TestGpus:
    def test_up(self, snapshot: Snapshot) -> None:
        """Every GPU is told of once; one that answers, and does not tell who uses it, is not up."""
        silent = (SilentGpu(1, "GPU-2", "no list"), SilentGpu(2, "GPU-3", "gone"))

        found = list(collectors.gpus(attrs.evolve(snapshot, silent=silent)))

        assert [(("GPU-1", 0), 1), (("GPU-2", 1), 0), (("GPU-3", 2), 0)] == samples(found, families.GPU_UP)

    def test_size_not_known(self, snapshot: Snapshot) -> None:
        """A GPU that does not tell its size has no size, and a sample that says so."""
        found = list(collectors.gpus(snapshot))

        assert [(("GPU-1", 0), 16 * 2**30)] == samples(found, families.GPU_TOTAL)
        assert [(("GPU-1", 0), 1), (("GPU-2", 1), 0)] == samples(found, families.GPU_SIZE_KNOWN)
