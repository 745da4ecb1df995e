from __future__ import annotations

import pytest
from fractioning_core import driver
from fractioning_core.errors import InvalidDriverVersion


class TestParseMajor:
    """The driver's own version text."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            pytest.param("615.43.02", 615, id="three parts"),
            pytest.param("615", 615, id="major alone"),
            pytest.param(" 620.1 ", 620, id="space around"),
        ],
    )
    def test_legal(self, text: str, expected: int) -> None:
        """The number before the first dot is the major version."""
        assert expected == driver.parse_major(text)

    @pytest.mark.parametrize(
        "text", ["", ".615", "r615.43.02", "0.0", "-615.1", "+615.1", "6_15.1", "\u0666\u0661\u0665.1", "9" * 5000]
    )
    def test_illegal(self, text: str) -> None:
        """Anything but a positive number there is refused."""
        with pytest.raises(InvalidDriverVersion) as caught:
            driver.parse_major(text)

        assert InvalidDriverVersion(text, "an NVIDIA driver version", "a version such as 615.43.02") == caught.value


class TestParseLabel:
    """The node label's value."""

    @pytest.mark.parametrize(("text", "expected"), [("614", 614), ("615", 615), ("620", 620)])
    def test_legal(self, text: str, expected: int) -> None:
        """A bare positive number is the major version."""
        assert expected == driver.parse_label(text)

    @pytest.mark.parametrize("text", ["615.43.02", "615.34", "0", "", " 615", "615\n", "r615", "+615", "9" * 5000])
    def test_illegal(self, text: str) -> None:
        """Anything else is refused, a full version included."""
        with pytest.raises(InvalidDriverVersion) as caught:
            driver.parse_label(text)

        assert InvalidDriverVersion(text, "an NVIDIA driver major version", "a bare number such as 615") == caught.value

    def test_text(self) -> None:
        """The refusal shows the value and the accepted form."""
        with pytest.raises(InvalidDriverVersion) as caught:
            driver.parse_label("615.34")

        expected = '"615.34" is not an NVIDIA driver major version; accepted: a bare number such as 615'
        assert expected == str(caught.value)


class TestMinimum:
    """The driver that is needed."""

    def test_value(self) -> None:
        """Branch 615 is the first that enforces memory limits."""
        assert driver.MIN_DRIVER_MAJOR == 615
