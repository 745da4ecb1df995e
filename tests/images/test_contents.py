"""
What is in the images, and what is not.
"""

from __future__ import annotations

import json
import re
import stat
import subprocess
from pathlib import Path

import pytest
from imagelab import archive, container
from imagelab.archive import REPOSITORY, Image
from images import closure, debian
from packaging.utils import canonicalize_name

# Of the files' bytes, unpacked.
BARS_MB = {"controller": 100, "fractiond": 62, "metricsd": 62, "mpsd": 62}
OWN = frozenset({"controller", "fractiond", "fractioning-core", "metricsd", "mpsd", "nri-aio"})


def variant_of(image: Image) -> str:
    return "-fips" if image.reference.endswith("-fips") else ""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def python_packages(image: Image) -> set[str]:
    texts = [file.read_text() for file in image.packages.glob("*.dist-info/METADATA")]
    names = [re.search(r"^Name: (.+)$", text, re.MULTILINE) for text in texts]
    return {canonicalize_name(name[1]) for name in names if name}


class TestFiles:
    def test_size(self, image: Image, capsys: pytest.CaptureFixture[str]) -> None:
        """An image is within its bar, unpacked."""
        size_mb = sum(path.stat().st_size for path in image.files() if path.is_file()) / 1e6
        with capsys.disabled():
            print(f"\n{image.reference}: {size_mb:.1f} MB unpacked, at most {BARS_MB[image.service]}")

        assert size_mb <= BARS_MB[image.service]

    def test_programs(self, image: Image) -> None:
        """Nothing can be executed but Python, the service, and what is loaded as a library."""
        executable = {
            str(path.relative_to(image.root))
            for path in image.files()
            if path.is_file() and mode(path) & 0o111 and ".so" not in path.name
        }

        assert {"usr/bin/python3.13", f"usr/local/bin/{image.service}"} == executable

    def test_shells_by_another_name(self, image: Image) -> None:
        """No file is a shell, a package manager or a downloader, whatever its mode."""
        known = re.compile(r"(ba|da|z|k|c|tc|fi)?sh|busybox|toybox|apt(-get)?|dpkg|perl.*|pip\d*|curl|wget|nc|openssl")

        assert [] == [path for path in image.files() if path.is_file() and known.fullmatch(path.name)]

    def test_modes(self, image: Image) -> None:
        """No file and no folder is setuid, setgid or writable for everybody; all belong to root."""
        loose = [path for path in image.files() if mode(path) & 0o6002]
        others = [path for path in image.files() if (path.stat().st_uid, path.stat().st_gid) != (0, 0)]

        assert ([], []) == (loose, others)

    def test_file_capabilities(self, image: Image) -> None:
        """No program is given privileges by its file."""
        assert () == image.attributes

    def test_accounts(self, image: Image) -> None:
        """No account has a password."""
        assert not (image.root / "etc/shadow").exists()
        assert all(line.split(":")[1] == "x" for line in (image.root / "etc/passwd").read_text().splitlines())

    def test_links_lead_somewhere(self, image: Image) -> None:
        """No link dangles, or leads out of the image."""
        links = [path for path in image.root.rglob("*") if path.is_symlink()]
        targets = {path: path.readlink() for path in links}
        missing = {
            path: target
            for path, target in targets.items()
            if not (image.root / str(target).lstrip("/") if target.is_absolute() else path.parent / target).exists()
        }

        assert {} == missing

    def test_libraries_are_there(self, image: Image) -> None:
        """Whatever a program or a library is linked with is in the image."""
        binaries = [path for path in image.files() if path.is_file() and b"\x7fELF" == path.read_bytes()[:4]]
        told = subprocess.run(["readelf", "--dynamic", *binaries], check=True, capture_output=True, text=True).stdout
        needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", told))
        there = {path.name for path in image.root.glob("usr/lib/*/*.so*")}

        assert needed
        assert set() == needed - there

    def test_everything_is_compiled(self, image: Image) -> None:
        """Every module has its compiled form, which holds whatever the times of files are."""
        sources = [path for path in image.files() if path.suffix == ".py" and "dist-packages" in path.parts]
        compiled = [path.parent / "__pycache__" / f"{path.stem}.cpython-313.pyc" for path in sources]
        # The flags in bytes 4 to 8: bit 0 for a hash instead of a time, bit 1 for comparing it.
        flags = {path.read_bytes()[4:8] for path in compiled}

        assert sources
        assert {b"\1\0\0\0"} == flags


