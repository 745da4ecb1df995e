"""
Whether this machine can run a cluster, found out before anything is made.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from lab import toolchain
from lab.errors import MissingToolchain
from simgpu import programs
from simgpu.programs import MissingDriver

from clusterlab.errors import NotPossibleHere
from clusterlab.programs import network_plugin, program

_PROGRAMS = ("ip", "nsenter", "unshare", "openssl", "bash", "mount")
_BUILT = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl")
_NAMESPACES = ("net", "mnt", "pid", "uts")
_CONTROLLERS = ("cpu", "cpuset", "memory", "pids")


def check() -> None:
    """
    Find out.

    Raises:
        NotPossibleHere: It cannot, for all the reasons that are given.
    """
    lacks = list(_iter_lacks())
    if lacks:
        raise NotPossibleHere(lacks)


def _iter_lacks() -> Iterator[str]:
    if os.geteuid() != 0:
        # The rest would only be in the way.
        yield f"root is needed to make namespaces, mounts and cgroups; this is user {os.geteuid()}"
        return
    for name in _PROGRAMS:
        if shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
            yield f"the program {name} is not on the PATH"
    for kind in _NAMESPACES:
        if not Path(f"/proc/self/ns/{kind}").exists():
            yield f"the kernel has no {kind} namespaces"
    if "overlay" not in Path("/proc/filesystems").read_text().split():
        yield "the kernel has no overlay file system"
    for controller in _CONTROLLERS:
        if not _has_controller(controller):
            yield f"the cgroup controller {controller} is not to be had at /sys/fs/cgroup"
    yield from _iter_missing_programs()


def _has_controller(name: str) -> bool:
    root = Path("/sys/fs/cgroup")
    if (root / name / "cgroup.procs").exists():
        return True
    listed = root / "cgroup.controllers"
    return listed.exists() and name in listed.read_text().split()


def _iter_missing_programs() -> Iterator[str]:
    try:
        toolchain.locate("2.3")
        for name in _BUILT:
            program(name)
        for name in ("bridge", "host-local", "loopback"):
            network_plugin(name)
        programs.locate()
    except (MissingToolchain, MissingDriver) as error:
        yield str(error).partition(";")[0] + "; make it with: scripts/toolchain cluster"
