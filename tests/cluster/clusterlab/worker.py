"""
One worker: a process with namespaces of its own, in which init.sh keeps containerd and kubelet running.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

import attrs
from lab import image, sweep, toolchain, waiting
from lab.errors import CommandFailed, Died, LabError
from lab.toolchain import Binaries

from clusterlab import command, configs, network, nvidia
from clusterlab.layout import Layout, WorkerLayout
from clusterlab.parts import Parts
from clusterlab.programs import program
from clusterlab.workers import Worker

CONTAINERD = "containerd"
KUBELET = "kubelet"
VERSION = "2.3"
GPU_LABELS = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.deploy.client": "true"}
_INIT = Path(__file__).with_name("init.sh")
# The worker's first process is the child of the one that is known here.
_NAMESPACES = {"mount": "mnt", "net": "net", "uts": "uts", "pid": "pid_for_children"}
_START_SECONDS = 60.0
_END_SECONDS = 30.0
_CGROUPS = Path("/sys/fs/cgroup")
# CRI marks an image with this label once it has taken note of it; before, the kubelet would try to pull it.
KNOWN_IMAGE = "io.cri-containerd.image=managed"


@attrs.frozen
class RunningWorker:
    """
    A worker of the cluster in one directory, be it up or down.
    """

    worker: Worker
    layout: Layout
    parts: Parts

    @property
    def files(self) -> WorkerLayout:
        """
        Its files.
        """
        return self.layout.worker(self.worker.name)

    @property
    def part(self) -> str:
        """
        What its first process is called among the cluster's.
        """
        return f"worker-{self.worker.name}"

    @property
    def cgroup(self) -> str:
        """
        The cgroup of its pods.
        """
        return self.layout.cgroup(self.worker.name)

    @property
    def pid(self) -> int:
        """
        The process whose namespaces are the worker's.
        """
        pid = self.parts.pid(self.part)
        if pid is None:
            raise Died(self.part, None, self.output())
        return pid

    def output(self) -> str:
        """
        Read what its parts wrote, the end of each.
        """
        logs = [self.parts.log(self.part), *sorted(self.files.log.glob("*.log"))]
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}" for log in logs if log.exists())

    def prepare(self) -> None:
        """
        Make its files; for a worker that was there before, its containerd and kubelet find what they had left.
        """
        files = self.files
        for directory in (files.run, files.lib, files.log, files.etc / "cni", files.holds):
            directory.mkdir(parents=True, exist_ok=True)
        for name in ("etc-upper", "etc-work"):
            (files.base / name).mkdir(exist_ok=True)
        runtime = nvidia.prepare(self.worker, files)
        (files.etc / "containerd.toml").write_text(
            configs.containerd(network=files.etc / "cni", runtime=runtime, pause=image.PAUSE.name)
        )
        (files.etc / "cni" / "10-pods.conflist").write_text(configs.network(self.worker))
        (files.etc / "kubelet.yaml").write_text(configs.kubelet(cgroup=self.cgroup, ca=self.layout.pki / "ca.crt"))
        make_cgroups(self.cgroup)

    async def start(self, plane_pid: int) -> None:
        """
        Start it, with a containerd that answers; the kubelet is held back until `release`.
        """
        self.hold(KUBELET)
        binaries = _binaries()
        search_path = f"{binaries.search_path}:/usr/lib/cni"
        self.parts.spawn(
            self.part,
            [
                *("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--uts", "--kill-child"),
                *("bash", _INIT, self.worker.name, self.files.base, binaries.containerd, *self._kubelet_argv()),
            ],
            environ={"PATH": search_path, "GOTRACEBACK": "crash"},
        )
        await network.connect(plane_pid, self.pid, self.worker)
        await self.containerd_answers()

    async def stop(self) -> None:
        """
        End it as a power failure would: every process in it, at once; its disk stays.
        """
        inside = {pid for pid in self.parts.pids() if network.is_same(pid, self.pid)}
        await self.parts.end(self.part)
        # The kernel ends the others after their first one, each in its own time.
        await waiting.until(
            lambda: inside.isdisjoint(self.parts.pids()),
            what=f"processes of {self.worker.name} to end",
            timeout_seconds=_END_SECONDS,
        )
        await sweep.remove_cgroups(self.cgroup)
        # What was in memory is gone.
        shutil.rmtree(self.files.run)

    def hold(self, name: str) -> None:
        """
        Do not let containerd or kubelet start again once it has ended.
        """
        (self.files.holds / name).touch()

    def release(self, name: str) -> None:
        """
        Let it start again.
        """
        (self.files.holds / name).unlink(missing_ok=True)

    async def containerd_answers(self) -> None:
        """
        Wait until containerd serves.
        """

        async def answers() -> bool:
            try:
                await self.ctr("version")
            except CommandFailed:
                return self.pid < 0
            return True

        await waiting.until_awaited(
            answers,
            what=f"containerd of {self.worker.name}",
            timeout_seconds=_START_SECONDS,
            details=self.output,
        )

    async def load(self, archive: Path) -> Sequence[str]:
        """
        Import the images of an archive; gives their names.
        """
        before = await self.images()
        await self.ctr("--namespace=k8s.io", "images", "import", archive.resolve())

        async def known() -> set[str] | None:
            listed = await self.ctr("--namespace=k8s.io", "images", "list")
            lines = [line for line in listed.splitlines()[1:] if line]
            return {line.split()[0] for line in lines} if all(KNOWN_IMAGE in line for line in lines) else None

        now = await waiting.until_awaited(
            known, what=f"CRI of {self.worker.name} to note {archive.name}", timeout_seconds=_START_SECONDS
        )
        return sorted(now - before)

    async def images(self) -> set[str]:
        """
        Name the images that it has.
        """
        return set((await self.ctr("--namespace=k8s.io", "images", "list", "--quiet")).split())

    async def ctr(self, *arguments: str | Path) -> str:
        """
        Run containerd's own command line in the worker.
        """
        return await self.run(_binaries().ctr, *arguments)

    async def run(self, *argv: str | Path) -> str:
        """
        Run a program as one of the worker's own; gives its output.
        """
        pid = self.pid
        namespaces = [f"--{word}=/proc/{pid}/ns/{kind}" for word, kind in _NAMESPACES.items()]
        return await command.run("nsenter", *namespaces, "--", *argv)

    def pid_of(self, name: str) -> int:
        """
        Give the process of its containerd or kubelet, as this machine sees it.

        Raises:
            LabError: It does not run.
        """
        for pid in self.parts.pids():
            arguments = _command_line(pid)
            if arguments[0].endswith(f"/{name}".encode()) and str(self.files.base).encode() in b"\0".join(arguments):
                return pid
        raise LabError(f"{name} of {self.worker.name} does not run")

    async def restart(self, name: str, *, signum: signal.Signals = signal.SIGKILL) -> None:
        """
        End containerd or kubelet, and wait until another one runs; containers stay.
        """
        former = self.pid_of(name)
        os.kill(former, signum)

        def find() -> bool:
            try:
                return self.pid_of(name) != former
            except LabError:
                return False

        await waiting.until(find, what=f"another {name} on {self.worker.name}", timeout_seconds=_START_SECONDS)
        if name == CONTAINERD:
            await self.containerd_answers()

    def _kubelet_argv(self) -> list[str | Path]:
        labels = [f"{key}={value}" for key, value in GPU_LABELS.items()] if self.worker.gpus else []
        return [
            program(KUBELET),
            f"--config={self.files.etc / 'kubelet.yaml'}",
            f"--kubeconfig={self.layout.kubeconfig_of(self.worker.name)}",
            f"--hostname-override={self.worker.name}",
            f"--node-ip={self.worker.address}",
            *([f"--node-labels={','.join(labels)}"] if labels else []),
        ]


def make_cgroups(cgroup: str) -> None:
    """
    Make the cgroup of a worker's pods: in every hierarchy of v1, or in the one of v2.
    """
    roots = [_CGROUPS, *(path for path in _CGROUPS.iterdir() if path.is_dir())]
    hierarchies = [path for path in roots if (path / "cgroup.procs").exists() and os.access(path, os.W_OK)]
    if hierarchies and hierarchies[0] == _CGROUPS:
        hierarchies = hierarchies[:1]
    for hierarchy in hierarchies:
        directory = hierarchy / cgroup.lstrip("/")
        directory.mkdir(exist_ok=True)
        if hierarchy.name == "cpuset":
            # On v1 a new one is empty, and takes no process until it has both.
            for file in ("cpuset.cpus", "cpuset.mems"):
                (directory / file).write_text((hierarchy / file).read_text())


def _command_line(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return [b""]


def _binaries() -> Binaries:
    return toolchain.locate(VERSION)
