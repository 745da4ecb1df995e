"""One family."""

from __future__ import annotations

import pytest
from metricsd.family import Family, Type


class TestSampleNames:
    @pytest.mark.parametrize(
        ("name", "kind", "expected"),
        [
            pytest.param("x_bytes", "gauge", {"x_bytes"}, id="gauge"),
            pytest.param("x_total", "counter", {"x", "x_total", "x_created"}, id="counter"),
            pytest.param(
                "x_seconds",
                "histogram",
                {"x_seconds", "x_seconds_bucket", "x_seconds_sum", "x_seconds_count", "x_seconds_created"},
                id="histogram",
            ),
        ],
    )
    def test_names(self, name: str, kind: Type, expected: set[str]) -> None:
        """A family takes the names of its samples, and its own."""
        assert expected == Family(name, "", type=kind).sample_names
