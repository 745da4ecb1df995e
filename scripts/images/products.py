"""
The images by name: what each is made of, and what it is called where it is used.

Names and tags are those that the chart uses by default, so that a node which has imported the archive needs no
registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import yaml

PLAIN, FIPS = "", "-fips"
VARIANTS = (PLAIN, FIPS)

_CHART = "deploy/helm/gpu-fractioning"
# The chart, like the reference, speaks of the controller's image as the operator's.
_CHART_NAMES = {"controller": "operator"}


@attrs.frozen
class Product:
    """
    An image.

    Attributes:
        service: the program in it, the Dockerfile's target and the archive's name.
        dockerfile: its Dockerfile, of the repository's top.
        repository: the name that it is pulled by, without a tag.
        version: the tag, without the variant.
    """

    service: str
    dockerfile: str
    repository: str
    version: str

    def archive(self, variant: str) -> str:
        """
        Name the file of a variant.
        """
        return f"{self.service}{variant}.tar"

    def reference(self, variant: str) -> str:
        """
        Name a variant as pods do.
        """
        return f"{self.repository}:{self.version}{variant}"


def read(repository: Path) -> tuple[Product, ...]:
    """
    List the images, as the chart of this repository names them.
    """
    chart = repository / _CHART
    values, about = (yaml.safe_load((chart / name).read_text()) for name in ("values.yaml", "Chart.yaml"))
    return tuple(
        _product(service, dockerfile, values["images"], str(about["appVersion"]))
        for service, dockerfile in (
            ("controller", "Dockerfile.controller"),
            ("fractiond", "Dockerfile.node"),
            ("metricsd", "Dockerfile.node"),
            ("mpsd", "Dockerfile.node"),
        )
    )


def _product(service: str, dockerfile: str, images: Mapping[str, Any], version: str) -> Product:
    image = images[_CHART_NAMES.get(service, service)]
    return Product(service, dockerfile, image["repository"], image["tag"] or version)
