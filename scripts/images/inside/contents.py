"""
contents.py SITE NAME: writes what an image is made of into the folders that will be copied into it.

    sbom.cdx.json      a CycloneDX 1.6 list of the Debian and the Python packages
    THIRD-PARTY.txt    the same for people: licence, and the licence texts of the Python packages

Runs inside the build with the base's Python and nothing else. The same image gives the same bytes.
"""

from __future__ import annotations

import email
import json
import os
import re
import sys
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from time import gmtime, strftime
from typing import Any, NamedTuple
from urllib.parse import quote

# One file for each package, as on other images without dpkg.
DATABASE = Path("/var/lib/dpkg/status.d")
COPYRIGHTS = Path("/usr/share/doc")
# Where the licence of the whole already lies.
TARGET = "own/usr/share/doc/gpu-fractioning"
OWN = frozenset({"controller", "fractiond", "fractioning-core", "metricsd", "mpsd", "nri-aio"})

_DISTRO = "debian-13"
# What the packages say that do not say it as an SPDX expression.
_SPDX = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache-2.0": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD-3-Clause": "BSD-3-Clause",
    "Dual License": "Apache-2.0 OR BSD-3-Clause",
    "MIT": "MIT",
    "MIT License": "MIT",
    "PSF-2.0": "PSF-2.0",
    "The MIT License (MIT)": "MIT",
}
_HEADING = """\
Third-party software in this image. What Debian's packages are licensed under is told at length by
/usr/share/doc/<package>/copyright and /usr/share/common-licenses."""
_RULE = "=" * 80


class Part(NamedTuple):
    """A package in the image."""

    name: str
    version: str
    purl: str
    reference: str
    licence: str
    is_expression: bool
    """Whether the licence is an SPDX expression; Debian's names are its own."""
    texts: tuple[tuple[str, str], ...]
    """Licence texts by name, where they are to be told here; Debian's lie in /usr/share/doc."""


def debian_parts(database: Path, copyrights: Path) -> Iterator[Part]:
    """Read the packages of the base."""
    for file in sorted(database.glob("*")):
        if file.suffix == ".md5sums":
            continue
        fields = email.message_from_string(file.read_text())
        name, version = fields["Package"], fields["Version"]
        names = _names_in(copyrights / name / "copyright")
        purl = f"pkg:deb/debian/{name}@{quote(version)}?arch={fields['Architecture']}&distro={_DISTRO}"
        yield Part(name, version, purl, f"deb:{name}", ", ".join(names), is_expression=False, texts=())


def python_parts(site: Path) -> Iterator[Part]:
    """Read the packages that the program came with, and those it is made of."""
    for file in sorted(site.rglob("*.dist-info/METADATA"), key=lambda path: path.parent.name):
        fields = email.message_from_string(file.read_text())
        name = re.sub(r"[-_.]+", "-", fields["Name"]).lower()
        version = fields["Version"]
        texts = tuple((path.name, path.read_text(errors="replace")) for path in _licence_files(file.parent))
        yield Part(
            name,
            version,
            f"pkg:pypi/{name}@{quote(version)}",
            f"pypi:{name}",
            _licence(fields),
            is_expression=True,
            texts=texts,
        )


def sbom(parts: list[Part], *, name: str, version: str, epoch: int) -> dict[str, Any]:
    """Write the list for programs."""
    components = [
        {
            "type": "library",
            "name": part.name,
            "version": part.version,
            "purl": part.purl,
            "bom-ref": part.reference,
            **({"licenses": _licences(part)} if part.licence else {}),
        }
        for part in parts
    ]
    image = {"type": "container", "name": name, "version": version, "bom-ref": "image"}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"timestamp": strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(epoch)), "component": image},
        "components": components,
        "dependencies": [{"ref": "image", "dependsOn": [part.reference for part in parts]}],
    }


def notices(parts: list[Part]) -> str:
    """Write the list for people."""
    blocks = [_HEADING]
    for part in parts:
        if part.name not in OWN:
            licence = part.licence or "see its copyright file"
            texts = [f"--- {name}\n{text.strip()}" for name, text in part.texts]
            if part.is_expression and not texts:
                texts = ["The package comes without a text; its source files tell of it."]
            blocks.append("\n\n".join([f"{_RULE}\n{part.name} {part.version}\n{licence}", *texts]))
    return "\n\n".join(blocks) + "\n"


def _names_in(copyright_file: Path) -> list[str]:
    text = copyright_file.read_text(errors="replace") if copyright_file.exists() else ""
    # Only some are in the form that programs read; in the others the same words mean anything.
    structured = text.startswith("Format:")
    return sorted(set(re.findall(r"^License:[ \t]*(\S.*)$", text, re.MULTILINE))) if structured else []


def _licence(fields: Message) -> str:
    expression = fields["License-Expression"]
    if expression:
        return str(expression)
    said = (fields["License"] or "").splitlines()
    if said and said[0] in _SPDX:
        return _SPDX[said[0]]
    raise SystemExit(
        f"contents.py: {fields['Name']} {fields['Version']} says of its licence {said[:1]}; "
        f"add that to _SPDX with the expression it means"
    )


def _licence_files(metadata: Path) -> list[Path]:
    return sorted(
        path for path in metadata.rglob("*") if path.is_file() and path.name not in {"METADATA", "entry_points.txt"}
    )


def _licences(part: Part) -> list[dict[str, Any]]:
    if part.is_expression:
        return [{"expression": part.licence}]
    return [{"license": {"name": name}} for name in part.licence.split(", ")]


def main() -> None:
    """Write both."""
    site, name = Path(sys.argv[1]), sys.argv[2]
    parts = [*debian_parts(DATABASE, COPYRIGHTS), *python_parts(site)]
    target = site / TARGET
    document = sbom(parts, name=name, version=os.environ["VERSION"], epoch=int(os.environ["SOURCE_DATE_EPOCH"]))
    (target / "sbom.cdx.json").write_text(json.dumps(document, indent=1) + "\n")
    (target / "THIRD-PARTY.txt").write_text(notices(parts))


if __name__ == "__main__":
    main()
