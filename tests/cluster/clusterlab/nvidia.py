"""
The simulated NVIDIA side of a worker: driver, container toolkit and device plugin, as far as containers meet them.

    driver           one state file for each worker, under /run/simgpu of it; tests write it
    device nodes     with the real numbers, opened by nobody
    runtime nvidia   a stand-in for nvidia-container-runtime: runc, once the container has what it asks for
    CDI specs        as device plugin and toolkit write them

A container of the runtime `nvidia` gets what its NVIDIA_VISIBLE_DEVICES asks for: nodes, the simulated library and
control daemon, and the hook that applies memory limits. Everything that shows up says "simulated".
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab import cgrouptree, devices
from lab.devices import CDI_KIND, CONTROL_MINOR, NVIDIA_MAJOR
from lab.errors import LabError
from simgpu import programs
from simgpu.state import VARIABLE, Gpu, Machine, StateFile

from clusterlab.layout import WorkerLayout
from clusterlab.workers import GPU_MEMORY_BYTES, Worker

ROOT = Path("/run/simgpu")
"""
Where the worker, and a container of the runtime, has the driver's files.
"""
STATE = ROOT / "state"
CGROUPS = ROOT / "cgroup"
"""
A tree of cgroup v2, which the machine may not have; containers of the runtime see it in the kernel's place.
"""
_SEEN_CGROUPS = Path("/sys/fs/cgroup")
MANAGEMENT_KIND = "management.nvidia.com/gpu"
_RUNTIME = Path(__file__).with_name("nvidia_runtime.py")
_LIBRARY_DIRECTORY = "/usr/lib/x86_64-linux-gnu"


def prepare(worker: Worker, files: WorkerLayout) -> Path:
    """
    Make the driver's files and the runtime of a worker, with GPUs or without; gives the runtime's program.
    """
    files.simgpu.mkdir(parents=True, exist_ok=True)
    edits = _edits(worker, _write_hook(files.etc / "apply-memory-limits"))
    if worker.gpus:
        _make_nodes(worker, files.simgpu / "dev")
        if not (files.simgpu / "cgroup").exists():
            cgrouptree.make(files.simgpu / "cgroup")
        state(files).write(machine(worker))
        _write_specs(files.run / "cdi", edits)
    configuration = files.etc / "nvidia.json"
    configuration.write_text(json.dumps(edits, indent=2))
    editing = f"{Path(sys.executable).resolve()} -IS {_RUNTIME} {configuration}"
    return _write_program(
        files.etc / "nvidia-container-runtime",
        "# Stands for nvidia-container-runtime: simulated. Only the call that makes a container needs the interpreter.",
        f'case " $* " in *" create "*) {editing} "$@" || exit 1 ;; esac',
        'exec runc "$@"',
    )


def machine(worker: Worker, **changes: Any) -> Machine:  # noqa: ANN401 - fields of Machine
    """
    Give what the simulated driver of a worker shows: processes of `simgpu-run` are on the GPUs they name.
    """
    gpus = tuple(Gpu(uuid, minor=minor, memory_total_bytes=GPU_MEMORY_BYTES) for minor, uuid in enumerate(worker.gpus))
    return Machine(**{"devices": gpus, "scan_processes": True, **changes})


def state(files: WorkerLayout) -> StateFile:
    """
    Give the file through which a worker's driver is told what to show.
    """
    return StateFile(files.simgpu / STATE.name)


def _make_nodes(worker: Worker, directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    names = {"nvidiactl": CONTROL_MINOR, **{f"nvidia{minor}": minor for minor in range(len(worker.gpus))}}
    for name, minor in names.items():
        path = directory / name
        if path.exists():
            continue
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(NVIDIA_MAJOR, minor))
        except PermissionError as error:
            raise LabError(f"cannot make the device node {path}: {error}; a cluster needs CAP_MKNOD") from error


def _write_hook(path: Path) -> Path:
    """
    Write the hook for memory limits: the simulated driver keeps limits by the paths at which managers see cgroups.
    """
    script = f'mount --bind {CGROUPS} {_SEEN_CGROUPS} && exec "$@"'
    return _write_program(
        path,
        "# Stands for the container toolkit's hook: simulated.",
        f"exec unshare --mount sh -c '{script}' sh {programs.locate().hook.resolve()} \"$@\"",
    )


def _write_program(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


def _edits(worker: Worker, program: Path) -> dict[str, Any]:
    """
    Give what a container needs, as parts of a CDI spec: by GPU, and for every container with a GPU.
    """
    driver = programs.locate()
    root = driver.control.parents[1].resolve()
    hook = devices.Hook(program, cgroup_root=_SEEN_CGROUPS, environ={VARIABLE: str(STATE)})
    gpus = [
        devices.Gpu(uuid=uuid, minor=minor, node=ROOT / "dev" / f"nvidia{minor}")
        for minor, uuid in enumerate(worker.gpus)
    ]
    per_gpu = {gpu.uuid: {"deviceNodes": [_node(gpu.node, gpu.minor)], "hooks": hook.edits(gpu)} for gpu in gpus}
    utility = [
        _mount(driver.library.resolve(), f"{_LIBRARY_DIRECTORY}/libnvidia-ml.so.1"),
        _mount(driver.run.resolve(), "/usr/bin/simgpu-run"),
    ]
    interpreter = Path(sys.executable).resolve()
    compute = [
        _mount(driver.control.resolve(), "/usr/bin/nvidia-cuda-mps-control"),
        # What the simulated control daemon is made of: it looks beside its own folder.
        _mount(root / "libexec", "/usr/libexec"),
        _mount(root / "real", "/usr/real"),
        _mount(driver.client.resolve(), "/usr/bin/mpsclient"),
        # The checker of configurations runs in this very interpreter.
        _mount(interpreter.parents[1], str(interpreter.parents[1])),
    ]
    return {
        "gpus": per_gpu,
        "control": _node(ROOT / "dev" / "nvidiactl", CONTROL_MINOR),
        "mounts": {"utility": utility, "compute": compute},
        # Only who manages the driver may change what it shows.
        "state": {"use": _mount(ROOT, str(ROOT)), "manage": _mount(ROOT, str(ROOT), "rw")},
        "env": [f"{VARIABLE}={STATE}"],
        "cgroups": {"hostPath": str(CGROUPS), "containerPath": str(_SEEN_CGROUPS)},
    }


def _write_specs(directory: Path, edits: Mapping[str, Any]) -> None:
    directory.mkdir(exist_ok=True)
    mounts = [*edits["mounts"]["utility"], *edits["mounts"]["compute"], _mount(CGROUPS, str(_SEEN_CGROUPS))]
    variables = ["NVIDIA_VISIBLE_DEVICES=void", *edits["env"]]
    nodes = [edits["control"], *(node for each in edits["gpus"].values() for node in each["deviceNodes"])]
    per_gpu = [{"name": uuid, "containerEdits": each} for uuid, each in edits["gpus"].items()]
    every = [{"name": "all", "containerEdits": {"deviceNodes": nodes}}]
    for kind, entries, access in ((CDI_KIND, per_gpu, "use"), (MANAGEMENT_KIND, every, "manage")):
        common = {"env": variables, "mounts": [*mounts, edits["state"][access]]}
        spec = {"cdiVersion": "0.6.0", "kind": kind, "devices": entries, "containerEdits": common}
        (directory / f"{kind.replace('/', '-')}.json").write_text(json.dumps(spec, indent=2))


def _node(path: Path, minor: int) -> dict[str, Any]:
    return {"path": f"/dev/{path.name}", "hostPath": str(path), "type": "c", "major": NVIDIA_MAJOR, "minor": minor}


def _mount(source: Path, destination: str, access: str = "ro") -> dict[str, Any]:
    # Private, as the mounts of the container toolkit are.
    options = [access, "nosuid", "nodev", "rbind", "rprivate"]
    return {"hostPath": str(source), "containerPath": destination, "options": options}
