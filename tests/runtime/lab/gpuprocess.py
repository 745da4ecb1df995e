"""
Containers whose process holds simulated GPU memory, as NVML shows it when the state has `scan_processes`.

    held = Allocation((gpu.uuid,), memory="512Mi", sm_percent=30)
    container = await cri.create_container(
        pod, "main", command=gpuprocess.command(held), mounts=gpuprocess.mounts(driver)
    )
"""

from __future__ import annotations

from simgpu.processes import Allocation
from simgpu.programs import Driver
from simgpu.state import VARIABLE, StateFile

PROGRAM = "/bin/simgpu-run"
_STATE_DIR = "/run/simgpu"


def mounts(driver: Driver, *, obeys: StateFile | None = None) -> tuple[tuple[str, str], ...]:
    """
    Give the mounts that bring the program into a container, which needs no library.

    Args:
        driver: Where the program is.
        obeys: The state whose limits bind it; its directory is shown to the container.
    """
    state = ((str(obeys.path.parent), _STATE_DIR),) if obeys else ()
    return ((str(driver.run), PROGRAM), *state)


def env(obeys: StateFile) -> tuple[tuple[str, str], ...]:
    """
    Give the variable that leads the program to the state of those mounts.
    """
    return ((VARIABLE, f"{_STATE_DIR}/{obeys.path.name}"),)


def command(allocation: Allocation) -> tuple[str, ...]:
    """
    Give the command of a container that holds this.
    """
    return allocation.argv(PROGRAM)
