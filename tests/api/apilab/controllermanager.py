"""
kube-controller-manager with the few controllers that these tests need: it turns DaemonSets into pods and takes away
what belongs to nobody.

No node lifecycle controller: nobody renews the leases of nodes that do not exist. No job and no deployment controller:
`jobs` and `controller` run the programs themselves, as whom the manifests say.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

from lab.process import Service

from apilab.controlplane import ControlPlane, program

_CONTROLLERS = (
    "daemonset-controller",
    "serviceaccount-controller",
    "root-ca-certificate-publisher-controller",
    "namespace-controller",
    "garbage-collector-controller",
)


class ControllerManager:
    """
    Runs while entered, for a control plane whose API server may come and go.
    """

    def __init__(self, plane: ControlPlane) -> None:
        argv: list[str | Path] = [
            program("kube-controller-manager"),
            f"--kubeconfig={plane.kubeconfig}",
            f"--controllers={','.join(_CONTROLLERS)}",
            f"--root-ca-file={plane.certificates.ca}",
            "--leader-elect=false",
            # It serves nothing: who wants to know looks at what it does.
            "--secure-port=0",
            # Its own limit of 20 requests a second would set the pace of every test.
            "--kube-api-qps=2000",
            "--kube-api-burst=4000",
        ]
        self.service = Service("kube-controller-manager", argv, directory=plane.directory)

    async def __aenter__(self) -> Self:
        await self.service.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.service.end()

    async def restart(self) -> None:
        """
        End it and start it anew, so that it waits for nothing.
        """
        await self.service.end()
        await self.service.__aenter__()
