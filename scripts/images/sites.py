"""
An image's Python packages, installed into folders that the Dockerfiles copy in.

Wheels are fetched and verified by pip, for the image's Python rather than the one that runs here; our own are built
from source. What no service loads is left out: tests, sources of extension modules, stubs, and symbols that only a
debugger reads.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath

from images import failure
from images.failure import BuildFailed

# Where the Python of the base looks for packages that are not Debian's; also under `python3 -I`.
PACKAGES = "usr/local/lib/python{python}/dist-packages"
PROGRAMS = "usr/local/bin"

# Of a package that is used in parts, the parts (see fractioning_core.kube.vendor): 47 MB less.
KEPT: Mapping[str, frozenset[str]] = {
    "kubernetes_asyncio": frozenset(
        {"__init__.py", "client/configuration.py", "client/exceptions.py", "client/rest.py"}
    ),
}
_METADATA = re.compile(
    r"\.dist-info/(METADATA|entry_points\.txt|(licenses/.+|(LICEN[CS]E|NOTICE|COPYING|AUTHORS)[^/]*))$"
)
_UNWANTED = re.compile(
    r"(^|/)(tests?|testing|docs|__pycache__)/|^bin/"
    r"|\.(pyx|pxd|pxi|pyi|c|h|hash)$|(^|/)(py\.typed|_testcapi[^/]*)$"
)
# The base's C library is newer than any that wheels are built for.
_GLIBC_MINORS = range(5, 42)

_PROGRAM = """\
#!/usr/bin/python3 -IB
from fractioning_core.service import fips

# Before anything that hashes is loaded.
fips.enter_or_exit()

from {module} import {function}

{function}()
"""


def install_locked(requirements: str, folder: Path, *, python: str) -> None:
    """
    Install the wheels that a hashed requirements text names.

    Raises:
        BuildFailed: one of them has no wheel for the image's Python, or not the hash it should.
    """
    machine = platform.machine()
    tags = [f"manylinux_2_{minor}_{machine}" for minor in reversed(_GLIBC_MINORS)]
    platforms = [word for tag in (*tags, f"manylinux2014_{machine}") for word in ("--platform", tag)]
    fetched = ("--require-hashes", "--only-binary=:all:", "--python-version", python, *platforms)
    _pip(folder, *fetched, "--requirement", "/dev/stdin", stdin=requirements)
    _prune(folder)
    _strip(folder.rglob("*.so"))


def install_own(sources: Iterable[Path], folder: Path) -> None:
    """
    Build and install packages of this repository.
    """
    _pip(folder, "--no-build-isolation", *sources)
    _prune(folder)


def write_programs(packages: Path, folder: Path) -> None:
    """
    Write the console scripts of installed packages, for the image's Python.

    In isolated mode (-I) no variable of the environment and no file of the working directory changes what is loaded;
    -B, since every module is compiled already. The name of a console script is the name of its process.
    """
    folder.mkdir(parents=True)
    for file in packages.glob("*.dist-info/entry_points.txt"):
        for name, module, function in re.findall(r"^(\S+) = (\S+):(\S+)$", file.read_text(), re.MULTILINE):
            program = folder / name
            program.write_text(_PROGRAM.format(module=module, function=function))
            program.chmod(0o755)


def settle(folder: Path) -> None:
    """
    Give folders a mode that does not depend on who builds.
    """
    for path in (folder, *folder.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)


def is_wanted(path: PurePath) -> bool:
    """
    Say whether a file of an installed package goes into an image.
    """
    text = path.as_posix()
    if ".dist-info/" in text:
        return _METADATA.search(text) is not None
    package, _, inner = text.partition("/")
    if package in KEPT:
        return inner in KEPT[package]
    return _UNWANTED.search(text) is None


def _pip(folder: Path, *arguments: str | Path, stdin: str = "") -> None:
    shutil.rmtree(folder, ignore_errors=True)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    install = ("install", "--no-deps", "--no-compile", "--target", folder)
    failure.run([*pip, *install, *arguments], stdin=stdin.encode())


def _prune(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            if not any(path.iterdir()):
                path.rmdir()
        elif is_wanted(path.relative_to(folder)):
            # None of them is a program here, whatever its package thinks.
            path.chmod(0o644)
        else:
            path.unlink()


def _strip(libraries: Iterable[Path]) -> None:
    if shutil.which("strip") is None:
        raise BuildFailed("strip is not installed (package binutils)")
    for library in sorted(libraries):
        subprocess.run(["strip", "--strip-unneeded", library], check=True)  # noqa: S603, S607