class TestPackages:
    def test_only_what_is_needed(self, image: Image) -> None:
        """The Python packages are the closure of the service, no more and no less."""
        needed = closure.of(image.service, own=OWN, python=debian.PYTHON, requirements_of=closure.installed)

        assert {*needed.own, *needed.third_party} == python_packages(image)

    def test_no_test_code(self, image: Image) -> None:
        """Neither tests nor what they are written with is inside."""
        found = [path for path in image.packages.rglob("*") if path.name in {"test", "tests", "testing", "conftest.py"}]

        assert [] == found

    def test_every_module_loads(self, image: Image, tmp_path: Path) -> None:
        """Every module of the service loads, so nothing it imports was left out."""
        program = (
            "import importlib, pkgutil, sys\n"
            f"import {image.service} as service\n"
            "names = [found.name for found in pkgutil.walk_packages(service.__path__, service.__name__ + '.')]\n"
            "for name in names:\n"
            "    importlib.import_module(name) if not name.endswith('__main__') else None\n"
            "print(len(names) > 5)\n"
        )

        assert (0, "True\n") == container.run(image, "/usr/bin/python3", "-IBc", program, scratch=tmp_path)


class TestDescription:
    def test_reference(self, image: Image) -> None:
        """An image has the name that the chart's defaults make, so that nodes which imported it pull nothing."""
        assert archive.expected_reference(image.service, variant_of(image)) == image.reference

    def test_how_it_runs(self, image: Image) -> None:
        """The controller is nobody in particular; the daemons of nodes are root, and need to be."""
        user = "1000:1000" if image.service == "controller" else "0:0"

        assert (user, [f"/usr/local/bin/{image.service}"]) == (image.config["User"], image.config["Entrypoint"])

    def test_labels(self, image: Image) -> None:
        """The labels say what it is, of which version, and under which licence."""
        labels = {key: value for key, value in image.config["Labels"].items() if key.startswith("org.opencontainers.")}
        prefix = "org.opencontainers.image."
        description = labels.pop(f"{prefix}description")

        assert description
        assert {
            f"{prefix}title": image.service,
            f"{prefix}version": image.reference.rpartition(":")[2],
            f"{prefix}licenses": "Apache-2.0",
        } == labels

    def test_sbom(self, image: Image) -> None:
        """The SBOM lists every Debian and Python package in the image, each with version, licence and address."""
        document = json.loads((image.documents / "sbom.cdx.json").read_text())
        components = document["components"]
        listed = {component["name"] for component in components}
        installed = {file.name for file in (image.root / "var/lib/dpkg/status.d").iterdir()}

        assert ("CycloneDX", "1.6") == (document["bomFormat"], document["specVersion"])
        assert python_packages(image) | installed == listed
        assert [] == [component for component in components if not (component["version"] and component["purl"])]
        assert [] == [part for part in components if part["purl"].startswith("pkg:pypi/") and not part.get("licenses")]

    def test_licences(self, image: Image) -> None:
        """Every package's licence text is inside: in the notices, or where Debian has it."""
        notices = (image.documents / "THIRD-PARTY.txt").read_text()
        told = set(re.findall(r"^={80}\n(\S+) \S+$", notices, re.MULTILINE))
        debian_packages = {file.name for file in (image.root / "var/lib/dpkg/status.d").iterdir()}
        without = [name for name in debian_packages if not (image.root / f"usr/share/doc/{name}/copyright").exists()]

        assert (python_packages(image) | debian_packages) - OWN == told
        assert [] == without
        assert (REPOSITORY / "LICENSE").read_text() == (image.documents / "LICENSE").read_text()
