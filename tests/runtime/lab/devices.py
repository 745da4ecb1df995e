"""
GPUs that are not there: device nodes with the NVIDIA driver's numbers, and CDI specs that name them by UUID.

Nothing opens the nodes. A runtime passes a node on by its numbers, so that what a container is given can be seen in
its spec and its /dev without any driver.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from lab.errors import LabError

NVIDIA_MAJOR = 195
CONTROL_MINOR = 255
CDI_KIND = "k8s.device-plugin.nvidia.com/gpu"
"""
The kind under which NVIDIA's device plugin publishes GPUs, one device per UUID and none called `all`.
"""


@attrs.frozen
class Gpu:
    """
    A GPU that has a device node and no hardware.
    """

    uuid: str
    minor: int
    node: Path

    @property
    def cdi_name(self) -> str:
        """
        The fully qualified name of its CDI device.
        """
        return f"{CDI_KIND}={self.uuid}"


@attrs.frozen
class Hook:
    """
    The hook that has the simulated driver enforce the memory limits of containers, on the GPUs they are given.

    Args:
        program: The hook.
        cgroup_root: The simulated tree of cgroup v2 in which containers have their directories.
        environ: Its variables; it gets no others.
    """

    program: Path
    cgroup_root: Path
    environ: Mapping[str, str]

    def edits(self, gpu: Gpu) -> list[dict[str, object]]:
        """
        Give the hooks of a CDI device: one sets limits, the other takes the directory away as the kernel would.
        """
        argv = [self.program.name, "--uuid", gpu.uuid, "--cgroup-root", str(self.cgroup_root), "--cgroupfs"]
        env = [f"{name}={value}" for name, value in self.environ.items()]
        hook = {"path": str(self.program), "env": env}
        return [
            {**hook, "hookName": "createRuntime", "args": argv},
            {**hook, "hookName": "poststop", "args": [*argv, "--remove"]},
        ]


def make_gpus(directory: Path, count: int = 2) -> tuple[Gpu, ...]:
    """
    Make the nodes `nvidia0`, `nvidia1`, … and `nvidiactl` in a directory; they go with it.

    Their UUIDs are new each time: simulated NVML finds processes by them over the whole machine.

    Raises:
        LabError: The system lets nobody make device nodes here.
    """
    directory.mkdir(parents=True, exist_ok=True)
    _make_node(directory / "nvidiactl", CONTROL_MINOR)
    token = secrets.token_hex(4)
    gpus = tuple(
        Gpu(uuid=f"GPU-{token}-1ab5-4c0e-9f00-00000000000{minor}", minor=minor, node=directory / f"nvidia{minor}")
        for minor in range(count)
    )
    for gpu in gpus:
        _make_node(gpu.node, gpu.minor)
    return gpus


def write_cdi_spec(directory: Path, gpus: Sequence[Gpu], *, kind: str = CDI_KIND, hook: Hook | None = None) -> Path:
    """
    Publish GPUs by their UUIDs; each brings its node, and a variable `CDI_GPU_<minor>` that shows it was used.

    Args:
        directory: Where the runtime looks for specs.
        gpus: What to publish.
        kind: Under which name; a spec of the same kind is replaced.
        hook: What applies memory limits; None for a toolkit that has no such hook.
    """
    directory.mkdir(parents=True, exist_ok=True)
    spec = {
        "cdiVersion": "0.6.0",
        "kind": kind,
        "devices": [_cdi_device(gpu, hook) for gpu in gpus],
        # As NVIDIA's own specs do: no other mechanism is to hand out GPUs as well.
        "containerEdits": {"env": ["NVIDIA_VISIBLE_DEVICES=void"]},
    }
    path = directory / f"{kind.replace('/', '-')}.json"
    # containerd watches the directory and would read a half-written file.
    fresh = path.with_suffix(".tmp")
    fresh.write_text(json.dumps(spec, indent=2))
    fresh.replace(path)
    return path


def _cdi_device(gpu: Gpu, hook: Hook | None) -> dict[str, object]:
    node = {
        "path": f"/dev/nvidia{gpu.minor}",
        "hostPath": str(gpu.node),
        "type": "c",
        "major": NVIDIA_MAJOR,
        "minor": gpu.minor,
    }
    edits: dict[str, object] = {"deviceNodes": [node], "env": [f"CDI_GPU_{gpu.minor}={gpu.uuid}"]}
    if hook is not None:
        edits["hooks"] = hook.edits(gpu)
    return {"name": gpu.uuid, "containerEdits": edits}


def _make_node(path: Path, minor: int) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(NVIDIA_MAJOR, minor))
    except PermissionError as error:
        raise LabError(f"cannot make the device node {path}: {error}; the lab needs CAP_MKNOD") from error
