"""
Which workers a cluster has: two with simulated GPUs, and one without.
"""

from __future__ import annotations

import attrs

GPUS_PER_WORKER = 2
GPU_MEMORY_BYTES = 40960 << 20


@attrs.frozen
class Worker:
    """
    One worker.

    Args:
        name: Of the node.
        number: Of its addresses.
        gpus: The UUIDs of its GPUs, by minor.
    """

    name: str
    number: int
    gpus: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """
        Of the node.
        """
        return f"172.30.0.{self.number + 1}"

    @property
    def pod_subnet(self) -> str:
        """
        Of its pods.
        """
        return f"10.244.{self.number}.0/24"


def _with_gpus(name: str, number: int) -> Worker:
    # UUIDs of its own: whoever looks at all of this machine's processes must not mistake one worker's for another's.
    uuids = (f"GPU-{number:08x}-51b0-4c0e-9f00-{minor:012x}" for minor in range(GPUS_PER_WORKER))
    return Worker(name, number, tuple(uuids))


WORKERS = (_with_gpus("gpu-1", 1), _with_gpus("gpu-2", 2), Worker("plain-1", 3))
