from __future__ import annotations

import pytest
import systempods


class TestParse:
    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            pytest.param("2026-11-29T10:00:00.250000000Z stdout F 1024\n", (1795946400.25, "1024"), id="UTC"),
            pytest.param("2026-11-29T11:00:00.25+01:00 stdout F 1024", (1795946400.25, "1024"), id="offset"),
            pytest.param("2026-11-29T10:00:00.25Z stdout F a b\nmore", (1795946400.25, "a b"), id="first line alone"),
            pytest.param("2026-11-29T10:00:00.25Z stdout F ", (1795946400.25, ""), id="nothing printed"),
        ],
    )
    def test_first_line(self, line: str, expected: tuple[float, str]) -> None:
        """
        The first line of a container's log says when it was written, and what.
        """
        assert expected == systempods.parse(line)
