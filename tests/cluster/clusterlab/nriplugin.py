"""
A stand-in for the NRI plugin of the GPU Operator: gives daemons the CDI devices that their pods' annotations name.

    python -m clusterlab.nriplugin NAMESPACE…

A pod of another namespace gets nothing, and is not told, as with the real one.
"""

from __future__ import annotations

import asyncio
import sys

import nri_aio
from nri_aio.pb import nri_pb2 as pb

SYNCHRONIZED = "synchronized"
_PREFIX = "nvidia.cdi.k8s.io/container."


class ManagementDevices(nri_aio.Plugin):
    """
    The plugin.

    Args:
        namespaces: Whose pods may have devices by annotation.
    """

    def __init__(self, namespaces: frozenset[str]) -> None:
        self._namespaces = namespaces

    def synchronized(self) -> None:
        """
        Say that containers get their devices from now on.
        """
        print(SYNCHRONIZED, flush=True)

    def create_container(
        self, request: pb.CreateContainerRequest, call: nri_aio.Call
    ) -> pb.CreateContainerResponse | None:
        """
        Add what the annotation names.
        """
        names = request.pod.annotations.get(f"{_PREFIX}{request.container.name}", "")
        if not names or request.pod.namespace not in self._namespaces:
            return None
        devices = [pb.CDIDevice(name=name) for name in names.split(",")]
        return pb.CreateContainerResponse(adjust=pb.ContainerAdjustment(CDI_devices=devices))


def main() -> None:
    """
    Serve for ever.
    """
    asyncio.run(nri_aio.run(ManagementDevices(frozenset(sys.argv[1:])), name="simulated-gpu-operator", index="05"))


if __name__ == "__main__":
    main()
