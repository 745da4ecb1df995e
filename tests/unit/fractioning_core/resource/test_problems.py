from __future__ import annotations

import pytest
from fractioning_core.resource import Config, InvalidResource, Problem, Spec


def refusal(*problems: Problem) -> InvalidResource:
    """Refuse a resource of which nothing matters."""
    config = Config("default", "", 0, "", is_deleting=False, finalizers=(), spec=Spec(node_selector={}))
    return InvalidResource(problems, config)


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


class TestInvalidResource:
    def test_text(self) -> None:
        """The error names the object and all problems."""
        error = refusal(Problem("a", 1, "is odd", "2"), Problem("b", 3, "is odd", "4"))

        assert 'GpuFractioningConfig "default": a: 1 is odd; accepted: 2; b: 3 is odd; accepted: 4' == str(error)

    def test_many(self) -> None:
        """More problems than fit a condition are counted."""
        error = refusal(*[Problem(f"a{number}", 1, "is odd", "2") for number in range(10)])

        assert str(error).endswith("a7: 1 is odd; accepted: 2; and 2 more")
