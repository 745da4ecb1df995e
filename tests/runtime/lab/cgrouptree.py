"""
A simulated tree of cgroup v2 directories, for machines that have cgroup v1 alone.

A directory in it stands for the cgroup of the same path in whatever hierarchy the machine has. The hook that applies
memory limits makes those of containers; a test may make others.
"""

from __future__ import annotations

from pathlib import Path


def make(root: Path) -> Path:
    """
    Make an empty tree, told as one of cgroup v2 by the file that the kernel has in every such directory.
    """
    root.mkdir(parents=True)
    (root / "cgroup.controllers").write_text("cpu memory dmem\n")
    return root


def add(root: Path, cgroup: str) -> Path:
    """
    Make the directory of a cgroup by its path, such as `/kubepods/pod1/ID`.
    """
    directory = root / cgroup.lstrip("/")
    directory.mkdir(parents=True, exist_ok=True)
    return directory
