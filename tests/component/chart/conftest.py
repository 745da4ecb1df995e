"""
The chart, rendered by the real helm without any cluster.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from apilab.helm import Helm
from lab.errors import MissingToolchain


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
