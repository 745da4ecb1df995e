from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from controller.configreading import ConfigReading
from controller.latest import Latest


def manifest(version: str, uid: str = "u") -> Mapping[str, Any]:
    return {"metadata": {"name": "default", "uid": uid, "resourceVersion": version}, "spec": {"nodeSelector": {}}}


def reading(version: str, uid: str = "u") -> ConfigReading:
    return ConfigReading.from_manifest(manifest(version, uid))


@pytest.fixture
def latest() -> Latest:
    """
    One that knows of a finalizer and a status written on top of version 5.
    """
    known = Latest()
    known.wrote(known.wrote(reading("5"), manifest("6")), manifest("7"))
    return known


class TestOf:
    """
    Which of two states of the resource counts.
    """

    @pytest.mark.parametrize(
        ("read", "expected"),
        [
            pytest.param(reading("5"), reading("7"), id="nothing has come yet"),
            pytest.param(reading("6"), reading("7"), id="the first write has come"),
            pytest.param(reading("7"), reading("7"), id="both have come"),
            pytest.param(reading("9"), reading("9"), id="somebody wrote after us"),
            pytest.param(reading("5", "other"), reading("5", "other"), id="another resource of that version"),
            pytest.param(None, None, id="it is gone"),
        ],
    )
    def test_newest(self, latest: Latest, read: ConfigReading | None, expected: ConfigReading | None) -> None:
        """
        What we wrote counts until it, or something newer, is read.
        """
        assert expected == latest.of(read)

    def test_forgotten(self, latest: Latest) -> None:
        """
        Once something newer was read, what we wrote never counts again.
        """
        latest.of(reading("9"))

        assert reading("5") == latest.of(reading("5"))

    def test_no_change(self) -> None:
        """
        A write that changed nothing makes nothing older.
        """
        latest = Latest()
        latest.wrote(reading("5"), manifest("5"))

        assert reading("5") == latest.of(reading("5"))
