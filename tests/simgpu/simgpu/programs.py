"""
Where the simulated driver lies: `.cache/simgpu` of the repository, filled by `scripts/toolchain simgpu`.
"""

from __future__ import annotations

import os
from pathlib import Path

import attrs

REPOSITORY = Path(__file__).resolve().parents[3]
ROOT = REPOSITORY / ".cache" / "simgpu"


class MissingDriver(Exception):  # noqa: N818 - says what is missing
    """
    A part of the simulated driver has not been made.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path} is not there; make it with: scripts/toolchain simgpu"


@attrs.frozen
class Driver:
    """
    The files of the simulated driver.

    Args:
        control: Simulated r615: Debian's real control daemon behind r615's command line.
        real_control: That real one, of branch 550; it is what runs when `control` is started as a daemon.
        client: A static program that sends one command to the daemon whose socket it finds, for inside containers.
        library: The simulated NVML; the loader finds it when its folder is in LD_LIBRARY_PATH.
        stale_library: The same as left behind by an upgrade: every start fails with a mismatch.
        old_library: The same of a driver that does not know memory limits.
        run: A static program whose process holds simulated GPU memory.
        hook: The OCI hook that has the simulated driver enforce a container's limits.
    """

    control: Path
    real_control: Path
    client: Path
    library: Path
    stale_library: Path
    old_library: Path
    run: Path
    hook: Path


def locate() -> Driver:
    """
    Find the simulated driver.

    Raises:
        MissingDriver: A part of it has not been made; the text names the command that makes it.
    """
    driver = Driver(
        control=ROOT / "bin" / "nvidia-cuda-mps-control",
        real_control=ROOT / "real" / "usr" / "bin" / "nvidia-cuda-mps-control",
        client=ROOT / "bin" / "mpsclient",
        library=ROOT / "lib" / "libnvidia-ml.so.1",
        stale_library=ROOT / "lib-stale" / "libnvidia-ml.so.1",
        old_library=ROOT / "lib-580" / "libnvidia-ml.so.1",
        run=ROOT / "bin" / "simgpu-run",
        hook=ROOT / "bin" / "simgpu-apply-memory-limits",
    )
    for path in attrs.astuple(driver):
        if not os.access(path, os.R_OK):
            raise MissingDriver(path)
    return driver
