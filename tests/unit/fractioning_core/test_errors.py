from __future__ import annotations

import pytest
from fractioning_core.errors import (
    FileUnavailable,
    FractioningError,
    InvalidAnnotation,
    InvalidAnnotations,
    InvalidInput,
    InvalidQuantity,
    Misuse,
    ProtocolViolation,
    Unavailable,
    escaped,
    shown,
)
from hypothesis import given
from hypothesis import strategies as st


class TestTree:
    """What a caller can catch."""

    @pytest.mark.parametrize("branch", [InvalidInput, Unavailable, ProtocolViolation, Misuse])
    def test_branch_has_the_root(self, branch: type[Exception]) -> None:
        """Every branch is a FractioningError and takes plain text."""
        error = branch("text")

        assert (True, "text") == (isinstance(error, FractioningError), str(error))

    def test_leaves_compare_by_value(self) -> None:
        """Two errors of the same facts are equal, so that results that carry them are."""
        assert InvalidQuantity("x", "is odd", "y") == InvalidQuantity("x", "is odd", "y")

    def test_leaf_can_be_raised_with_a_cause(self) -> None:
        """A frozen leaf still takes the traceback and cause that raising sets."""
        with pytest.raises(FileUnavailable) as caught:
            raise FileUnavailable("write", "/m/a", "No space left on device") from OSError()

        assert ("cannot write /m/a: No space left on device", OSError) == (
            str(caught.value),
            type(caught.value.__cause__),
        )


class TestShown:
    """Foreign text in a message."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            pytest.param("4Gi", '"4Gi"', id="plain"),
            pytest.param("", '""', id="empty"),
            pytest.param('a"b', '"a\\"b"', id="quote"),
            pytest.param("a\\b", '"a\\\\b"', id="backslash"),
            pytest.param("a\nb\x00", '"a\\nb\\x00"', id="line break and NUL"),
            pytest.param("\uff14Gi", '"\\uff14Gi"', id="full-width digit"),
            pytest.param("\ud800", '"\\ud800"', id="half a surrogate pair"),
            pytest.param("x" * 81, f'"{"x" * 80}"... (81 characters)', id="too long"),
        ],
    )
    def test_text(self, text: str, expected: str) -> None:
        """Text is quoted, cut and escaped."""
        assert expected == shown(text)

    @given(st.text())
    def test_always_one_short_line(self, text: str) -> None:
        """Whatever the text, what is shown is one printable ASCII line of bounded length."""
        line = shown(text)

        assert (True, True, True) == (line.isascii(), line.isprintable(), len(line) < 850)

    def test_escaped_tells_that_it_was_cut(self) -> None:
        """Text without quotes ends in dots where it was cut."""
        assert "abc..." == escaped("abcd", 3)


class TestAnnotations:
    """Problems with annotations."""

    def test_one_problem(self) -> None:
        """A problem names key, value, reason and accepted form in one line."""
        problem = InvalidAnnotation("example.com/main.mode", "fast\n", "is not a mode", "slow")

        assert 'example.com/main.mode: "fast\\n" is not a mode; accepted: slow' == str(problem)

    def test_several_are_one_line(self) -> None:
        """Several problems are told one after another."""
        problems = InvalidAnnotations(
            (InvalidAnnotation("a", "1", "is odd", "even"), InvalidAnnotation("b", "3", "is odd", "even"))
        )

        assert 'a: "1" is odd; accepted: even; b: "3" is odd; accepted: even' == str(problems)

    def test_very_many_are_cut(self) -> None:
        """Past eight problems the rest is a number."""
        text = str(InvalidAnnotations((InvalidAnnotation("a", "1", "is odd", "even"),) * 1000))

        assert (8, "; and 992 more") == (text.count("is odd"), text[-14:])
