"""
The chart, rendered by the real helm without any cluster.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from apilab.helm import Helm
from lab.errors import MissingToolchain

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    """
    The release `gpu-fractioning` in the namespace of that name.
    """
    try:
        return Helm(tmp_path / "no-cluster", directory=tmp_path)
    except MissingToolchain as error:
        # Not a skip: a suite that passes without having run is worse than one that fails.
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def golden() -> Callable[[str, str], str]:
    """
    Gives the text that a render has to be; with GOLDEN=rewrite in the environment it becomes the one at hand.
    """

    def expected(name: str, text: str) -> str:
        path = GOLDEN / name
        if os.environ.get("GOLDEN") == "rewrite":
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return path.read_text()

    return expected
