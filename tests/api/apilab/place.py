"""
A node in a cluster, and the ServiceAccount of the daemon on it.

    place = await Place.make(plane, admin, tmp_path)
    await objects.grant(admin, place.account, PATCH_NODES)
    async with place.mpsd(tmp_path) as mpsd:
        await place.labelled("615")
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import attrs
from fractioning_core import names
from fractioning_core.kube.transport import Transport
from lab import waiting
from lab.mpsd import Mpsd
from simgpu.state import Machine

from apilab import objects
from apilab.controlplane import ControlPlane
from apilab.objects import Rule, ServiceAccount
from apilab.pod import Pod

PATCH_NODES = Rule(verbs=("patch",), resources=("nodes",))
LABEL_SECONDS = 20.0

_numbers = itertools.count()


@attrs.frozen
class Place:
    """
    One node, and who labels it.
    """

    admin: Transport
    account: ServiceAccount
    node: str
    pod: Pod

    @classmethod
    async def make(cls, plane: ControlPlane, admin: Transport, directory: Path) -> Self:
        """
        Make a node with a few labels, and an account without any right yet.

        Args:
            plane: The cluster.
            admin: The way in; it is used later, too.
            directory: Where the pod's files go.
        """
        number = next(_numbers)
        node = f"node-{number}"
        labels = {"nvidia.com/gpu.present": "true", "kubernetes.io/hostname": node}
        await objects.create_node(admin, node, labels=labels)
        account = await objects.create_account(admin, f"gpu-fractioning-{number}", "daemon")
        token = await objects.issue_token(admin, account)
        pod = Pod(directory / "account", url=plane.account.url, ca=plane.certificates.ca, token=token)
        return cls(admin, account, node, pod)

    def mpsd(
        self,
        directory: Path,
        *,
        flags: Sequence[str] = (),
        machine: Machine | None = None,
        seen: Mapping[Path, Path] | None = None,
    ) -> Mpsd:
        """
        Give mpsd as it is started in a pod on the node; enter it.
        """
        return Mpsd(
            directory=directory,
            flags=[f"--node-name={self.node}", *flags],
            environ=self.pod.environ,
            machine=machine,
            seen={**self.pod.seen, **(seen or {})},
        )

    async def label(self) -> str | None:
        """
        Read the driver's label from the API server.
        """
        return (await objects.node_labels(self.admin, self.node)).get(names.DRIVER_LABEL)

    async def labelled(self, value: str, *, timeout_seconds: float = LABEL_SECONDS) -> None:
        """
        Wait until the label has a value.
        """

        async def is_there() -> bool:
            return await self.label() == value

        await waiting.until_awaited(is_there, what=f"the label {value} on {self.node}", timeout_seconds=timeout_seconds)

    async def label_writers(self) -> set[str]:
        """
        Name those who have written the driver's label, as it is now.
        """
        entries = (await objects.read_node(self.admin, self.node))["metadata"]["managedFields"]
        label = f"f:{names.DRIVER_LABEL}"
        return {
            entry["manager"]
            for entry in entries
            if label in entry["fieldsV1"].get("f:metadata", {}).get("f:labels", {})
        }

    async def driver_problem(self) -> str:
        """
        Read what mpsd says on the node about its driver; empty for nothing.
        """
        annotations = (await objects.read_node(self.admin, self.node))["metadata"].get("annotations", {})
        text: str = annotations.get(names.DRIVER_PROBLEM_ANNOTATION, "")
        return text
