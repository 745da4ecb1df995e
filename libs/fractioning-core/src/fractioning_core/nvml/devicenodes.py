"""
Ends a service when its container has lost the right to the GPU's device nodes.

A reload of the host's systemd, among others, takes them from running containers: NVML then fails for good in this
container though the host is fine, and only a new container gets them back. That differs from a broken driver in one
thing: the control node cannot be opened, with EPERM.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path

import attrs
import structlog

from fractioning_core.errors import Unavailable, escaped

CONTROL_NODE = "nvidiactl"
INTERVAL_SECONDS = 30.0
# So many refusals in a row: a single one may fall into the moment in which somebody rewrites the device rules.
REFUSALS = 3


@attrs.frozen(auto_exc=False)
class DevicesRevoked(Unavailable):
    """
    This container may no longer open the GPU's device nodes.
    """

    path: str
    driver_reason: str

    def __str__(self) -> str:
        return (
            f"{escaped(self.path, 200)} may not be opened (EPERM) while NVML fails ({self.driver_reason}): "
            "the container lost its device permissions and has to be re-created; exiting for that"
        )


class DeviceNodes:
    """
    The watch on the control node.

    Args:
        dev_root: Where device nodes are.
        driver_reason: Says what is wrong with the driver; empty when nothing is, and then no node is looked at.
        opener: Opens a path and gives a file descriptor; blocks.
    """

    def __init__(self, dev_root: Path, *, driver_reason: Callable[[], str], opener: Callable[[Path], int]) -> None:
        self._path = dev_root / CONTROL_NODE
        self._driver_reason = driver_reason
        self._opener = opener

    async def run(self) -> None:
        """
        Look at the node while NVML fails.

        Raises:
            DevicesRevoked: it may not be opened any more.
        """
        refusals = 0
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            reason = self._driver_reason()
            is_refused = bool(reason) and await asyncio.to_thread(self._is_refused)
            refusals = refusals + 1 if is_refused else 0
            if refusals:
                structlog.get_logger().error("device_node_refused", path=str(self._path), times=refusals)
            if refusals >= REFUSALS:
                raise DevicesRevoked(str(self._path), reason)

    def _is_refused(self) -> bool:
        try:
            os.close(self._opener(self._path))
        except OSError as error:
            return error.errno == errno.EPERM
        return False


def open_node(path: Path) -> int:
    """
    Open a device node as NVML does.
    """
    return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
