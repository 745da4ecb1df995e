"""
A container of an image, run by runc: its user, its environment, a root that cannot be written, and no capability.

It shares the network of the test, which plays the programs around it, and its /proc is its own.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from imagelab.archive import Image

_NAMESPACES = ("ipc", "mount", "pid", "uts")
_FOLDERS = (("/proc", "proc"), ("/dev", "tmpfs"))


class Container:
    """
    A container; it starts when it is entered and is gone when it is left.

    Args:
        image: What to run.
        scratch: A folder for its root and its output.
        arguments: In addition to the image's entrypoint.
        entrypoint: In place of the image's.
        environ: In addition to the image's.
        mounts: Folders and files of the machine, by where they are seen; the container may write there.
        before: What is done to its root before it starts.
    """

    def __init__(
        self,
        image: Image,
        *,
        scratch: Path,
        arguments: Sequence[str] = (),
        entrypoint: Sequence[str] | None = None,
        environ: Mapping[str, str] | None = None,
        mounts: Mapping[str, Path] | None = None,
        before: Callable[[Path], object] = lambda _: None,
    ) -> None:
        self._name = f"imagelab-{uuid.uuid4().hex[:12]}"
        self._bundle = scratch / self._name
        self._root = self._bundle / "rootfs"
        self._image = image
        self._words = [*(entrypoint or image.config["Entrypoint"]), *arguments]
        self._environ = [*image.config["Env"], *(f"{key}={value}" for key, value in (environ or {}).items())]
        self._mounts = mounts or {}
        self._before = before
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        for folder in (self._bundle, *map(self._bundle.joinpath, ("upper", "work", "rootfs"))):
            folder.mkdir()
        # What is written here is not written into the image, into which others look.
        layers = f"lowerdir={self._image.root},upperdir={self._bundle / 'upper'},workdir={self._bundle / 'work'}"
        subprocess.run(["mount", "-t", "overlay", "-o", layers, "overlay", self._root], check=True)
        self._before(self._root)
        (self._bundle / "config.json").write_text(json.dumps(self._specification()))
        with (self._bundle / "output").open("wb") as output:
            command = ["runc", "run", "--bundle", str(self._bundle), self._name]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            subprocess.run(["runc", "kill", self._name, "KILL"], check=False, capture_output=True)
        self._process.wait()
        subprocess.run(["runc", "delete", "--force", self._name], check=False, capture_output=True)
        subprocess.run(["umount", "--lazy", self._root], check=True)
        shutil.rmtree(self._bundle / "upper")

    def wait(self, timeout_seconds: float = 30.0) -> int:
        """
        Wait for its end; gives the exit status.
        """
        assert self._process is not None
        return self._process.wait(timeout_seconds)

    def is_running(self) -> bool:
        """
        Say whether it runs.
        """
        return self._process is not None and self._process.poll() is None

    def output(self) -> str:
        """
        Give what it wrote so far.
        """
        return (self._bundle / "output").read_text()

    def _specification(self) -> dict[str, Any]:
        uid, gid = map(int, self._image.config["User"].split(":"))
        own = [{"destination": path, "type": kind, "source": kind} for path, kind in _FOLDERS]
        given = [
            {"destination": path, "type": "bind", "source": str(source), "options": ["rbind", "rw"]}
            for path, source in self._mounts.items()
        ]
        return {
            "ociVersion": "1.0.2",
            "process": {
                "terminal": False,
                "user": {"uid": uid, "gid": gid},
                "args": self._words,
                "env": self._environ,
                "cwd": self._image.config["WorkingDir"],
                "noNewPrivileges": True,
            },
            "root": {"path": str(self._root), "readonly": True},
            "mounts": [*own, *given],
            "linux": {"namespaces": [{"type": name} for name in _NAMESPACES]},
        }


def run(image: Image, *words: str, scratch: Path, environ: Mapping[str, str] | None = None) -> tuple[int, str]:
    """
    Run a command to its end; gives exit status and output.
    """
    with Container(image, scratch=scratch, entrypoint=words, environ=environ) as container:
        return container.wait(), container.output()
