"""
Programs of the toolchain: each in a folder of its own name.
"""

from __future__ import annotations

import os
from pathlib import Path

from lab.errors import MissingToolchain
from lab.toolchain import PROGRAMS

CNI_PLUGINS = Path("/usr/lib/cni")


def program(name: str) -> Path:
    """
    Find a program.

    Raises:
        MissingToolchain: It has not been made; the text names the command that makes it.
    """
    return _executable((PROGRAMS / name / name).resolve())


def network_plugin(name: str) -> Path:
    """
    Find a program that connects pods.
    """
    return _executable(CNI_PLUGINS / name)


def _executable(path: Path) -> Path:
    if not os.access(path, os.X_OK):
        raise MissingToolchain(path, "cluster")
    return path
