"""
The cluster's network: a bridge beside the control plane, and a cable from it to each worker.

The address of the service `kubernetes` is one of the control plane's own, and pods come to it by plain routes; nothing
here needs kube-proxy. A network namespace is named by a process in it, and is gone with the last one.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from lab import waiting

from clusterlab import command
from clusterlab.workers import Worker

SERVICE_ADDRESS = "10.96.0.1"
SERVICE_RANGE = "10.96.0.0/16"
PLANE_ADDRESS = "172.30.0.1"
_BRIDGE = "nodes"
_WAIT_SECONDS = 10.0


def inside(pid: int) -> list[str]:
    """
    Give the words that run a program in the network of a process.
    """
    # Not `ip netns exec`, which mounts a /sys of its own that has no cgroups.
    return ["nsenter", f"--net=/proc/{pid}/ns/net", "--"]


def is_same(pid: int, other: int) -> bool:
    """
    Tell whether two processes are in the same network; one that has ended is in none.
    """
    with suppress(FileNotFoundError, ProcessLookupError):
        return _namespace(pid) == _namespace(other)
    return False


async def make_plane(pid: int) -> None:
    """
    Make the control plane's side.
    """
    await _script(
        pid,
        "ip link set lo up",
        f"ip addr add {SERVICE_ADDRESS}/32 dev lo",
        f"ip link add {_BRIDGE} type bridge",
        f"ip addr add {PLANE_ADDRESS}/24 dev {_BRIDGE}",
        f"ip link set {_BRIDGE} up",
        # Somewhere to go by default, without which servers find no address of their own.
        f"ip route add default dev {_BRIDGE}",
        "echo 1 > /proc/sys/net/ipv4/ip_forward",
    )


async def connect(plane_pid: int, worker_pid: int, worker: Worker) -> None:
    """
    Lay the cable to a worker.
    """
    plug = f"w{worker.number}"
    await waiting.until(
        lambda: _namespace(worker_pid) != _namespace(plane_pid) and _namespace(worker_pid) != _namespace("self"),
        what=f"the network namespace of {worker.name}",
        timeout_seconds=_WAIT_SECONDS,
    )
    await _script(
        plane_pid,
        # The cable of a worker that has lost its power goes some time after its last process.
        f"ip link del {plug} 2>/dev/null || true",
        f"ip link add {plug} type veth peer name eth0 netns {worker_pid}",
        f"ip link set {plug} master {_BRIDGE} up",
        f"ip route replace {worker.pod_subnet} via {worker.address}",
    )
    await _script(
        worker_pid,
        "ip link set lo up",
        f"ip addr add {worker.address}/24 dev eth0",
        "ip link set eth0 up",
        f"ip route add default via {PLANE_ADDRESS}",
        "echo 1 > /proc/sys/net/ipv4/ip_forward",
    )


async def _script(pid: int, *lines: str) -> None:
    await command.run(*inside(pid), "sh", "-ec", "\n".join(lines))


def _namespace(process: int | str) -> int:
    return Path(f"/proc/{process}/ns/net").stat().st_ino
