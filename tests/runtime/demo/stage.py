"""
The stage of the demo: a private containerd with simulated GPUs, our daemons beside it, and what a kubelet does.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

import attrs
from lab import cgrouptree, gpuprocess, mpsclient
from lab.containerd import Containerd
from lab.cri import Cri
from lab.devices import Gpu, Hook, make_gpus, write_cdi_spec
from lab.errors import CriError, LabError
from lab.fractiond import Fractiond
from lab.metricsd import Metricsd
from lab.mpsd import Mpsd
from simgpu import state
from simgpu.processes import Allocation
from simgpu.state import Machine

from demo.cast import CONTAINER, LIMIT, NAMESPACE, Fence, Role

VERSION = "2.3"
NOBODY = "nobody"
SM_PERCENT = 20
# Ends at once when asked to; as process 1 a bare sleep would ignore the request.
OBEDIENT = ("/bin/sh", "-c", "trap 'exit 0' TERM; sleep 1000000 & wait")


@attrs.frozen
class Running:
    """
    A container that came to run: its id, its first process, and what is seen inside it.
    """

    container: str
    pid: int
    fence: Fence


@attrs.frozen
class Refused:
    """
    A container that was not created, and the runtime's message.
    """

    message: str


Outcome = Running | Refused


class Stage:
    """
    Everything that runs; entering starts it, leaving removes it.

    Args:
        fractiond_flags: Further flags for fractiond.
        mpsd_flags: The same for mpsd.
        metricsd_flags: The same for metricsd.
    """

    def __init__(
        self,
        *,
        fractiond_flags: Sequence[str] = (),
        mpsd_flags: Sequence[str] = (),
        metricsd_flags: Sequence[str] = (),
    ) -> None:
        self.containerd = Containerd(VERSION)
        self._fractiond_flags = fractiond_flags
        self._mpsd_flags = mpsd_flags
        self._metricsd_flags = metricsd_flags
        self._stack = AsyncExitStack()
        self._attempts: dict[str, int] = {}

    @property
    def base(self) -> Path:
        """
        The directory that holds all of it.
        """
        return self.containerd.layout.base

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.containerd)
            self.gpus = make_gpus(self.base / "dev")
            # A crash is to be seen on the page before it is over.
            flags = ("--backoff=2s", *self._mpsd_flags)
            self.mpsd = Mpsd(directory=self.base, sockets=self.base, flags=flags, machine=_machine(self.gpus))
            self._publish_gpus()
            await stack.enter_async_context(self.mpsd)
            # One that does not start says so here, without a wait.
            await self.mpsd.service.wait_for_log("daemon_started")
            await self.mpsd.serving()
            self.fractiond = Fractiond(
                self.containerd, directory=self.base, pipe_dir=self.mpsd.pipe_dir, flags=self._all_flags()
            )
            await stack.enter_async_context(self.fractiond)
            self.cri: Cri = await stack.enter_async_context(self.containerd.cri())
            await self.fractiond.service.wait_for_log("runtime_registered")
            await self.fractiond.ready()
            self.metricsd = Metricsd(
                directory=self.base,
                map_dir=self.fractiond.map_dir,
                state=self.mpsd.machine,
                cgroup_root=self._cgroup_root,
                flags=self._metricsd_flags,
            )
            await stack.enter_async_context(self.metricsd)
            await self.metricsd.ready()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def leave_running(self) -> None:
        """
        Give everything up without ending it.
        """
        self._stack.pop_all()
        await self.cri.__aexit__(None, None, None)

    async def pod(self, role: Role) -> str:
        """
        Start the pod of a role.
        """
        return await self.cri.run_pod(role.pod, namespace=NAMESPACE, annotations=role.annotations)

    async def container(self, role: Role, pod: str) -> Outcome:
        """
        Create and start the container of a role, and look inside.
        """
        attempt = self._attempts[pod] = self._attempts.get(pod, -1) + 1
        try:
            container = await self.cri.create_container(
                pod,
                CONTAINER,
                command=_command(role),
                env=role.env,
                mounts=[mpsclient.mount(self.mpsd), *gpuprocess.mounts(self.mpsd.driver)],
                attempt=attempt,
            )
            await self.cri.start(container)
        except CriError as refusal:
            return Refused(refusal.message)
        status = await self.cri.status(container)
        return Running(container, status.pid, await self._look_inside(role.pod, container))

    async def reached(self, container: str, word: str) -> str:
        """
        Send a word from inside a container to the MPS control daemon that a CUDA program would find there.

        Returns:
            The process of the daemon that logged it.
        """
        try:
            return str(await mpsclient.reach(self.cri, container, mpsd=self.mpsd, word=word))
        except LabError:
            return NOBODY

    async def _look_inside(self, pod: str, container: str) -> Fence:
        lines = (await self.cri.exec(container, ["/bin/env"])).splitlines()
        env = dict(line.split("=", 1) for line in lines if "=" in line)
        nodes = (await self.cri.exec(container, ["/bin/ls", "/dev"])).split()
        pipe = env.get("CUDA_MPS_PIPE_DIRECTORY", "")
        return Fence(
            request_mib=env.get("NVIDIA_GPU_MEMORY_REQUEST", ""),
            limit_mib=env.get(LIMIT, ""),
            pipe_dir=pipe,
            host_dir=await self._directory_behind(container, pipe) if pipe else "",
            daemon=await self.reached(container, greeting(pod)) if pipe else "",
            visible_devices=env.get("NVIDIA_VISIBLE_DEVICES", ""),
            nodes=tuple(f"/dev/{name}" for name in nodes if name.startswith("nvidia")),
        )

    def _publish_gpus(self) -> None:
        # The machine's own may be of cgroup v1, which knows no such limits.
        cgrouptree.make(self._cgroup_root)
        hook = Hook(self.mpsd.driver.hook, self._cgroup_root, self.mpsd.machine.environ)
        write_cdi_spec(self.containerd.cdi_dir, self.gpus, hook=hook)
        for gpu in self.gpus:
            # The driver's own listing, so that the GPUs of the host, if it has some, do not count.
            listing = self._proc / f"driver/nvidia/gpus/0000:0{gpu.minor}:00.0"
            listing.mkdir(parents=True)
            (listing / "information").write_text(f"Model: \t\t simulated\nGPU UUID: \t {gpu.uuid}\n")

    async def _directory_behind(self, container: str, path: str) -> str:
        """
        Find which directory of the host a container sees at a path.
        """
        seen = (await self.cri.exec(container, ["/bin/stat", "-c", "%d:%i", path])).strip()
        pipe_dir = self.mpsd.pipe_dir
        found = {f"{each.stat().st_dev}:{each.stat().st_ino}": each for each in (pipe_dir, pipe_dir / "shared/default")}
        return str(found.get(seen, seen))

    @property
    def _cgroup_root(self) -> Path:
        return self.base / "cgroup"

    @property
    def _proc(self) -> Path:
        return self.base / "proc"

    def _all_flags(self) -> list[str]:
        cdi = ["--inject-cdi-device", f"--cdi-spec-dirs={self.containerd.cdi_dir}", f"--proc-root={self._proc}"]
        return [*cdi, "--stop-timeout=5s", *self._fractiond_flags]


def _machine(gpus: Sequence[Gpu]) -> Machine:
    """
    Simulate a driver with these GPUs, which sees the processes that say they hold memory.
    """
    return Machine(devices=tuple(state.Gpu(gpu.uuid, minor=gpu.minor) for gpu in gpus), scan_processes=True)


def _command(role: Role) -> Sequence[str]:
    if not role.gpu:
        return OBEDIENT
    return gpuprocess.command(Allocation((role.gpu,), memory=f"{role.holds_mib}Mi", sm_percent=SM_PERCENT))


def greeting(pod: str) -> str:
    """
    Give the word by which a pod's client is known to the control daemon.
    """
    return f"hello-from-{pod}"
