"""Flags of the daemons' command lines."""

from __future__ import annotations

import pytest
from controller import flags


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, "0s"),
        (0.25, "250ms"),
        (1.5, "1.5s"),
        (10.0, "10s"),
        (60.0, "1m0s"),
        (90.5, "1m30.5s"),
        (600.0, "10m0s"),
        (3600.0, "1h0m0s"),
        (5025.0, "1h23m45s"),
    ],
)
def test_duration(seconds: float, expected: str) -> None:
    """A length of time has every unit below its largest."""
    assert expected == flags.duration(seconds)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("x", ["--name", "x"], id="text"),
        pytest.param(0, ["--name", "0"], id="zero"),
        pytest.param("", [], id="empty"),
        pytest.param(None, [], id="absent"),
    ],
)
def test_flag(value: object, expected: list[str]) -> None:
    """An absent value leaves the default to the daemon; zero is a value."""
    assert expected == flags.flag("name", value)
