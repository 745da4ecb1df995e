"""Where images come from."""

from __future__ import annotations

import pytest
from controller.options import Image


@pytest.mark.parametrize(
    ("image", "name", "policy"),
    [
        pytest.param(Image("repo", "tag"), "repo:tag", "IfNotPresent", id="repository and tag"),
        pytest.param(Image("repo"), "repo", "IfNotPresent", id="repository alone"),
        pytest.param(Image("", "tag"), "", "IfNotPresent", id="no repository"),
        pytest.param(Image("repo", "tag", "Always"), "repo:tag", "Always", id="pull policy"),
    ],
)
def test_image(image: Image, name: str, policy: str) -> None:
    """A tag follows its repository, and the pull policy has a default."""
    assert (name, policy) == (image.name, image.policy)
