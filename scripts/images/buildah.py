"""
The engine: buildah without a daemon, in a storage of its own, told to give the same digest for the same input.

The isolation is that of a chroot, so that it works where no container can be run; nothing is fetched.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import attrs

from images import failure


@attrs.frozen
class Buildah:
    """
    A storage, and what is done in it.

    Attributes:
        storage: the folder that holds it.
        epoch: the time that every file and every image says it was made.
    """

    storage: Path
    epoch: int

    def import_root(self, archive: Path, name: str) -> None:
        """
        Make an image of one layer out of a root's archive.
        """
        container = self._run("from", "scratch")
        try:
            self._run("add", "--quiet", container, archive, "/")
            self._run("config", "--env", "PATH=/usr/local/bin:/usr/bin:/bin", "--env", "LANG=C.UTF-8", container)
            self._run("commit", "--quiet", "--timestamp", str(self.epoch), container, name)
        finally:
            self._run("rm", container)

    def has(self, name: str) -> bool:
        """
        Say whether there is an image of a name.
        """
        try:
            self._run("inspect", "--type", "image", name)
        except failure.BuildFailed:
            return False
        return True

    def build(self, context: Path, *, dockerfile: Path, target: str, name: str, arguments: Mapping[str, str]) -> None:
        """
        Build a target of a Dockerfile.
        """
        given: list[str | Path] = [
            word for key, value in arguments.items() for word in ("--build-arg", f"{key}={value}")
        ]
        same = ("--no-cache", "--pull-never", "--timestamp", str(self.epoch))
        self._run("build", "--quiet", *same, "--file", dockerfile, "--target", target, "--tag", name, *given, context)

    def save(self, name: str, archive: Path) -> str:
        """
        Write an image as an OCI archive under its name; gives its digest.
        """
        archive.unlink(missing_ok=True)
        with tempfile.NamedTemporaryFile() as digest:
            self._run("push", "--quiet", "--digestfile", digest.name, name, f"oci-archive:{archive}:{name}")
            return digest.read().decode().strip()

    def _run(self, command: str, *arguments: str | Path) -> str:
        env = {**os.environ, "BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs"}
        where = ("--root", self.storage / "images", "--runroot", self.storage / "run")
        return failure.run(["buildah", *where, command, *arguments], env=env).decode().strip()
