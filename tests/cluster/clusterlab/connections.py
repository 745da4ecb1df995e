"""
The TCP ends of a pod's network, as the kernel lists them for a process in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_LISTEN = 0x0A
_FILES = ("tcp", "tcp6")


def listening(pid: int) -> frozenset[int]:
    """
    List the ports that are listened on, by whichever process of the pod.
    """
    return frozenset(port for port, state in _ends(pid) if state == _LISTEN)


def outgoing(pid: int) -> frozenset[int]:
    """
    List the local ports of connections that were made from inside.
    """
    served = listening(pid)
    return frozenset(port for port, _ in _ends(pid) if port not in served)


def _ends(pid: int) -> Iterator[tuple[int, int]]:
    for file in _FILES:
        for line in Path(f"/proc/{pid}/net/{file}").read_text().splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            yield int(local.rpartition(":")[2], 16), int(state, 16)
