"""
A private containerd: its own directory, sockets, cgroup and images, and nothing left of it afterwards.

    async with Containerd("2.3") as containerd:
        async with containerd.cri() as cri: ...
        await containerd.stop(signal.SIGKILL)      # containers live on, as they do on a node
        await containerd.start()

Whatever happens inside, leaving the context ends every process it led to, unmounts, and removes cgroups and files.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from lab import config, image, sweep, toolchain, waiting
from lab.config import Layout, Timeouts
from lab.cri import Cri
from lab.errors import CommandFailed, CriError, Died

_START_SECONDS = 30.0
_STOP_SECONDS = 20.0
_NAMESPACE = "k8s.io"
# CRI marks an image with this label once it has taken note of it; before, it would try to pull it.
_KNOWN_IMAGE = "io.cri-containerd.image=managed"


class Containerd:
    """
    One containerd of a given version.

    It belongs to no event loop, so that a fixture with one loop may start it for tests that have others.

    Args:
        version: `2.3` or `2.1`, as made by `scripts/toolchain`.
        request_timeout: How long it waits for a plugin's answer, a Go duration; containerd's own default.
        registration_timeout: How long a plugin that connected may take to register; likewise.
        environ: Variables it gets beside its PATH.
        images: What is imported beside the pause and busybox images.
        has_validator: Whether its own validator of plugins' adjustments is on; 2.3 only.
    """

    def __init__(
        self,
        version: str,
        *,
        request_timeout: str = "2s",
        registration_timeout: str = "5s",
        environ: Mapping[str, str] | None = None,
        images: Sequence[image.Image] = (),
        has_validator: bool = False,
    ) -> None:
        self.version = version
        self._binaries = toolchain.locate(version)
        self._timeouts = Timeouts(registration=registration_timeout, request=request_timeout)
        self._has_validator = has_validator
        self._environ = dict(environ or {})
        self._images = (image.PAUSE, image.BUSYBOX_IMAGE, *images)
        self._process: subprocess.Popen[bytes] | None = None
        self._stack = AsyncExitStack()
        # A short name at a short place: a socket path may have no more than 107 bytes.
        self.layout = Layout(Path("/tmp") / f"lab-{secrets.token_hex(4)}")

    @property
    def cgroup(self) -> str:
        """
        The cgroup that holds all its pods and nothing else.
        """
        return f"/{self.layout.base.name}"

    @property
    def nri_socket(self) -> Path:
        """
        Where plugins connect. Connecting merely to look would block other plugins for seconds.
        """
        return self.layout.nri_socket

    @property
    def cri_socket(self) -> Path:
        """
        Where it serves CRI.
        """
        return self.layout.cri_socket

    @property
    def cdi_dir(self) -> Path:
        """
        Where it looks for CDI specs.
        """
        return self.layout.cdi_dir

    @property
    def pid(self) -> int:
        """
        Its process id.
        """
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """
        Whether its process is there, be it stopped by a signal.
        """
        return self._process is not None and self._process.poll() is None

    def cri(self) -> Cri:
        """
        Make a driver for it, to be entered as a context.
        """
        return Cri(self.cri_socket, cgroup_parent=self.cgroup)

    def log_text(self) -> str:
        """
        Read what it has written so far, over all starts.
        """
        return self.layout.log.read_text(errors="replace")

    async def __aenter__(self) -> Self:
        self._prepare()
        async with AsyncExitStack() as stack:
            # Undone in reverse order, each step even when another failed.
            stack.callback(shutil.rmtree, self.layout.base)
            stack.push_async_callback(sweep.remove_cgroups, self.cgroup)
            stack.push_async_callback(sweep.remove_mounts, self.layout.base)
            stack.push_async_callback(self._end_processes)
            await self.start()
            await self._import_images()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def start(self) -> None:
        """
        Start it, and return once CRI answers and plugins can connect.

        Raises:
            Died: It ended at once; the error holds the end of its log.
            Overdue: It did not answer in time.
        """
        self._process = self._spawn()
        await self._wait_until_ready()

    async def stop(self, signum: signal.Signals = signal.SIGTERM) -> None:
        """
        End it with a signal and wait until it is gone; its containers stay.
        """
        process = self._running()
        process.send_signal(signum)
        await waiting.until(
            lambda: process.poll() is not None, what=f"containerd to obey {signum.name}", timeout_seconds=_STOP_SECONDS
        )
        self._process = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise Died("containerd", None, self.log_text())
        return self._process

    def _prepare(self) -> None:
        self.layout.base.mkdir(mode=0o700)
        for directory in (self.layout.cdi_dir, self.layout.plugin_dir):
            directory.mkdir()
        self.layout.config.write_text(config.render(self.layout, self._timeouts, has_validator=self._has_validator))

    def _spawn(self) -> subprocess.Popen[bytes]:
        environ = {"PATH": self._binaries.search_path, **self._environ}
        with self.layout.log.open("ab") as log:
            return subprocess.Popen(
                [self._binaries.containerd, "--config", self.layout.config], env=environ, stdout=log, stderr=log
            )

    async def _wait_until_ready(self) -> None:
        # The sockets of the run before are still there until this one replaces them, so that only an answer counts.
        await waiting.until_awaited(
            self._answers, what="CRI to answer", timeout_seconds=_START_SECONDS, details=self.log_text
        )
        await waiting.until(
            self.nri_socket.is_socket, what="the NRI socket", timeout_seconds=_START_SECONDS, details=self.log_text
        )

    async def _answers(self) -> bool:
        process = self._running()
        if process.poll() is not None:
            raise Died("containerd", process.returncode, self.log_text())
        async with self.cri() as cri:
            try:
                # Version answers from the first moment on; a list only when CRI is initialised.
                await cri.list_pods()
            except CriError:
                return False
        return True

    async def _import_images(self) -> None:
        archive = self.layout.base / "images.tar"
        await asyncio.to_thread(image.write_archive, self._images, archive)
        await self._ctr("images", "import", str(archive))
        await waiting.until_awaited(
            self._knows_images, what="CRI to note the images", timeout_seconds=_START_SECONDS, details=self.log_text
        )

    async def _knows_images(self) -> bool:
        lines = (await self._ctr("images", "list")).splitlines()
        known = {line.split()[0] for line in lines if _KNOWN_IMAGE in line}
        return known >= {image.name for image in self._images}

    async def _ctr(self, *arguments: str) -> str:
        argv = (str(self._binaries.ctr), "--address", str(self.cri_socket), "--namespace", _NAMESPACE, *arguments)
        done = await asyncio.to_thread(subprocess.run, argv, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CommandFailed(argv, done.returncode, done.stderr)
        return done.stdout

    async def _end_processes(self) -> None:
        if self._process is not None:
            await self.stop(signal.SIGKILL)
        sockets = sweep.shim_sockets(self.layout.state)
        await sweep.kill_containers(self.cgroup)
        await sweep.kill_shims(self.cri_socket)
        sweep.remove_sockets(sockets)
