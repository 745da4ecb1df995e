"""
Where everything of one cluster is.

All of it is below one directory but for cgroups, whose names begin with a word made of that directory's path. A worker
sees parts of its own directory as `/run`, `/var/lib` and `/var/log`, so that its sockets have the usual, short paths.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import attrs
from lab import toolchain

DEFAULT = Path(os.environ.get("CLUSTER_DIR") or toolchain.REPOSITORY / ".cache" / "cluster").resolve()
"""
The one that is meant where none is named; the variable `CLUSTER_DIR` lets there be several.
"""


@attrs.frozen
class WorkerLayout:
    """
    The files of one worker, as this machine sees them.
    """

    base: Path

    @property
    def run(self) -> Path:
        """
        Its `/run`.
        """
        return self.base / "run"

    @property
    def lib(self) -> Path:
        """
        Its `/var/lib`.
        """
        return self.base / "lib"

    @property
    def log(self) -> Path:
        """
        Its `/var/log`, which holds what its containerd and its kubelet write, too.
        """
        return self.base / "log"

    @property
    def etc(self) -> Path:
        """
        What its own programs are configured with.
        """
        return self.base / "etc"

    @property
    def holds(self) -> Path:
        """
        Files called as programs that are not to run.
        """
        return self.base / "holds"

    @property
    def simgpu(self) -> Path:
        """
        The simulated driver's files, which the worker has at `nvidia.ROOT`.
        """
        return self.run / "simgpu"


@attrs.frozen
class Layout:
    """
    The files of a cluster.
    """

    base: Path = DEFAULT

    @property
    def word(self) -> str:
        """
        What the names of its cgroups begin with.
        """
        return "gfc" + hashlib.sha256(str(self.base).encode()).hexdigest()[:6]

    @property
    def pki(self) -> Path:
        """
        Certificates and tokens.
        """
        return self.base / "pki"

    @property
    def log(self) -> Path:
        """
        What each part writes.
        """
        return self.base / "log"

    @property
    def pids(self) -> Path:
        """
        Process ids by part.
        """
        return self.base / "pids"

    @property
    def port(self) -> Path:
        """
        The port on which the gateway listens.
        """
        return self.base / "port"

    @property
    def kubeconfig(self) -> Path:
        """
        An administrator's way in from this machine.
        """
        return self.base / "kubeconfig"

    def kubeconfig_of(self, user: str) -> Path:
        """
        The way in of a part of the cluster.
        """
        return self.base / "kubeconfigs" / user

    def worker(self, name: str) -> WorkerLayout:
        """
        The files of a worker.
        """
        return WorkerLayout(self.base / "workers" / name)

    def cgroup(self, worker: str) -> str:
        """
        The cgroup of all pods of a worker.
        """
        return f"/{self.word}-{worker}"
