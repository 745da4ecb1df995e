from __future__ import annotations

from pathlib import Path

import pytest
from fractioning_core.nvml import driverversions
from fractioning_core.nvml.driverversions import Halves
from hypothesis import given
from hypothesis import strategies as st

PROPRIETARY = """\
NVRM version: NVIDIA UNIX x86_64 Kernel Module  615.43.02  Tue Mar  3 01:15:15 UTC 2026
GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)
"""
OPEN = """\
NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  620.10.01  Release Build  (builder@host)  Fri May  1 2026
GCC version:  gcc version 13.3.0
"""
MAPS = """\
7f1b3c000000-7f1b3c021000 r--p 00000000 fe:01 917 /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.620.10.01
7f1b3c100000-7f1b3c121000 r--p 00000000 fe:01 918 /usr/lib/x86_64-linux-gnu/libc.so.6
"""

versions = st.lists(st.integers(10, 999), min_size=2, max_size=4).map(lambda parts: ".".join(map(str, parts)))


class TestModuleVersion:
    """
    The version in /proc/driver/nvidia/version.
    """

    @pytest.mark.parametrize(
        ("text", "version"),
        [
            pytest.param(PROPRIETARY, "615.43.02", id="proprietary module"),
            pytest.param(OPEN, "620.10.01", id="open module"),
            pytest.param("615.43.02\n", "615.43.02", id="nothing but the version"),
            pytest.param("NVRM version: NVIDIA UNIX x86_64 Kernel Module\nGCC version: 12.2.0", None, id="none named"),
            pytest.param("", None, id="empty"),
        ],
    )
    def test_text(self, text: str, version: str | None) -> None:
        """
        It is taken from the first line, whatever the words around it.
        """
        assert version == driverversions.module_version(text)

    @given(version=versions, rest=st.text())
    def test_any(self, version: str, rest: str) -> None:
        """
        Any version is found, whatever follows on other lines.
        """
        assert version == driverversions.module_version(f"NVRM version: Module x86_64  {version}  Tue\n{rest}")

    @given(text=st.text())
    def test_foreign_text(self, text: str) -> None:
        """
        No text makes it fail.
        """
        found = driverversions.module_version(text)

        assert found is None or found in text


class TestLibraryVersion:
    """
    The version in the name of the mapped library.
    """

    @pytest.mark.parametrize(
        ("maps", "version"),
        [
            pytest.param(MAPS, "620.10.01", id="mapped"),
            pytest.param("7f-80 r--p 0 fe:01 9 /lib/libnvidia-ml.so.1\n", None, id="a name without a version"),
            pytest.param("", None, id="not mapped"),
        ],
    )
    def test_maps(self, maps: str, version: str | None) -> None:
        """
        It is the end of the file's name, where the driver's installer gave it one.
        """
        assert version == driverversions.library_version(maps)


class TestReadHalves:
    """
    Both halves as a node has them.
    """

    def test_both(self, tmp_path: Path) -> None:
        """
        Both are read below the root of /proc.
        """
        (tmp_path / "driver/nvidia").mkdir(parents=True)
        (tmp_path / "driver/nvidia/version").write_text(PROPRIETARY)
        (tmp_path / "self").mkdir()
        (tmp_path / "self/maps").write_text(MAPS)

        assert Halves(library="620.10.01", module="615.43.02") == driverversions.read_halves(tmp_path)

    def test_nothing_there(self, tmp_path: Path) -> None:
        """
        A node without the driver's files leaves both unknown.
        """
        assert Halves(library=None, module=None) == driverversions.read_halves(tmp_path)

    @pytest.mark.parametrize(
        ("halves", "text"),
        [
            pytest.param(
                Halves("620.10.01", "615.43.02"),
                "the NVML library is version 620.10.01, the loaded kernel module version 615.43.02",
                id="both known",
            ),
            pytest.param(
                Halves(None, None),
                "the NVML library is of another version, the loaded kernel module of unknown version",
                id="none known",
            ),
        ],
    )
    def test_text(self, halves: Halves, text: str) -> None:
        """
        They are told for a person.
        """
        assert text == str(halves)


class TestMismatch:
    """
    Halves that do not match.
    """

    def test_text(self, tmp_path: Path) -> None:
        """
        Both versions are said, and what mends them.
        """
        (tmp_path / "driver/nvidia").mkdir(parents=True)
        (tmp_path / "driver/nvidia/version").write_text(PROPRIETARY)

        assert (
            "the NVML library is of another version, the loaded kernel module version 615.43.02; "
            "reboot the node or reload the module"
        ) == driverversions.mismatch(tmp_path)
