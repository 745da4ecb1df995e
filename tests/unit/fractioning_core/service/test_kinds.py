from __future__ import annotations

from typing import Any

import pytest
from fractioning_core.service import kinds
from fractioning_core.service.addresses import Address
from fractioning_core.service.kinds import Kind
from fractioning_core.service.problems import NotAccepted
from hypothesis import given
from hypothesis import strategies as st

DURATION = "a number with a unit, such as 30s, 1m30s or 250ms"


class TestAccepted:
    @pytest.mark.parametrize(
        ("kind", "text", "expected"),
        [
            pytest.param(kinds.string(None, None), "", "", id="any text may be empty"),
            pytest.param(kinds.string(None, None), " a b ", " a b ", id="any text is kept as it is"),
            pytest.param(kinds.string("[0-9]{2}", "two digits"), "10", "10", id="text that fits its pattern"),
            pytest.param(kinds.path(), "/var/run/x.sock", "/var/run/x.sock", id="absolute path"),
            *(
                pytest.param(kinds.boolean(), text, True, id=f"boolean {text}")
                for text in ("1", "t", "T", "TRUE", "true", "True")
            ),
            *(
                pytest.param(kinds.boolean(), text, False, id=f"boolean {text}")
                for text in ("0", "f", "F", "FALSE", "false", "False")
            ),
            pytest.param(kinds.integer(None, None), "-5", -5, id="negative number"),
            pytest.param(kinds.integer(None, None), "+5", 5, id="number with a plus sign"),
            pytest.param(kinds.integer(None, None), "007", 7, id="leading zeros are decimal"),
            pytest.param(kinds.integer(None, None), "9223372036854775807", 2**63 - 1, id="highest number"),
            pytest.param(kinds.integer(None, None), "-9223372036854775808", -(2**63), id="lowest number"),
            pytest.param(kinds.integer(0, 65535), "0", 0, id="lower bound is allowed"),
            pytest.param(kinds.integer(0, 65535), "65535", 65535, id="upper bound is allowed"),
            pytest.param(kinds.duration(None, None), "1m30s", 90.0, id="duration in seconds"),
            pytest.param(kinds.duration(0.0, 60.0), "1m", 60.0, id="longest duration is allowed"),
            pytest.param(kinds.address(None), ":2112", Address("::", 2112), id="address without a host"),
            pytest.param(kinds.address("0"), "0", Address("::", 0), id="address that is off"),
            pytest.param(kinds.choice(("debug", "info")), "debug", "debug", id="choice"),
            pytest.param(kinds.strings(), "a, b,c", ("a", "b", "c"), id="list"),
            pytest.param(kinds.strings(), "", (), id="empty list"),
        ],
    )
    def test_value(self, kind: Kind[Any], text: str, expected: object) -> None:
        """A text of the kind gives its value, of the kind's own type."""
        value = kind.parse(text)

        assert (type(expected), expected) == (type(value), value)


class TestRefused:
    @pytest.mark.parametrize(
        ("kind", "text", "reason", "accepted"),
        [
            pytest.param(kinds.string("[0-9]{2}", "two digits"), "100", "does not fit", "two digits", id="pattern"),
            pytest.param(kinds.string("[0-9]{2}", "two digits"), "10\n", "does not fit", "two digits", id="line break"),
            pytest.param(
                kinds.string("a+", None), "b", "does not fit", "text that matches a+", id="pattern without a form"
            ),
            pytest.param(kinds.path(), "run", "is not an absolute path", "a path that starts with /", id="path"),
            pytest.param(kinds.path(), "", "is not an absolute path", "a path that starts with /", id="empty path"),
            *(
                pytest.param(
                    kinds.boolean(), text, "is not a boolean", "true or false (also t, f, 1, 0)", id=f"boolean {text!r}"
                )
                for text in ("", "yes", "tRUE", "01", " true", "notabool")
            ),
            *(
                pytest.param(
                    kinds.integer(None, None), text, "is not a whole number", "a whole number", id=f"number {text!r}"
                )
                for text in ("", "3.14", "abc", "1_0", " 1", "0x10", "--1", "1\n", "\N{ARABIC-INDIC DIGIT ONE}")
            ),
            pytest.param(
                kinds.integer(None, None), "9223372036854775808", "is out of range", "a whole number", id="65 bits"
            ),
            pytest.param(kinds.integer(None, None), "9" * 5000, "is out of range", "a whole number", id="many digits"),
            pytest.param(
                kinds.integer(0, None), "-1", "is out of range", "a whole number of at least 0", id="below the minimum"
            ),
            pytest.param(
                kinds.integer(None, 9), "10", "is out of range", "a whole number of at most 9", id="above the maximum"
            ),
            pytest.param(
                kinds.integer(0, 65535), "65536", "is out of range", "a whole number from 0 to 65535", id="above both"
            ),
            pytest.param(kinds.duration(None, None), "30", "is not a duration", DURATION, id="duration without a unit"),
            pytest.param(
                kinds.duration(0.0, 3600.0), "-1s", "is out of range", f"{DURATION}, from 0s to 1h", id="short duration"
            ),
            pytest.param(
                kinds.duration(0.25, None), "0", "is out of range", f"{DURATION}, of at least 250ms", id="no duration"
            ),
            pytest.param(kinds.choice(("debug", "info")), "DEBUG", "is none of the choices", "debug, info", id="case"),
            pytest.param(
                kinds.strings(), "a,,b", "has an empty item", "items separated by commas, such as a,b", id="empty item"
            ),
        ],
    )
    def test_refusal(self, kind: Kind[Any], text: str, reason: str, accepted: str) -> None:
        """A text of another kind is refused with its value, the reason and the accepted form."""
        with pytest.raises(NotAccepted) as caught:
            kind.parse(text)

        assert NotAccepted(text, reason=reason, accepted=accepted) == caught.value


class TestShow:
    @pytest.mark.parametrize("text", ["0", ":2112", "127.0.0.1:2112"])
    def test_address(self, text: str) -> None:
        """An address is shown as the text that gives it, off or not."""
        kind = kinds.address("0")

        assert text == kind.show(kind.parse(text))

    @given(st.integers(-(2**63), 2**63 - 1))
    def test_integer(self, value: int) -> None:
        """A number is shown as the text that gives it."""
        kind = kinds.integer(None, None)

        assert value == kind.parse(kind.show(value))

    @given(st.integers(0, 10**12).map(lambda microseconds: microseconds / 10**6))
    def test_duration(self, value: float) -> None:
        """A duration of whole microseconds is shown as the text that gives it, while a float still has nanoseconds."""
        kind = kinds.duration(None, None)

        assert value == kind.parse(kind.show(value))

    @pytest.mark.parametrize("value", [pytest.param(True, id="true"), pytest.param(False, id="false")])
    def test_boolean(self, value: bool) -> None:  # noqa: FBT001 - the value is the case
        """A boolean is shown as the text that gives it."""
        kind = kinds.boolean()

        assert value is kind.parse(kind.show(value))
