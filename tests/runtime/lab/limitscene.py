"""
A machine with two GPUs whose memory limits are set and read, by cgroup, through the simulated NVML.

    scene = LimitScene(tmp_path)
    with scene.nvml:
        assert scene.set(0, 1 << 30) == 0
        assert scene.get() == [0, 1 << 30, 0]       # soft, hard, used
"""

from __future__ import annotations

from pathlib import Path

from simgpu import programs
from simgpu.programs import MissingDriver
from simgpu.reader import Reader
from simgpu.state import Gpu, Machine, StateFile

from lab import cgrouptree
from lab.errors import MissingToolchain

TOTAL_BYTES = 1 << 30
"""
Of each GPU.
"""
OPERATING_SYSTEM = 17
"""
NVML's error for what is no cgroup.
"""


class LimitScene:
    """
    Two GPUs, a tree with one cgroup, and a process that asks the simulated library.
    """

    def __init__(self, directory: Path) -> None:
        try:
            self.driver = programs.locate()
        except MissingDriver as error:
            raise MissingToolchain(error.path, "simgpu") from error
        self.directory = directory
        self.root = cgrouptree.make(directory / "cgroup")
        self.cgroup = cgrouptree.add(self.root, "/kubepods/pod1/c1")
        self.state = StateFile(directory / "simgpu")
        self.write()
        self.nvml = Reader(self.driver.library, environ=self.state.environ)

    def write(self, **changes: object) -> None:
        """
        Show the machine with changes to its first GPU.
        """
        first = Gpu("GPU-1", memory_total_bytes=TOTAL_BYTES, **changes)  # type: ignore[arg-type]
        self.state.write(Machine(devices=(first, Gpu("GPU-2", memory_total_bytes=TOTAL_BYTES))))

    def set(self, soft: int, hard: int, *, gpu: int = 0, cgroup: Path | None = None) -> int:
        """
        Set limits, and give the error.
        """
        return self.nvml.error_of(f"set_limits({gpu}, {str(cgroup or self.cgroup)!r}, {soft}, {hard})")

    def get(self, *, gpu: int = 0, cgroup: Path | None = None) -> object:
        """
        Read limits: soft, hard and used, or the error.
        """
        expression = f"limits({gpu}, {str(cgroup or self.cgroup)!r})"
        return self.nvml.error_of(expression) or self.nvml.ask(expression)
