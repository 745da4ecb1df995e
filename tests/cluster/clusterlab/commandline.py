"""
The command line of scripts/cluster, whose head is its help.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.errors import LabError

from clusterlab.client import NODES, Client, condition
from clusterlab.cluster import Cluster
from clusterlab.errors import NotUp
from clusterlab.placement import NODE_CONDITION
from clusterlab.programs import program

_MIB = 1 << 20


def main() -> None:
    """
    Do what the arguments say; a failure is one message and status 1.
    """
    command, *arguments = sys.argv[1:]
    cluster = Cluster.at()
    try:
        if command == "kubectl":
            _kubectl(cluster, arguments)
        asyncio.run(_do(cluster, command, arguments))
    except BrokenPipeError:
        # Whoever read the output has enough; the interpreter's last flush must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except LabError as error:
        sys.exit(f"cluster: {error}")
    except BaseExceptionGroup as group:
        first = _first(group)
        if not isinstance(first, LabError):
            raise
        sys.exit(f"cluster: {first}")


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """
    Give the first of several errors that came together: the others are its consequence.
    """
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


async def _do(cluster: Cluster, command: str, arguments: Sequence[str]) -> None:
    match command:
        case "up":
            await cluster.up(lambda line: print(line, flush=True))
            print(f"try: scripts/cluster kubectl get nodes, or KUBECONFIG={cluster.layout.kubeconfig}")
        case "down":
            await cluster.down()
        case "status":
            await _status(cluster)
        case "load":
            for name in arguments:
                loaded = await cluster.load(Path(name))
                print("\n".join(loaded) or f"{name}: nothing new")


def _kubectl(cluster: Cluster, arguments: Sequence[str]) -> None:
    if not cluster.layout.kubeconfig.exists():
        raise NotUp(cluster.layout.base)
    os.environ["KUBECONFIG"] = str(cluster.layout.kubeconfig)
    os.execv(program("kubectl"), ["kubectl", *arguments])  # noqa: S606 - becomes it


async def _status(cluster: Cluster) -> None:
    """
    Print every part with its memory, and the nodes.
    """
    if not cluster.layout.base.exists():
        raise NotUp(cluster.layout.base)
    for path in sorted(cluster.layout.pids.glob("*")):
        pid = cluster.parts.pid(path.name)
        state = f"process {pid}" if pid else "does not run"
        print(f"{path.name:26} {state}{_memory(cluster, path.name, pid)}")
    async with cluster.admin() as api:
        for node in await Client(api).list(NODES):
            ready = condition(node, "Ready") or {}
            fractions = condition(node, NODE_CONDITION) or {}
            told = f"gpu-fractioning {fractions['status']} ({fractions['reason']})" if fractions else ""
            print(f"{node['metadata']['name']:26} Ready {ready.get('status', 'Unknown'):8} {told}".rstrip())


def _memory(cluster: Cluster, name: str, pid: int | None) -> str:
    if pid is None:
        return ""
    workers = {one.part: one for one in cluster.running_workers()}
    if name not in workers:
        return f", {_resident_mib(pid)} MiB"
    parts = {part: _resident_mib(workers[name].pid_of(part)) for part in ("containerd", "kubelet")}
    return "".join(f", {part} {mib} MiB" for part, mib in parts.items())


def _resident_mib(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // _MIB
