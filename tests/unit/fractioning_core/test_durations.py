from __future__ import annotations

import pytest
from fractioning_core import durations
from fractioning_core.errors import InvalidDuration
from hypothesis import given
from hypothesis import strategies as st

MS = 10**6
S = 10**9
M = 60 * S
H = 60 * M


class TestParse:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            pytest.param("0", 0, id="zero needs no unit"),
            pytest.param("-0", 0, id="nor does a signed zero"),
            pytest.param("0s", 0, id="zero with a unit"),
            pytest.param("5s", 5 * S, id="seconds"),
            pytest.param("1m30s", 90 * S, id="two parts"),
            pytest.param("250ms", 250 * MS, id="milliseconds are not minutes"),
            pytest.param("1.5h", 90 * M, id="fraction"),
            pytest.param("-1s", -S, id="negative"),
            pytest.param("+5s", 5 * S, id="plus sign"),
            pytest.param("5.s", 5 * S, id="nothing behind the point"),
            pytest.param(".5s", 500 * MS, id="nothing before the point"),
            pytest.param("10ns", 10, id="nanoseconds"),
            pytest.param("11us", 11_000, id="microseconds in ASCII"),
            pytest.param("12µs", 12_000, id="micro sign"),
            pytest.param("12\N{GREEK SMALL LETTER MU}s", 12_000, id="Greek mu"),
            pytest.param("3h2m1s5ms", 3 * H + 2 * M + S + 5 * MS, id="many parts"),
            pytest.param("1s1h", H + S, id="any order"),
            pytest.param("1m1m", 2 * M, id="a unit twice"),
            pytest.param("0.100000000000000000000h", 6 * M, id="trailing zeros of a fraction"),
            pytest.param(
                "0.830103483285477580700h", 49 * M + 48 * S + 372_539_827, id="finer than a nanosecond is cut"
            ),
            pytest.param("9223372036854775807ns", 2**63 - 1, id="the longest"),
            pytest.param("-9223372036854775808ns", -(2**63), id="the longest back"),
        ],
    )
    def test_accepted(self, text: str, expected: int) -> None:
        """A duration in Go's grammar is read exactly."""
        nanoseconds = durations.parse(text)

        assert expected == nanoseconds

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param("", id="empty"),
            pytest.param("30", id="no unit"),
            pytest.param("-", id="sign alone"),
            pytest.param("+-1s", id="two signs"),
            pytest.param("s", id="unit alone"),
            pytest.param(".", id="point alone"),
            pytest.param(".s", id="point and unit"),
            pytest.param("1m30", id="unit missing at the end"),
            pytest.param("1d", id="days are no unit"),
            pytest.param("1S", id="units are in lower case"),
            pytest.param("1mss", id="unit with a letter too many"),
            pytest.param(" 1s", id="space before"),
            pytest.param("1 s", id="space inside"),
            pytest.param("1s\n", id="line break behind"),
            pytest.param("\N{FULLWIDTH DIGIT ONE}s", id="digit that is not ASCII"),
            pytest.param("1_0s", id="underscore"),
            pytest.param("1e3s", id="exponent"),
            pytest.param("1.2.3s", id="two points"),
        ],
    )
    def test_no_duration(self, text: str) -> None:
        """Anything else is refused with its value, the reason and the accepted form."""
        with pytest.raises(InvalidDuration) as caught:
            durations.parse(text)

        assert InvalidDuration(text, reason="is not a duration", accepted=durations.ACCEPTED) == caught.value

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            pytest.param("9223372036854775808ns", "is longer than 292 years", id="one past the longest"),
            pytest.param("-9223372036854775809ns", "is longer than 292 years", id="one past the longest back"),
            pytest.param("2562048h", "is longer than 292 years", id="too many hours"),
            pytest.param("1" * 65 + "s", "is longer than 64 characters", id="a long text"),
            pytest.param("0" * 10_000_000 + "s", "is longer than 64 characters", id="a text meant to cost time"),
        ],
    )
    def test_too_long(self, text: str, reason: str) -> None:
        """What does not fit Go's 64 bits, or has too many characters, is refused for that."""
        with pytest.raises(InvalidDuration) as caught:
            durations.parse(text)

        assert reason == caught.value.reason

    @given(st.text(alphabet="0123456789.-+hmsnuµd ", max_size=20))
    def test_any_text(self, text: str) -> None:
        """Any text gives a number or a refusal."""
        try:
            nanoseconds = durations.parse(text)
        except InvalidDuration:
            return

        assert nanoseconds == durations.parse(durations.to_text(nanoseconds))


class TestToText:
    @pytest.mark.parametrize(
        ("nanoseconds", "expected"),
        [
            pytest.param(0, "0s", id="zero"),
            pytest.param(1, "1ns", id="nanosecond"),
            pytest.param(1500, "1.5µs", id="microseconds"),
            pytest.param(250 * MS, "250ms", id="milliseconds"),
            pytest.param(30 * S, "30s", id="seconds"),
            pytest.param(1500 * MS, "1.5s", id="fraction"),
            pytest.param(300 * S, "5m", id="no seconds"),
            pytest.param(90 * S, "1m30s", id="minutes and seconds"),
            pytest.param(H + 5 * S, "1h5s", id="no minutes"),
            pytest.param(-90 * S, "-1m30s", id="negative"),
        ],
    )
    def test_form(self, nanoseconds: int, expected: str) -> None:
        """A duration is written in the fewest parts."""
        text = durations.to_text(nanoseconds)

        assert expected == text

    @given(st.integers(-(2**63), 2**63 - 1))
    def test_round_trip(self, nanoseconds: int) -> None:
        """What is written reads as the same number."""
        text = durations.to_text(nanoseconds)

        assert nanoseconds == durations.parse(text)
