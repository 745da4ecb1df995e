from __future__ import annotations

from pathlib import Path

import pytest
from images import debian
from images.failure import BuildFailed

DEB822 = """\
Types: deb
URIs: http://mirror.example/debian
Suites: bookworm
"""


class TestMirror:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            pytest.param(DEB822, "http://mirror.example/debian", id="the newer form"),
            pytest.param(
                "deb http://mirror.example/debian bookworm main\n", "http://mirror.example/debian", id="a line"
            ),
            pytest.param(
                "deb [signed-by=/k.gpg] https://mirror.example/debian/ sid main\n",
                "https://mirror.example/debian",
                id="options and a slash",
            ),
            pytest.param("deb http://mirror.example/ubuntu noble main\n", None, id="another distribution"),
            pytest.param("deb http://mirror.example/debian-security bookworm main\n", None, id="not the main one"),
            pytest.param("# deb http://mirror.example/debian sid main\n", None, id="a comment"),
            pytest.param("", None, id="nothing"),
        ],
    )
    def test_found(self, text: str, expected: str | None) -> None:
        """The machine's Debian mirror is used where it has one."""
        assert expected == debian.mirror_in(text)

    def test_sources(self) -> None:
        """Security updates come with the release, and every archive's signature is verified."""
        lines = debian.sources("http://mirror.example/debian").splitlines()

        assert [
            "http://mirror.example/debian trixie main",
            "http://mirror.example/debian trixie-updates main",
            "http://mirror.example/debian-security trixie-security main",
        ] == [line.partition("] ")[2] for line in lines]
        assert all(line.startswith("deb [signed-by=/usr/share/keyrings/") for line in lines)


class TestNoMirror:
    def test_is_told(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A machine without a Debian archive is told which files were looked at."""
        monkeypatch.setattr(debian, "_SOURCES", (str(tmp_path / "none.list"),))

        with pytest.raises(BuildFailed, match=r"none\.list"):
            debian._mirror()
