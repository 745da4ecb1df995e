"""The one list of families."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from metricsd import families
from metricsd.families import PodNames
from metricsd.family import NAME, Family

ALL = families.all_families(PodNames())


class TestList:
    def test_per_pod_families(self) -> None:
        """Dashboards find the per-pod families under the names and labels they know."""
        assert [
            ("gpu_fractioning_gpu_memory_used_bytes", ("namespace", "pod", "pod_uuid", "gpu_uuid", "gpu")),
            ("gpu_fractioning_gpu_sm_utilization_percent", ("namespace", "pod", "pod_uuid", "gpu_uuid", "gpu")),
            (
                "gpu_fractioning_gpu_sm_utilization_percent_normalized",
                ("namespace", "pod", "pod_uuid", "gpu_uuid", "gpu"),
            ),
        ] == [(family.name, family.labels) for family in ALL[:3]]

    def test_every_sample_has_one_family(self) -> None:
        """No name of a sample belongs to two families."""
        counts = Counter(name for family in ALL for name in family.sample_names)

        assert [] == [name for name, count in counts.items() if count > 1]

    @pytest.mark.parametrize("family", ALL, ids=lambda family: family.name)
    def test_form(self, family: Family) -> None:
        """A family has a name of ours, a unit that its name ends with, and a sentence."""
        name = re.fullmatch(NAME, family.name)
        counted = family.name.removesuffix("_total").removesuffix("_normalized")

        assert name is not None
        assert family.name.startswith("gpu_fractioning_")
        assert family.name.endswith("_total") == (family.type == "counter")
        assert counted.endswith(f"_{family.unit}" if family.unit else "")
        assert family.help.endswith(".")


class TestTakenBy:
    @pytest.mark.parametrize(
        ("name", "family"),
        [
            pytest.param("gpu_fractioning_nvml_up", families.NVML_UP, id="gauge"),
            pytest.param("gpu_fractioning_metricsd_cycles", families.CYCLES, id="counter without its suffix"),
            pytest.param("gpu_fractioning_metricsd_cycle_seconds_bucket", families.CYCLE_SECONDS, id="buckets"),
            pytest.param("gpu_fractioning_gpu_memory_used_bytes", None, id="a name that is a setting"),
            pytest.param("x", None, id="free"),
        ],
    )
    def test_name(self, name: str, family: Family | None) -> None:
        """A name is taken when a sample of a fixed family has it."""
        assert family == families.taken_by(name)
