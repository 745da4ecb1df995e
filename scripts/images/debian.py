"""
The base's Debian packages, fetched by apt with a configuration and state of its own.

The machine's apt is not touched: it may be another release of Debian, and its package lists are its own business. apt
verifies the archive's signature and each package's hash. Nothing is resolved: the packages are named here, one by one,
because what a dependency would bring besides is what the images are to be without.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from images import failure

SUITE = "trixie"
# The release's Python; the images' wheels are chosen for it.
PYTHON = "3.13"
PACKAGES = (
    "base-files",
    "gcc-14-base",  # the copyright of libgcc
    "libc6",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    f"libpython{PYTHON}-minimal",
    f"libpython{PYTHON}-stdlib",
    "libssl3t64",
    "libstdc++6",  # protobuf's fast implementation, without which fractiond does not start
    "libzstd1",
    f"python{PYTHON}-minimal",
    "zlib1g",
)
FIPS_PACKAGES = ("openssl-provider-fips",)
# Makes the provider's configuration, and stays outside.
FIPS_TOOL = "openssl"

_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_SOURCES = ("/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list")


def fetch(names: Iterable[str], folder: Path) -> list[Path]:
    """
    Download the newest version of each package; gives the files in the order of their names.

    Raises:
        BuildFailed: apt is not here, or cannot fetch or verify.
    """
    if not Path(_KEYRING).exists():
        raise failure.BuildFailed(f"{_KEYRING} is missing (package debian-archive-keyring)")
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("lists/partial", "archives/partial", "debs"):
        (folder / part).mkdir(parents=True)
    (folder / "status").touch()
    (folder / "sources.list").write_text(sources(_mirror()))
    (folder / "apt.conf").write_text(_configuration(folder))
    env = {**os.environ, "APT_CONFIG": str(folder / "apt.conf")}
    failure.run(["apt-get", "-qq", "update"], env=env)
    failure.run(["apt-get", "-qq", "download", *sorted(names)], env=env, cwd=folder / "debs")
    return sorted((folder / "debs").glob("*.deb"))


def control(deb: Path) -> str:
    """
    Give a package's control text, as the dpkg database has it.
    """
    return failure.run(["dpkg-deb", "--field", deb]).decode()


def name_of(deb: Path) -> str:
    """
    Give the name of a package by its file's.
    """
    return deb.name.partition("_")[0]


def sources(mirror: str) -> str:
    """
    Write the archives to fetch from: release, updates and security.
    """
    archives = ((mirror, SUITE), (mirror, f"{SUITE}-updates"), (f"{mirror}-security", f"{SUITE}-security"))
    return "".join(f"deb [signed-by={_KEYRING}] {address} {suite} main\n" for address, suite in archives)


def mirror_in(text: str) -> str | None:
    """
    Find the Debian mirror in a source list of either form.
    """
    found = re.search(r"^(?:URIs:|deb\s+(?:\[.*?\]\s+)?)\s*(\S+/debian)/?(?:\s|$)", text, re.MULTILINE)
    return found and found[1]


def _mirror() -> str:
    texts = [Path(file).read_text() for file in _SOURCES if Path(file).exists()]
    found = next(filter(None, map(mirror_in, texts)), None)
    if found is None:
        raise failure.BuildFailed(
            f"no Debian archive in this machine's apt sources ({', '.join(_SOURCES)}); the base is made of it"
        )
    return found


def _configuration(folder: Path) -> str:
    options = {
        "Dir::State": folder,
        "Dir::State::Lists": folder / "lists",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder,
        "Dir::Cache::Archives": folder / "archives",
        "Dir::Etc::SourceList": folder / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::Etc::Parts": "/dev/null",
        "Dir::Etc::Main": "/dev/null",
        # It would drop to a user that cannot read a folder of ours.
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
    }
    return "".join(f'{name} "{value}";\n' for name, value in options.items())
