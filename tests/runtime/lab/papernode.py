"""
A node that is only files: records, a /proc and a cgroup tree of fractional containers, and simulated GPUs.

Each container has one process on one GPU. No container runs: whoever reads these files cannot tell.

    watched = Watched.make(tmp_path)
    async with watched.metricsd as metricsd:
        await metricsd.ready()
        page = await watched.shows_use()
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import attrs
from fractioning_core.mapdir import MapDir
from fractioning_core.record import GpuDevice, Record
from simgpu.limits import Limit, LimitsFile
from simgpu.state import Gpu, GpuProcess, Machine, StateFile

from lab import cgrouptree
from lab.metricsd import PREFIX, Metricsd, Samples

NAMESPACE = "team-ml"
CONTAINER = "main"
REQUEST_MIB = 1024
LIMIT_MIB = 1280
MEMORY_USED_BYTES = 900 << 20
SM_PERCENT = 1
# Above every process id that a kernel gives, so that no real process is met.
_FIRST_PID = 5_000_000
_ENVIRON = f"PATH=/bin\0NVIDIA_GPU_MEMORY_LIMIT={LIMIT_MIB}\0"


@attrs.frozen
class PaperContainer:
    """
    One container with one process.
    """

    number: int
    gpu: Gpu

    @property
    def id(self) -> str:
        """
        As long as the runtimes' ids.
        """
        return hashlib.sha256(f"container {self.number}".encode()).hexdigest()

    @property
    def pid(self) -> int:
        """
        Its process.
        """
        return _FIRST_PID + self.number

    @property
    def pod(self) -> str:
        """
        Its pod's name, one pod for each container.
        """
        return f"trainer-{self.number}"

    @property
    def pod_uid(self) -> str:
        """
        Its pod's UID.
        """
        return f"7c9e6679-7425-40de-944b-{self.number:012d}"

    @property
    def cgroup(self) -> str:
        """
        Its cgroup, with the systemd driver.
        """
        return f"/kubepods.slice/kubepods-burstable.slice/{self._slice}/cri-containerd-{self.id}.scope"

    def record(self) -> Record:
        """
        Give what fractiond writes of it.
        """
        return Record(
            pod=self.pod,
            namespace=NAMESPACE,
            pod_uid=self.pod_uid,
            gpu_devices=(GpuDevice(uuid=self.gpu.uuid, minor_number=self.gpu.minor),),
            requested_memory_mib=LIMIT_MIB,
            container=CONTAINER,
            memory_request_mib=REQUEST_MIB,
            memory_limit_mib=LIMIT_MIB,
            # As NRI gives it, which expands to the path above.
            cgroups_path=f"{self._slice}:cri-containerd:{self.id}",
        )

    @property
    def _slice(self) -> str:
        # systemd reads a dash as one level down.
        return f"kubepods-burstable-pod{self.pod_uid.replace('-', '_')}.slice"


@attrs.frozen
class PaperNode:
    """
    Where the files are, and what is on the GPUs.
    """

    directory: Path
    gpus: tuple[Gpu, ...]
    containers: tuple[PaperContainer, ...]

    @classmethod
    def make(cls, directory: Path, *, gpus: int, containers: int) -> PaperNode:
        """
        Write all files; the containers are spread evenly over the GPUs.
        """
        bare = [Gpu(f"GPU-{index:08x}-be4c-4c0e-9f00-000000000000", minor=index) for index in range(gpus)]
        made = tuple(PaperContainer(number, bare[number % gpus]) for number in range(containers))
        node = cls(directory, tuple(_occupied(gpu, made) for gpu in bare), made)
        node._write()
        return node

    @property
    def map_dir(self) -> Path:
        """
        The records.
        """
        return self.directory / "map"

    @property
    def proc_root(self) -> Path:
        """
        What stands for /proc.
        """
        return self.directory / "proc"

    @property
    def cgroup_root(self) -> Path:
        """
        What stands for /sys/fs/cgroup.
        """
        return self.directory / "cgroup"

    @property
    def roots(self) -> Mapping[str, Path]:
        """
        The directories, as the arguments of `Metricsd` that lead there.
        """
        return {"map_dir": self.map_dir, "proc_root": self.proc_root, "cgroup_root": self.cgroup_root}

    def machine(self) -> Machine:
        """
        Give the driver's state, with every process.
        """
        return Machine(devices=tuple(self._accounting(gpu) for gpu in self.gpus))

    def enforce(self, state: StateFile) -> None:
        """
        Have the driver hold every container to what its record declares.
        """
        limits = LimitsFile(state)
        for each in self.containers:
            limits.put(Limit(each.gpu.uuid, self.cgroup_of(each), REQUEST_MIB << 20, LIMIT_MIB << 20))

    def cgroup_of(self, container: PaperContainer) -> Path:
        """
        Give the directory of a container's cgroup.
        """
        return self.cgroup_root / container.cgroup.lstrip("/")

    def start_another(self, container: PaperContainer, *, at_ticks: int) -> None:
        """
        End a container's process, and start another under its id: the kernel gives that a directory of its own.
        """
        shutil.rmtree(self.proc_root / str(container.pid))
        self._start(container, at_ticks=at_ticks)

    def end(self, container: PaperContainer) -> None:
        """
        End a container: its process and its cgroup go, and the record stays until the runtime removes it.
        """
        shutil.rmtree(self.proc_root / str(container.pid))
        shutil.rmtree(self.cgroup_of(container))

    def _accounting(self, gpu: Gpu) -> Gpu:
        # The driver cannot find these processes' cgroups by itself.
        used = {self.cgroup_of(each): MEMORY_USED_BYTES for each in self.containers if each.gpu.uuid == gpu.uuid}
        return attrs.evolve(gpu, cgroup_used_bytes=used)

    def _write(self) -> None:
        # The host's own first process, by which a /proc is known.
        (self.proc_root / "1").mkdir(parents=True)
        cgrouptree.make(self.cgroup_root)
        MapDir(self.map_dir).replace({each.id: each.record() for each in self.containers})
        for container in self.containers:
            cgrouptree.add(self.cgroup_root, container.cgroup)
            self._start(container)

    def _start(self, container: PaperContainer, *, at_ticks: int = 1) -> None:
        process = self.proc_root / str(container.pid)
        process.mkdir()
        (process / "cgroup").write_text(f"0::{container.cgroup}\n")
        (process / "stat").write_text(_stat(container.pid, at_ticks))
        (process / "environ").write_text(_ENVIRON)


@attrs.frozen
class Watched:
    """
    Such a node, a simulated driver that shows its GPUs, and a metricsd for it, which is not running yet.
    """

    node: PaperNode
    state: StateFile
    metricsd: Metricsd

    @classmethod
    def make(cls, directory: Path, *, gpus: int = 1, library: Path | None = None, flags: Sequence[str] = ()) -> Watched:
        """
        Make all of it in a directory, with two containers.

        Args:
            directory: Where everything goes.
            gpus: How many.
            library: Which simulated NVML metricsd finds; the one of r615 where None.
            flags: Further arguments for metricsd.
        """
        node = PaperNode.make(directory, gpus=gpus, containers=2)
        state = StateFile(directory / "simgpu")
        state.write(node.machine())
        metricsd = Metricsd(directory=directory, state=state, library=library, flags=flags, **node.roots)
        return cls(node, state, metricsd)

    def use_is_shown(self, page: Samples) -> bool:
        """
        Tell whether a page has what every process holds.
        """
        shown = [sample.value for sample in page.get(f"{PREFIX}gpu_memory_used_bytes", ())]
        return [float(MEMORY_USED_BYTES)] * len(self.node.containers) == shown

    async def shows_use(self) -> Samples:
        """
        Wait until metricsd's page has that; gives it.
        """
        return await self.metricsd.shows("what the containers use", self.use_is_shown)


def _occupied(gpu: Gpu, containers: tuple[PaperContainer, ...]) -> Gpu:
    return attrs.evolve(gpu, processes=tuple(_processes(gpu, containers)))


def _processes(gpu: Gpu, containers: tuple[PaperContainer, ...]) -> Iterator[GpuProcess]:
    for container in containers:
        if container.gpu.uuid == gpu.uuid:
            yield GpuProcess(container.pid, MEMORY_USED_BYTES, SM_PERCENT)


def _stat(pid: int, at_ticks: int) -> str:
    """
    Write the text of /proc/PID/stat: 52 fields, of which the 22nd says how many ticks after boot it began.
    """
    return f"{pid} (python3) S 1 {pid} {pid} " + "0 " * 15 + f"{at_ticks} " + "0 " * 29 + "0\n"
