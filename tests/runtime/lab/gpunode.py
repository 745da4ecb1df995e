"""
A node on which memory limits reach the (simulated) driver: fractiond, the hook, two GPUs, and metricsd when wanted.

    async with GpuNode(containerd, cri, tmp_path) as node:
        pod = await cri.run_pod("trainer", annotations=gpunode.fraction("main", node.first.uuid))
        await node.run(pod, "main", Allocation((node.first.uuid,), memory="1Gi", sm_percent=30))
        metricsd = await node.watched()
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

import attrs
from fractioning_core.testing.builders import annotations_for
from simgpu import programs, state
from simgpu.limits import LimitsFile
from simgpu.processes import Allocation
from simgpu.state import Machine, StateFile

from lab import cgrouptree, gpuprocess
from lab.containerd import Containerd
from lab.cri import Cri
from lab.devices import Gpu, Hook, make_gpus, write_cdi_spec
from lab.errors import LabError
from lab.fractiond import Fractiond
from lab.metricsd import Metricsd

GPU_BYTES = 80 << 30


def fraction(container: str, gpus: str, *, request: str = "1Gi", limit: str = "2Gi") -> dict[str, str]:
    """
    Annotate one container with a fraction of these GPUs.
    """
    return annotations_for(container, request=request, limit=limit, devices=gpus)


@attrs.frozen
class Sharing:
    """
    The containers of a pod: the limit of each, which is its request too, and how much of the SMs each uses.
    """

    limit: str
    sm_percents: Sequence[int]


class GpuNode:
    """
    All of it; NVML's order of the GPUs is the reverse of that of their minor numbers, as it may be.

    Args:
        containerd: Whose NRI fractiond serves; its CDI directory gets the GPUs.
        cri: For the same runtime.
        directory: Where everything goes that is written.
    """

    def __init__(self, containerd: Containerd, cri: Cri, directory: Path) -> None:
        self.cri = cri
        self.driver = programs.locate()
        self.gpus = make_gpus(directory / "gpus")
        self.cgroup_root = cgrouptree.make(directory / "cgroup")
        self.state = StateFile(directory / "simgpu")
        self.limits = LimitsFile(self.state)
        self.state.write(self.machine())
        self._containerd = containerd
        self._directory = directory
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self.publish(self.hook())
        flags = ["--inject-cdi-device", f"--cdi-spec-dirs={self._containerd.cdi_dir}"]
        fractiond = Fractiond(self._containerd, directory=self._directory, flags=flags)
        self.fractiond = await self._stack.enter_async_context(fractiond)
        await self.fractiond.ready()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def first(self) -> Gpu:
        """
        The GPU of minor number 0, which NVML has at index 1.
        """
        return self.gpus[0]

    @property
    def second(self) -> Gpu:
        """
        The GPU of minor number 1, which NVML has at index 0.
        """
        return self.gpus[1]

    def machine(self) -> Machine:
        """
        Give what the driver shows at first.
        """
        devices = tuple(state.Gpu(gpu.uuid, minor=gpu.minor) for gpu in reversed(self.gpus))
        return Machine(devices=devices, scan_processes=True)

    def hook(self, program: Path | None = None) -> Hook:
        """
        Give the runtime's hook that sets limits; another program in its place where one is given.
        """
        return Hook(program or self.driver.hook, self.cgroup_root, self.state.environ)

    def publish(self, hook: Hook | None) -> None:
        """
        Have the GPUs come with this hook from now on.
        """
        write_cdi_spec(self._containerd.cdi_dir, self.gpus, hook=hook)

    def misspelt_hook(self) -> Path:
        """
        Make a hook that reads the variables by their plural names, as a release of the toolkit once did.
        """
        text = self.driver.hook.read_text()
        for name in ("NVIDIA_GPU_MEMORY_REQUEST", "NVIDIA_GPU_MEMORY_LIMIT"):
            if f'"{name}"' not in text:
                raise LabError(f"the hook does not read {name}, which was to be misspelt in it")
            text = text.replace(f'"{name}"', f'"{name}S"')
        program = self._directory / "misspelt"
        program.write_text(text)
        program.chmod(0o755)
        return program

    async def run(self, pod: str, container: str, allocation: Allocation | None, *, attempt: int = 0) -> str:
        """
        Run a container in a pod that is there, and give its id.
        """
        command = gpuprocess.command(allocation) if allocation else ("/bin/sleep", "1000000")
        created = await self.cri.create_container(
            pod, container, command=command, mounts=gpuprocess.mounts(self.driver), attempt=attempt
        )
        await self.cri.start(created)
        await self.fractiond.settled()
        return created

    async def run_pod(
        self, pod: str, sharing: Sharing, *, gpu: str, memory: str = "512Mi", uid: str | None = None
    ) -> str:
        """
        Run a pod whose containers are all on one GPU and hold so much memory each, and give the pod's id.
        """
        containers = {f"c{number}": sm_percent for number, sm_percent in enumerate(sharing.sm_percents)}
        annotations: dict[str, str] = {}
        for name in containers:
            annotations |= fraction(name, gpu, request=sharing.limit, limit=sharing.limit)
        sandbox = await self.cri.run_pod(pod, namespace="team-ml", uid=uid, annotations=annotations)
        for name, sm_percent in containers.items():
            await self.run(sandbox, name, Allocation((gpu,), memory=memory, sm_percent=sm_percent))
        return sandbox

    def cgroup_of(self, container: str) -> Path:
        """
        Make a container's directory in the simulated tree, as the runtime does where the machine has cgroup v2.
        """
        return cgrouptree.add(self.cgroup_root, self.fractiond.records()[container]["cgroupsPath"])

    async def watched(self, *, library: Path | None = None, cgroup_root: Path | None = None) -> Metricsd:
        """
        Start metricsd, and give it once it is ready.
        """
        metricsd = Metricsd(
            directory=self._directory,
            map_dir=self.fractiond.map_dir,
            state=self.state,
            cgroup_root=cgroup_root or self.cgroup_root,
            library=library,
        )
        await self._stack.enter_async_context(metricsd)
        await metricsd.ready()
        return metricsd
