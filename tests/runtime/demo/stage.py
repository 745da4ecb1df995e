"""
The stage of the demo: a private containerd with simulated GPUs, fractiond beside it, and what a kubelet does.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

import attrs
from lab.containerd import Containerd
from lab.cri import Cri
from lab.devices import Gpu, make_gpus, write_cdi_spec
from lab.errors import CriError
from lab.fractiond import Fractiond

from demo.cast import CONTAINER, LIMIT, NAMESPACE, Fence, Role

VERSION = "2.3"
# What a file in a directory of the host says, so that whoever finds it mounted knows where it comes from.
SIGN = "where-this-is-on-the-host"
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
        flags: Further flags for fractiond.
    """

    def __init__(self, flags: Sequence[str] = ()) -> None:
        self.containerd = Containerd(VERSION)
        self._flags = flags
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
            self.gpus = self._simulate_gpus()
            self.fractiond = Fractiond(self.containerd, directory=self.base, flags=self._all_flags())
            self._put_up_signs()
            await stack.enter_async_context(self.fractiond)
            self.cri: Cri = await stack.enter_async_context(self.containerd.cri())
            # A fractiond that does not start says so here, without a wait.
            await self.fractiond.service.wait_for_log("runtime_registered")
            await self.fractiond.ready()
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
            container = await self.cri.create_container(pod, CONTAINER, command=OBEDIENT, env=role.env, attempt=attempt)
            await self.cri.start(container)
        except CriError as refusal:
            return Refused(refusal.message)
        status = await self.cri.status(container)
        return Running(container, status.pid, await self._look_inside(container))

    async def _look_inside(self, container: str) -> Fence:
        lines = (await self.cri.exec(container, ["/bin/env"])).splitlines()
        env = dict(line.split("=", 1) for line in lines if "=" in line)
        nodes = (await self.cri.exec(container, ["/bin/ls", "/dev"])).split()
        pipe = env.get("CUDA_MPS_PIPE_DIRECTORY", "")
        return Fence(
            request_mib=env.get("NVIDIA_GPU_MEMORY_REQUEST", ""),
            limit_mib=env.get(LIMIT, ""),
            pipe_dir=pipe,
            host_dir=await self.cri.exec(container, ["/bin/cat", f"{pipe}/{SIGN}"]) if pipe else "",
            visible_devices=env.get("NVIDIA_VISIBLE_DEVICES", ""),
            nodes=tuple(f"/dev/{name}" for name in nodes if name.startswith("nvidia")),
        )

    def _simulate_gpus(self) -> tuple[Gpu, ...]:
        gpus = make_gpus(self.base / "dev")
        write_cdi_spec(self.containerd.cdi_dir, gpus)
        for gpu in gpus:
            # The driver's own listing, so that the GPUs of the host, if it has some, do not count.
            listing = self._proc / f"driver/nvidia/gpus/0000:0{gpu.minor}:00.0"
            listing.mkdir(parents=True)
            (listing / "information").write_text(f"Model: \t\t simulated\nGPU UUID: \t {gpu.uuid}\n")
        return gpus

    def _put_up_signs(self) -> None:
        pipe_dir = self.fractiond.pipe_dir
        for directory in (pipe_dir, pipe_dir / "shared/default"):
            (directory / SIGN).write_text(str(directory))

    @property
    def _proc(self) -> Path:
        return self.base / "proc"

    def _all_flags(self) -> list[str]:
        cdi = ["--inject-cdi-device", f"--cdi-spec-dirs={self.containerd.cdi_dir}", f"--proc-root={self._proc}"]
        return [*cdi, "--stop-timeout=5s", *self._flags]
