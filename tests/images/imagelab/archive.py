"""
An image's archive, read as a container runtime reads it.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import attrs
from images import products

REPOSITORY = Path(__file__).parents[3]
ARCHIVES = REPOSITORY / ".cache" / "images"
SERVICES = ("controller", "fractiond", "metricsd", "mpsd")


class MissingImage(Exception):  # noqa: N818 - says what is missing
    """
    An image has not been made.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path} is not there; make it with: scripts/build-images --fips"


@attrs.frozen
class Image:
    """
    An unpacked image.

    Attributes:
        service: the program in it.
        reference: the name in the archive.
        digest: of its manifest.
        config: how to run it, as the image says.
        history: how it was made, as the image says.
        root: the folder that holds its files.
        attributes: extended attributes of files, by which a program may have privileges; Python unpacks none.
    """

    service: str
    reference: str
    digest: str
    config: Mapping[str, Any]
    history: tuple[Mapping[str, Any], ...]
    root: Path
    attributes: tuple[str, ...]

    @classmethod
    def unpack(cls, service: str, variant: str, root: Path) -> Self:
        """
        Unpack an archive of `scripts/build-images` into a new folder.
        """
        archive = ARCHIVES / f"{service}{variant}.tar"
        if not archive.exists():
            raise MissingImage(archive)
        root.mkdir()
        attributes: list[str] = []
        with tarfile.open(archive) as tar:
            (described,) = _json(tar, "index.json")["manifests"]
            manifest = _json(tar, _blob(described["digest"]))
            for layer in manifest["layers"]:
                with tarfile.open(fileobj=tar.extractfile(_blob(layer["digest"])), mode="r:*") as files:
                    files.extractall(root, filter="fully_trusted")  # noqa: S202 - of our own making
                    attributes += [key for file in files for key in file.pax_headers if "xattr" in key]
            reference = described["annotations"]["org.opencontainers.image.ref.name"]
            told = _json(tar, _blob(manifest["config"]["digest"]))
            history = tuple(told.get("history", []))
        return cls(service, reference, described["digest"], told["config"], history, root, tuple(attributes))

    @property
    def packages(self) -> Path:
        """
        Where its Python packages are.
        """
        return self.root / "usr/local/lib/python3.13/dist-packages"

    @property
    def documents(self) -> Path:
        """
        Where it says what it is made of.
        """
        return self.root / "usr/share/doc/gpu-fractioning"

    def files(self) -> Iterator[Path]:
        """
        List everything in it that is no link.
        """
        return (path for path in sorted(self.root.rglob("*")) if not path.is_symlink())


Unpack = Callable[[str, str], Image]
"""
What gives an image by service and variant.
"""


def expected_reference(service: str, variant: str) -> str:
    """
    Name an image as the chart's defaults do.
    """
    (product,) = (product for product in products.read(REPOSITORY) if product.service == service)
    return product.reference(variant)


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _json(tar: tarfile.TarFile, name: str) -> Any:  # noqa: ANN401 - whatever JSON says
    file = tar.extractfile(name)
    assert file is not None
    return json.load(file)
