from __future__ import annotations

from typing import Any

import pytest
from fractioning_core.resource import kinds
from fractioning_core.resource.kinds import Kind, Problems
from fractioning_core.resource.problems import Problem
from hypothesis import given
from hypothesis import strategies as st

TEXT = "a text, in quotes if it looks like a number"
BOOLEAN = "true or false, without quotes"
NUMBER = "a whole number from -2147483648 to 2147483647, without quotes"
QUANTITY = "a quantity, such as 1Gi or 500m"


class TestRead:
    @pytest.mark.parametrize(
        ("kind", "value", "expected"),
        [
            pytest.param(kinds.text(), "", "", id="text may be empty"),
            pytest.param(kinds.choice(("", "a")), "", "", id="empty choice"),
            pytest.param(kinds.boolean(), False, False, id="false is a value"),
            pytest.param(kinds.integer(), -(2**31), -(2**31), id="lowest of 32 bits"),
            pytest.param(kinds.integer(bits=64), 2**63 - 1, 2**63 - 1, id="highest of 64 bits"),
            pytest.param(kinds.integer(1, 65535), 65535, 65535, id="upper bound is allowed"),
            pytest.param(kinds.integer(), 5.0, 5, id="whole number with a point"),
            pytest.param(kinds.duration(0), "1m30s", 90.0, id="duration"),
            pytest.param(kinds.quantity(), "1.5Gi", "1.5Gi", id="quantity with a unit"),
            pytest.param(kinds.quantity(), "-1e3", "-1e3", id="quantity with an exponent"),
            pytest.param(kinds.quantity(), 5, 5, id="quantity as a number"),
            pytest.param(kinds.quantity(), 5.0, 5.0, id="quantity is passed on as it is"),
            pytest.param(kinds.mapping(kinds.boolean()), {"a": False, "b": None}, {"a": False}, id="mapping"),
            pytest.param(kinds.listed(kinds.integer()), [0, 1], (0, 1), id="list"),
            pytest.param(kinds.listed(kinds.integer()), [], (), id="empty list"),
        ],
    )
    def test_value(self, kind: Kind[Any], value: object, expected: object) -> None:
        """A value of the kind is read as ours, of its own type."""
        problems: Problems = []
        read = kind.read(value, "here", problems)

        assert (type(expected), expected, []) == (type(read), read, problems)

    @pytest.mark.parametrize(
        ("kind", "value", "reason", "accepted"),
        [
            pytest.param(kinds.text(), 5, "is not a text", TEXT, id="number for a text"),
            pytest.param(kinds.choice(("", "a")), "b", "is none of the choices", '"", a', id="another word"),
            pytest.param(kinds.choice(("", "a")), ["a"], "is none of the choices", '"", a', id="list for a choice"),
            pytest.param(kinds.boolean(), "true", "is not a boolean", BOOLEAN, id="text for a boolean"),
            pytest.param(kinds.boolean(), 1, "is not a boolean", BOOLEAN, id="number for a boolean"),
            pytest.param(kinds.integer(), "5", "is not a whole number", NUMBER, id="text for a number"),
            pytest.param(kinds.integer(), True, "is not a whole number", NUMBER, id="boolean for a number"),
            pytest.param(kinds.integer(), 5.5, "is not a whole number", NUMBER, id="fraction"),
            pytest.param(kinds.integer(), float("inf"), "is not a whole number", NUMBER, id="infinity"),
            pytest.param(kinds.integer(), 2**31, "is out of range", NUMBER, id="33 bits"),
            pytest.param(
                kinds.integer(bits=64), 2**63, "is out of range", "a whole number, without quotes", id="65 bits"
            ),
            pytest.param(
                kinds.integer(0),
                -1,
                "is out of range",
                "a whole number from 0 to 2147483647, without quotes",
                id="below the bound",
            ),
            pytest.param(kinds.quantity(), "1 Gi", "is not a quantity", QUANTITY, id="space in a quantity"),
            pytest.param(kinds.quantity(), "1Gi\n", "is not a quantity", QUANTITY, id="line break behind a quantity"),
            pytest.param(kinds.quantity(), 1.5, "is not a quantity", QUANTITY, id="fraction for a quantity"),
            pytest.param(kinds.quantity(), True, "is not a quantity", QUANTITY, id="boolean for a quantity"),
            pytest.param(
                kinds.mapping(kinds.text()),
                ["a"],
                "is not an object",
                "an object, which may be empty, such as {}",
                id="list for a mapping",
            ),
            pytest.param(kinds.listed(kinds.text()), "a", "is not a list", "a list", id="text for a list"),
        ],
    )
    def test_refusal(self, kind: Kind[Any], value: object, reason: str, accepted: str) -> None:
        """A value of another kind is told with its place, reason and the accepted form, and is nothing."""
        problems: Problems = []
        read = kind.read(value, "here", problems)

        assert (None, [Problem("here", value, reason, accepted)]) == (read, problems)

    @pytest.mark.parametrize(
        ("kind", "value", "paths"),
        [
            pytest.param(kinds.listed(kinds.text()), ["a", 1, None], ["here[1]", "here[2]"], id="items"),
            pytest.param(kinds.mapping(kinds.text()), {"a": "b", "c": 1}, ["here.c"], id="values"),
        ],
    )
    def test_places(self, kind: Kind[Any], value: object, paths: list[str]) -> None:
        """What is wrong inside a value is told where it stands."""
        problems: Problems = []
        kind.read(value, "here", problems)

        assert paths == [problem.path for problem in problems]


class TestSchema:
    @pytest.mark.parametrize(
        ("kind", "expected"),
        [
            pytest.param(
                kinds.integer(),
                {"type": "integer", "format": "int32", "minimum": -(2**31), "maximum": 2**31 - 1},
                id="32 bits, which the API server does not check by itself",
            ),
            pytest.param(
                kinds.integer(0),
                {"type": "integer", "format": "int32", "minimum": 0, "maximum": 2**31 - 1},
                id="32 bits with a bound",
            ),
            pytest.param(kinds.integer(bits=64), {"type": "integer", "format": "int64"}, id="64 bits"),
            pytest.param(
                kinds.integer(0, bits=64),
                {"type": "integer", "format": "int64", "minimum": 0},
                id="64 bits with a bound",
            ),
        ],
    )
    def test_integer(self, kind: Kind[Any], expected: object) -> None:
        """A whole number has the bounds that it is checked by."""
        assert expected == kind.schema


class TestWrite:
    @given(st.integers(0, 10**12).map(lambda microseconds: microseconds / 10**6))
    def test_duration(self, seconds: float) -> None:
        """A duration of whole microseconds is written as the text that gives it."""
        kind = kinds.duration(0)

        assert seconds == kind.read(kind.write(seconds), "here", [])

    def test_list(self) -> None:
        """The items of a list are written as their kind says."""
        assert ["1s", "1m30s"] == kinds.listed(kinds.duration(0)).write((1.0, 90.0))
