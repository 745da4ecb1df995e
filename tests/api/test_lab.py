"""What the other tests in this folder rely on."""

from __future__ import annotations

from pathlib import Path

import pytest
from apilab import audit, objects
from apilab.controlplane import ControlPlane
from apilab.place import Place
from fractioning_core.kube.errors import Conflict, NotFound, Unauthorized
from fractioning_core.kube.incluster import ACCOUNT_DIR
from fractioning_core.kube.transport import Request, Transport
from lab import mounts
from lab.errors import LabError
from lab.process import Service


class TestAudit:
    """
    The log of what was asked.
    """

    def test_begun_anew(self, tmp_path: Path) -> None:
        """
        A log that became shorter is an error, since what was in it would count as nothing.
        """
        log = tmp_path / "audit.log"
        log.write_text("{}\n")

        with pytest.raises(LabError, match=r"has 3 bytes, and had 4"):
            audit.read(log, since=4)


class TestControlPlane:
    """
    Real servers.
    """

    async def test_version(self, admin: Transport) -> None:
        """
        The API server is the release that the toolchain pins.
        """
        answer = await admin.ask(Request("GET", "/version"))

        assert ("1", "34", "v1.34.4") == (answer["major"], answer["minor"], answer["gitVersion"])

    async def test_node(self, admin: Transport) -> None:
        """
        A node keeps the labels it is made with, and cannot be made twice.
        """
        await objects.create_node(admin, "lab-node", labels={"a": "b"})

        assert {"a": "b"} == await objects.node_labels(admin, "lab-node")
        with pytest.raises(Conflict):
            await objects.create_node(admin, "lab-node")

    async def test_missing_object(self, admin: Transport) -> None:
        """
        What does not exist is not found.
        """
        with pytest.raises(NotFound):
            await objects.read_node(admin, "nobody")

    async def test_restart(self, plane: ControlPlane, admin: Transport) -> None:
        """
        A restarted API server serves what it had stored.
        """
        await objects.create_node(admin, "lab-restart")
        await plane.stop()
        await plane.start()

        assert {} == await objects.node_labels(admin, "lab-restart")

    async def test_foreign_token(self, plane: ControlPlane) -> None:
        """
        A token that nobody issued is refused.
        """
        async with plane.with_token("made-up") as api:
            with pytest.raises(Unauthorized):
                await objects.read_node(api, "nobody")


class TestPod:
    """
    A program as in a pod.
    """

    async def test_account(self, place: Place, tmp_path: Path) -> None:
        """
        It finds its account where the kubelet mounts it, as the process that was started; this machine keeps its own.
        """
        before = ACCOUNT_DIR.exists()
        argv = [*mounts.words(place.pod.seen), "sh", "-c", 'echo "$(cat "$0/token") $$"', ACCOUNT_DIR]
        async with Service("reader", argv, directory=tmp_path) as reader:
            status = await reader.wait()

            assert (0, f"{place.pod.token} {reader.pid}\n") == (status, reader.output())
        assert before == ACCOUNT_DIR.exists()
