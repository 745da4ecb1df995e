from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nri_aio import runtimes

OLD, NEW = 0x07FF, 0x3FFF


class TestValidEvents:
    """Which events a runtime knows."""

    @pytest.mark.parametrize(
        ("name", "version", "nri", "expected"),
        [
            pytest.param("containerd", "1.7.24~ds1", "", OLD, id="containerd 1.7 of Debian"),
            pytest.param("containerd", "2.0.5", "", OLD, id="containerd 2.0"),
            pytest.param("containerd", "2.1.9+unknown", "", OLD, id="containerd 2.1 with build metadata"),
            pytest.param("containerd", "2.1.5-k3s1", "", OLD, id="containerd 2.1 of k3s"),
            pytest.param("containerd", "2.2.0", "", NEW, id="containerd 2.2, first with NRI 0.10"),
            pytest.param("containerd", "v2.3.4", "", NEW, id="leading v"),
            pytest.param("containerd", "v2.3.4", "unknown", NEW, id="NRI version unknown"),
            pytest.param("containerd", "2.1.9+unknown", "unknown", OLD, id="NRI version unknown, old runtime"),
            pytest.param("containerd", "v2.3.4", "v0.12.0", NEW, id="NRI version told"),
            pytest.param("containerd", "", "v0.12.0", NEW, id="NRI version alone"),
            pytest.param("containerd", "2.3.4", "v0.9.0", OLD, id="told NRI version wins"),
            pytest.param("containerd", "2.3.4", "v0.0.0-20260101", NEW, id="NRI of a working tree"),
            pytest.param("containerd", "2.3.4", "(devel)", NEW, id="NRI of another working tree"),
            pytest.param("containerd", "3.0.0", "", NEW, id="a later major"),
            pytest.param("cri-o", "1.33.4", "", OLD, id="cri-o 1.33"),
            pytest.param("cri-o", "1.34.0", "", NEW, id="cri-o 1.34, first with NRI 0.10"),
            pytest.param("cri-o 1.34.0", "", "", OLD, id="version in the name"),
            pytest.param("dockershim", "9.9.9", "", OLD, id="unknown runtime"),
            pytest.param("containerd", "unknown", "", OLD, id="unparsable version"),
            pytest.param("containerd", "2", "", OLD, id="major alone"),
            pytest.param("", "", "", OLD, id="nothing told"),
        ],
    )
    def test_table(self, name: str, version: str, nri: str, expected: int) -> None:
        """New events are offered only where NRI 0.10 is certain."""
        assert expected == runtimes.valid_events(runtime_name=name, runtime_version=version, nri_version=nri)

    @given(st.text(), st.text(), st.text())
    def test_any_text_gives_one_of_two_sets(self, name: str, version: str, nri: str) -> None:
        """No text from a runtime makes this fail."""
        assert runtimes.valid_events(runtime_name=name, runtime_version=version, nri_version=nri) in {OLD, NEW}


class TestParseVersion:
    """Reading versions."""

    def test_long_number_is_no_version(self) -> None:
        """A number of thousands of digits is not even looked at."""
        assert runtimes.parse_version("9" * 5000 + ".1") is None

    def test_only_ascii_digits_count(self) -> None:
        """Digits of other scripts are no version."""
        assert runtimes.parse_version("٢.٣") is None


class TestHasValidation:
    """Reading VALIDATE_CONTAINER_ADJUSTMENT from a set of events."""

    def test_only_new_events_have_it(self) -> None:
        """It is among the new events, and not among the old."""
        assert (True, False) == (runtimes.has_validation(NEW), runtimes.has_validation(OLD))


class TestIgnoresCdiDevices:
    """Runtimes that drop CDI devices without a word."""

    @pytest.mark.parametrize(
        ("name", "version", "expected"),
        [
            pytest.param("containerd", "1.6.20~ds1", True, id="containerd 1.6"),
            pytest.param("containerd", "1.7.24~ds1", True, id="containerd 1.7.24"),
            pytest.param("containerd", "1.7.30", False, id="containerd 1.7.30"),
            pytest.param("containerd", "v2.0.5", True, id="containerd 2.0"),
            pytest.param("containerd", "2.1.9+unknown", False, id="containerd 2.1"),
            pytest.param("containerd", "2.3.7", False, id="containerd 2.3"),
            pytest.param("cri-o", "1.33.2", True, id="CRI-O 1.33"),
            pytest.param("cri-o", "1.34.0", False, id="CRI-O 1.34"),
            pytest.param("containerd", "devel", False, id="no version"),
            pytest.param("other", "0.1", False, id="another runtime"),
        ],
    )
    def test_table(self, name: str, version: str, expected: object) -> None:
        """By the releases in which each runtime began to honour them."""
        assert expected == runtimes.ignores_cdi_devices(runtime_name=name, runtime_version=version)
