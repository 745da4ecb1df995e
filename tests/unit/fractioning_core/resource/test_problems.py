from __future__ import annotations

import pytest
from fractioning_core.resource import Problem


class TestProblem:
    @pytest.mark.parametrize(
        ("problem", "expected"),
        [
            pytest.param(
                Problem("spec.a", "5", "is odd", "an even one"), 'spec.a: "5" is odd; accepted: an even one', id="text"
            ),
            pytest.param(Problem("spec.a", 5, "is odd", "x"), "spec.a: 5 is odd; accepted: x", id="number"),
            pytest.param(Problem("spec.a", True, "is odd", "x"), "spec.a: true is odd; accepted: x", id="boolean"),
            pytest.param(Problem("spec.a", None, "is missing", "x"), "spec.a: is missing; accepted: x", id="nothing"),
            pytest.param(Problem("spec.a", ["b\n"], "is odd", "x"), 'spec.a: ["b\\n"] is odd; accepted: x', id="list"),
            pytest.param(
                Problem("spec.a", ["b" * 100], "is odd", "x"),
                f'spec.a: ["{"b" * 78}... is odd; accepted: x',
                id="long list",
            ),
            pytest.param(
                Problem("spec.a\nb", "c\nd", "is odd", "x"), 'spec.a\\nb: "c\\nd" is odd; accepted: x', id="line breaks"
            ),
        ],
    )
    def test_text(self, problem: Problem, expected: str) -> None:
        """A problem is one line with path, value, reason and the accepted form."""
        assert expected == str(problem)
