from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Iterator

import pytest


@pytest.fixture
def socket_path() -> Iterator[str]:
    """A place for a socket whose name is short enough for the kernel, which pytest's own folders are not always."""
    with tempfile.TemporaryDirectory(prefix="nri") as folder:
        yield str(pathlib.Path(folder) / "nri.sock")
