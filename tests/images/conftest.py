"""
The images, unpacked once for the whole run.
"""

from __future__ import annotations

import pytest
from imagelab.archive import SERVICES, Image, MissingImage, Unpack


@pytest.fixture(scope="session")
def unpack(tmp_path_factory: pytest.TempPathFactory) -> Unpack:
    """
    Gives an image by service and variant.
    """
    folder = tmp_path_factory.mktemp("images")
    unpacked: dict[tuple[str, str], Image] = {}

    def give(service: str, variant: str) -> Image:
        if (service, variant) not in unpacked:
            try:
                unpacked[service, variant] = Image.unpack(service, variant, folder / f"{service}{variant}")
            except MissingImage as error:
                # Not a skip: a suite that passes without having run is worse than one that fails.
                pytest.fail(str(error), pytrace=False)
        return unpacked[service, variant]

    return give


@pytest.fixture(params=[f"{service}{variant}" for variant in ("", "-fips") for service in SERVICES])
def image(request: pytest.FixtureRequest, unpack: Unpack) -> Image:
    """
    Each image in turn.
    """
    service, dash, variant = request.param.partition("-")
    return unpack(service, dash + variant)


@pytest.fixture(params=SERVICES)
def fips_image(request: pytest.FixtureRequest, unpack: Unpack) -> Image:
    """
    The FIPS variant of each image in turn.
    """
    return unpack(request.param, "-fips")
