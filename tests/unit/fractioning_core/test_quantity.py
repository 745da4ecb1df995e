from __future__ import annotations

import fractions

import pytest
from fractioning_core import quantity
from fractioning_core.errors import InvalidQuantity
from hypothesis import given
from hypothesis import strategies as st

SUFFIXES: dict[str, fractions.Fraction | int] = {
    "n": fractions.Fraction(1, 10**9),
    "u": fractions.Fraction(1, 10**6),
    "m": fractions.Fraction(1, 1000),
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "E": 10**18,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "Pi": 2**50,
    "Ei": 2**60,
}


class TestToMib:
    """Quantity text to whole MiB."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            pytest.param("4Gi", 4096, id="4Gi"),
            pytest.param("1024M", 977, id="1024M"),
            pytest.param("2048Mi", 2048, id="2048Mi"),
            pytest.param("1000M", 954, id="1000M"),
            pytest.param("7680Mi", 7680, id="7680Mi"),
            pytest.param("500M", 477, id="500M"),
            pytest.param("1Gi", 1024, id="1Gi"),
            pytest.param("1G", 954, id="1G"),
            pytest.param("100M", 96, id="100M"),
            pytest.param("5G", 4769, id="5G"),
            pytest.param("1024Ki", 1, id="1024Ki"),
            pytest.param("4096M", 3907, id="4096M"),
            pytest.param("4294967296", 4096, id="4294967296"),
            pytest.param("2048M", 1954, id="2048M"),
            pytest.param("8Gi", 8192, id="8Gi"),
            pytest.param("512Mi", 512, id="512Mi"),
            pytest.param("1000Mi", 1000, id="1000Mi"),
            pytest.param("1048576", 1, id="exactly the minimum"),
            pytest.param("1048577", 2, id="one byte above rounds up"),
            pytest.param("1.5Gi", 1536, id="decimal point"),
            pytest.param(".5Gi", 512, id="nothing before the point"),
            pytest.param("5.Gi", 5120, id="nothing behind the point"),
            pytest.param("+2Gi", 2048, id="leading plus"),
            pytest.param("0002Gi", 2048, id="leading zeros"),
            pytest.param("1e9", 954, id="exponent"),
            pytest.param("1E9", 954, id="capital exponent"),
            pytest.param("1e+9", 954, id="exponent with plus"),
            pytest.param("1e0009", 954, id="exponent with zeros"),
            pytest.param("1048576000e-3", 1, id="exponent with minus"),
            pytest.param("1E", 953674316407, id="exa, not an exponent"),
            pytest.param("1048576k", 1000, id="kilo"),
            pytest.param("1048576000m", 1, id="milli"),
            pytest.param("1048576000000u", 1, id="micro"),
            pytest.param("1048576000000000n", 1, id="nano"),
            pytest.param("1048576000000001n", 2, id="a nano byte above rounds up"),
            pytest.param("1Ti", 1024**2, id="tebi"),
            pytest.param("1T", 953675, id="tera"),
            pytest.param("1Pi", 1024**3, id="pebi"),
            pytest.param("1P", 953674317, id="peta"),
            pytest.param("7Ei", 7 * 1024**4, id="exbi"),
            pytest.param("9223372036854775807", 2**43, id="the maximum"),
        ],
    )
    def test_legal(self, text: str, expected: int) -> None:
        """A quantity is whole MiB, rounded up."""
        assert expected == quantity.to_mib(text)

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            pytest.param("1M", "is below 1 MiB", id="1M, below the minimum before rounding"),
            pytest.param("4096", "counts bytes and is below 1 MiB", id="4096, which counts bytes"),
            pytest.param("0", "is zero", id="0"),
            pytest.param("500Ki", "is below 1 MiB", id="500Ki"),
            pytest.param("1048575", "counts bytes and is below 1 MiB", id="1048575"),
            pytest.param("", "is empty", id="empty"),
            pytest.param("  2048Mi  ", "has space around it", id="space around"),
            pytest.param("notanumber", "is not a Kubernetes quantity", id="notanumber"),
            pytest.param("1048575.999999999", "is below 1 MiB", id="a nano byte below the minimum"),
            pytest.param("0Gi", "is zero", id="zero with suffix"),
            pytest.param("-1Gi", "is negative", id="negative"),
            pytest.param("8Ei", "is above 2^63-1 bytes", id="one byte above the maximum"),
            pytest.param("10E", "is above 2^63-1 bytes", id="far above the maximum"),
            pytest.param("1Gi\n", "has space around it", id="line break behind"),
            pytest.param("\u00a01Gi", "has space around it", id="no-break space before"),
            pytest.param("1 Gi", "is not a Kubernetes quantity", id="space within"),
            pytest.param("\uff14Gi", "is not a Kubernetes quantity", id="full-width digit"),
            pytest.param("\u0664Gi", "is not a Kubernetes quantity", id="Arabic digit"),
            pytest.param("4_0Gi", "is not a Kubernetes quantity", id="underscore"),
            pytest.param("1K", "is not a Kubernetes quantity", id="K is no suffix"),
            pytest.param("1ki", "is not a Kubernetes quantity", id="ki is no suffix"),
            pytest.param("1GiB", "is not a Kubernetes quantity", id="GiB is no suffix"),
            pytest.param("1gi", "is not a Kubernetes quantity", id="lower case"),
            pytest.param("1e9Gi", "is not a Kubernetes quantity", id="exponent and suffix"),
            pytest.param("1e", "is not a Kubernetes quantity", id="exponent without a number"),
            pytest.param("1e1.5", "is not a Kubernetes quantity", id="broken exponent"),
            pytest.param("1.2.3Gi", "is not a Kubernetes quantity", id="two points"),
            pytest.param("1,5Gi", "is not a Kubernetes quantity", id="comma"),
            pytest.param(".", "is not a Kubernetes quantity", id="point alone"),
            pytest.param("+", "is not a Kubernetes quantity", id="sign alone"),
            pytest.param("Gi", "is not a Kubernetes quantity", id="suffix alone"),
            pytest.param("+-1Gi", "is not a Kubernetes quantity", id="two signs"),
            pytest.param("0x10Gi", "is not a Kubernetes quantity", id="hexadecimal"),
            pytest.param("NaN", "is not a Kubernetes quantity", id="not a number"),
            pytest.param("inf", "is not a Kubernetes quantity", id="infinite"),
            pytest.param("1e999999999", "is above 2^63-1 bytes", id="huge exponent"),
            pytest.param("1e" + "9" * 60, "is above 2^63-1 bytes", id="exponent of sixty digits"),
            pytest.param("0e999999999", "is zero", id="zero with a huge exponent"),
            pytest.param("1e-999999999", "is below 1 MiB", id="hugely negative exponent"),
            pytest.param("9" * 64, "is above 2^63-1 bytes", id="64 digits"),
            pytest.param("9" * 65, "is longer than 64 characters", id="65 digits"),
            pytest.param("9" * 10_000_000, "is longer than 64 characters", id="ten million digits"),
        ],
    )
    def test_illegal(self, text: str, reason: str) -> None:
        """Anything else is refused with its text, the reason and the accepted form."""
        with pytest.raises(InvalidQuantity) as caught:
            quantity.to_mib(text)

        assert InvalidQuantity(text, reason, quantity.ACCEPTED) == caught.value

    def test_exponent_bound_does_not_change_a_legal_value(self) -> None:
        """The smallest fraction and the exponent that undoes it still meet."""
        assert 1 == quantity.to_mib("." + "0" * 48 + "1048576e55")

    @given(
        whole=st.integers(0, 10**12),
        decimals=st.text("0123456789", max_size=9),
        suffix=st.sampled_from(sorted(SUFFIXES)),
    )
    def test_agrees_with_rational_arithmetic(self, whole: int, decimals: str, suffix: str) -> None:
        """A legal text is worth its number times its suffix, divided by 2^20 and rounded up."""
        exact = fractions.Fraction(f"{whole}.{decimals}0") * SUFFIXES[suffix]
        text = f"{whole}.{decimals}{suffix}" if decimals else f"{whole}{suffix}"
        in_range = quantity.MIB <= exact <= quantity.MAX_BYTES

        assert (-(-exact // quantity.MIB) if in_range else None) == _mib_or_none(text)

    @given(st.text() | st.from_regex(r"[-+]?[0-9.]{0,8}[eE]?[-+]?[0-9numkMGTPEKi]{0,8}", fullmatch=True))
    def test_any_text_is_a_number_or_refused(self, text: str) -> None:
        """No text does anything but give a positive number of MiB or an InvalidQuantity."""
        mib = _mib_or_none(text)

        assert mib is None or 1 <= mib <= 2**43


class TestToBytes:
    """Quantity text to an exact number of bytes."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            pytest.param("1.5Gi", (15 << 30, 10), id="binary"),
            pytest.param("1.5k", (1500, 1), id="decimal"),
            pytest.param("1n", (1, 10**9), id="a fraction of a byte"),
            pytest.param("0", (0, 1), id="zero"),
        ],
    )
    def test_numerator_and_denominator(self, text: str, expected: tuple[int, int]) -> None:
        """The value stays a fraction, with no bounds but the sign."""
        assert expected == quantity.to_bytes(text)


def _mib_or_none(text: str) -> int | None:
    try:
        return quantity.to_mib(text)
    except InvalidQuantity:
        return None
