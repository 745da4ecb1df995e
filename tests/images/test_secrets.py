"""
Nothing in an image is secret, left over from its making, or about the machine that made it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from imagelab import secrets
from imagelab.archive import REPOSITORY, Image

# Made up. In parts, so that who scans this repository for such things does not stumble over them.
PLANTED = {
    "private key": "-----BEGIN EC PRIVATE" + " KEY-----\n" + "MHcCAQEEIBkg4LVWM9nuwNSk3yByxZpYRTBnVJk5oMEBbzHtCrkl",
    "web token": "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiJub2JvZHkifQ" + ".c2lnbmF0dXJlLW9mLW5vYm9keQ",
    "cloud key": "AKIA" + "ABCDEFGHIJKLMNOP",
    "forge token": "ghp_" + "a1B2" * 9,
    "package index token": "pypi-" + "AgEIcHlwaS5vcmc" * 3,
    "URL with a password": "https://nobody:" + "nothing@packages.example.com/simple",
    "assigned password": "password = " + "'correct-horse-battery-1'",
}


class TestScan:
    @pytest.mark.parametrize("kind", secrets.KINDS)
    def test_kinds(self, kind: str) -> None:
        """One of each kind is found among other bytes, and by no other kind's pattern."""
        content = b"\xfe text before\n" + PLANTED[kind].encode() + b"\n\xff text after"

        assert [kind] == [found.partition(":")[0] for found in secrets.matches(content, secrets.KINDS)]

    @pytest.mark.parametrize("name", [".netrc", "pip.conf", ".git"])
    def test_remains(self, unpack_nothing: Image, name: str) -> None:
        """A file or folder of such a name is found wherever it is."""
        place = unpack_nothing.root / "usr/lib" / name
        place.mkdir(parents=True)

        assert [f"usr/lib/{name}: left behind"] == list(secrets.findings(unpack_nothing, {}))

    def test_this_machine(self, unpack_nothing: Image) -> None:
        """The folder that the image was built in is found, also in a compiled module."""
        source = f"{REPOSITORY}/services/x/y.py"
        compiled = compile("x = 1", source, "exec").co_filename.encode()
        (unpack_nothing.root / "y.pyc").write_bytes(b"\x00\x01" + compiled)

        assert 1 == len(list(secrets.findings(unpack_nothing, secrets.of_this_machine())))


class TestImages:
    def test_secrets(self, image: Image) -> None:
        """No file holds a key, a token, a password, or a URL with one."""
        assert [] == list(secrets.findings(image, secrets.KINDS))

    def test_machine(self, image: Image) -> None:
        """No file tells of the machine that the image was made on."""
        assert [] == list(secrets.findings(image, secrets.of_this_machine()))

    def test_description(self, image: Image) -> None:
        """Neither does what is told about the image: its configuration, and the history of its making."""
        told = json.dumps([image.config, image.history]).encode()

        assert [] == list(secrets.matches(told, {**secrets.KINDS, **secrets.of_this_machine()}))


@pytest.fixture
def unpack_nothing(tmp_path: Path) -> Image:
    """
    An image without a file.
    """
    return Image("nothing", "nothing:1", digest="", config={}, history=(), root=tmp_path, attributes=())
