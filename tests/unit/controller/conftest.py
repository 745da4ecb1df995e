"""What tests of the controller share."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

GOLDEN = Path(__file__).parent / "golden"
REWRITE = "REWRITE_GOLDEN"


@pytest.fixture
def golden() -> Callable[[str, object], None]:
    """Compare a manifest with the file of that name; REWRITE_GOLDEN=1 in the environment writes the file instead."""

    def compare(name: str, manifest: object) -> None:
        path = GOLDEN / f"{name}.yaml"
        if os.environ.get(REWRITE):
            # By way of JSON, since a part that stands in two places would else be written as a reference.
            path.write_text(yaml.safe_dump(json.loads(json.dumps(manifest)), sort_keys=False))

        assert yaml.safe_load(path.read_text()) == manifest

    return compare
