"""mpsd's label on a real API server, with the token and the one right that its ServiceAccount has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import certifi
import pytest_asyncio
from apilab import objects
from apilab.controlplane import ControlPlane
from apilab.front import Front
from apilab.place import PATCH_NODES, Place
from apilab.pod import Pod
from fractioning_core import names
from fractioning_core.kube.transport import Transport
from fractioning_core.service.backoff import Schedule
from lab import waiting
from mpsd import driverlabel
from mpsd.driverlabel import DriverLabel
from mpsd.driverstate import DriverProblem, DriverState, LabelProblem

# Sharper than in a cluster, so that an outage longer than the longest wait fits into a test.
RETRIES = Schedule(first=0.05, cap=0.2)
SECONDS = 20.0


@attrs.frozen
class Scene:
    """
    A node, a pod on it, and what is known of its driver.
    """

    admin: Transport
    account: objects.ServiceAccount
    node: str
    pod: Pod
    state: DriverState

    @asynccontextmanager
    async def labelling(self, *, node: str | None = None) -> AsyncIterator[None]:
        """
        Keep the label, as mpsd does.
        """
        async with driverlabel.labels_from(self.pod.environ, directory=self.pod.directory) as labels:
            label = DriverLabel(labels, node=self.node if node is None else node, state=self.state, retries=RETRIES)
            task = asyncio.create_task(label.run())
            try:
                yield
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def until(self, ask: Callable[[], bool], what: str) -> None:
        """
        Wait for a fact of the state.
        """
        await waiting.until(ask, what=what, timeout_seconds=SECONDS, details=lambda: repr(self.state))

    async def labelled(self, version: str) -> None:
        """
        Wait until the label is written for a version.
        """
        await self.until(lambda: self.state.label.version == version, f"the label for {version}")

    async def value(self) -> str | None:
        """
        Read the label from the API server.
        """
        return (await objects.node_labels(self.admin, self.node)).get(names.DRIVER_LABEL)

    async def annotation(self) -> str | None:
        """
        Read the annotation from the API server.
        """
        metadata = (await objects.read_node(self.admin, self.node))["metadata"]
        told: str | None = metadata.get("annotations", {}).get(names.DRIVER_PROBLEM_ANNOTATION)
        return told


@pytest_asyncio.fixture
async def scene(place: Place) -> Scene:
    """
    That of a place, on which nothing is known of the driver yet.
    """
    state = DriverState(asyncio.get_running_loop().time)
    return Scene(place.admin, place.account, place.node, place.pod, state)


def told(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """
    Take what a node says, without what the server counts and records.
    """
    counted = {"resourceVersion", "managedFields"}
    metadata = {key: value for key, value in node["metadata"].items() if key not in counted}
    return {**node, "metadata": metadata}


class TestLabel:
    """
    The label on the node.
    """

    async def test_one_label(self, scene: Scene) -> None:
        """
        With the right to patch nodes and no other, exactly one label of the node changes, under our name.
        """
        await objects.grant(scene.admin, scene.account, PATCH_NODES)
        before = await objects.read_node(scene.admin, scene.node)
        async with scene.labelling():
            scene.state.learn("615.43.02", 615)
            await scene.labelled("615.43.02")
        after = await objects.read_node(scene.admin, scene.node)
        metadata = before["metadata"]
        labels = {**metadata["labels"], names.DRIVER_LABEL: "615"}

        assert told({**before, "metadata": {**metadata, "labels": labels}}) == told(after)
        assert "gpu-fractioning-mpsd" in [entry["manager"] for entry in after["metadata"]["managedFields"]]

    async def test_upgrade(self, scene: Scene) -> None:
        """
        Another version replaces the label's value.
        """
        await objects.grant(scene.admin, scene.account, PATCH_NODES)
        async with scene.labelling():
            scene.state.learn("615.43.02", 615)
            await scene.labelled("615.43.02")
            scene.state.learn("620.10.01", 620)
            await scene.labelled("620.10.01")

        assert "620" == await scene.value()

    async def test_trouble(self, scene: Scene) -> None:
        """
        A driver in trouble is told of in an annotation, which goes with the trouble.
        """
        await objects.grant(scene.admin, scene.account, PATCH_NODES)
        async with scene.labelling():
            scene.state.doubt(DriverProblem.MISMATCH, "library 620, module 615; reboot the node")
            told = await waiting.until_awaited(scene.annotation, what="the annotation", timeout_seconds=SECONDS)
            during = await scene.value()
            scene.state.learn("620.10.01", 620)
            await scene.labelled("620.10.01")

        assert ("library 620, module 615; reboot the node", None, "620", None) == (
            told,
            during,
            await scene.value(),
            await scene.annotation(),
        )


class TestRefusal:
    """
    What keeps the label from being written.
    """

    async def test_no_right(self, scene: Scene) -> None:
        """
        A missing right is told in the server's words, and the label follows when the right is given.
        """
        async with scene.labelling():
            scene.state.learn("615.43.02", 615)
            await scene.until(lambda: scene.state.label.problem is not None, "a refusal")
            refusal = scene.state.label
            await objects.grant(scene.admin, scene.account, PATCH_NODES)
            await scene.labelled("615.43.02")

        assert (
            LabelProblem.FORBIDDEN,
            (
                f'PATCH /api/v1/nodes/{scene.node}: 403 from the API server: nodes \\"{scene.node}\\" is forbidden: '
                f'User \\"system:serviceaccount:{scene.account.namespace}:daemon\\" cannot patch resource \\"nodes\\" '
                'in API group \\"\\" at the cluster scope'
            ),
        ) == (refusal.problem, refusal.reason)
        assert ("615", "") == (await scene.value(), scene.state.label_reason())

    async def test_invalid_token(self, scene: Scene) -> None:
        """
        A token that the server does not know is told as 401, and the label follows when a valid one is there.
        """
        await objects.grant(scene.admin, scene.account, PATCH_NODES)
        valid = scene.pod.token
        scene.pod.swap("made-up")
        async with scene.labelling():
            scene.state.learn("615.43.02", 615)
            await scene.until(lambda: scene.state.label.problem is not None, "a refusal")
            refusal = scene.state.label
            scene.pod.swap(valid)
            await scene.labelled("615.43.02")

        assert (
            LabelProblem.UNAUTHORIZED,
            f"PATCH /api/v1/nodes/{scene.node}: 401 from the API server: Unauthorized",
        ) == (refusal.problem, refusal.reason)

    async def test_other_node(self, scene: Scene) -> None:
        """
        A name that no node has is told with the setting that gave it.
        """
        await objects.grant(scene.admin, scene.account, PATCH_NODES)
        async with scene.labelling(node="elsewhere"):
            scene.state.learn("615.43.02", 615)
            await scene.until(lambda: scene.state.label.problem is LabelProblem.NO_SUCH_NODE, "an unknown node")

        assert (
            "--node-name (NODE_NAME): PATCH /api/v1/nodes/elsewhere: 404 from the API server: "
            'nodes \\"elsewhere\\" not found'
        ) == scene.state.label_reason()

    async def test_no_name(self, scene: Scene) -> None:
        """
        A name that was not told is told as missing.
        """
        async with scene.labelling(node=""):
            scene.state.learn("615.43.02", 615)
            await scene.until(lambda: scene.state.label.problem is LabelProblem.BAD_NODE_NAME, "a bad name")

        assert scene.state.label_reason().startswith('--node-name (NODE_NAME): "" is not the name of a node; accepted:')

    async def test_untrusted_server(self, scene: Scene, plane: ControlPlane, tmp_path: Path) -> None:
        """
        A server of another certificate authority gets no token, and the label follows when its authority is mounted.
        """
        await objects.grant(scene.admin, scene.account, PATCH_NODES)
        authority = scene.pod.directory / "ca.crt"
        authority.write_bytes(Path(certifi.where()).read_bytes())
        async with scene.labelling():
            scene.state.learn("615.43.02", 615)
            await scene.until(lambda: scene.state.label.problem is LabelProblem.UNREACHABLE, "a distrusted server")
            reason = scene.state.label_reason()
            authority.write_bytes(plane.certificates.ca.read_bytes())
            await scene.labelled("615.43.02")

        assert "its certificate is not trusted" in reason


class TestOutage:
    """
    An API server that is not there.
    """

    async def test_gone_at_start(self, scene: Scene, plane: ControlPlane) -> None:
        """
        Gone for longer than the longest wait, it gets the label when it returns.
        """
        await objects.grant(scene.admin, scene.account, PATCH_NODES)
        await plane.stop()
        async with scene.labelling():
            scene.state.learn("615.43.02", 615)
            await scene.until(lambda: scene.state.label.problem is not None, "an outage")
            outage = scene.state.label
            await asyncio.sleep(5 * RETRIES.cap)
            await plane.start()
            await scene.labelled("615.43.02")

        assert (LabelProblem.UNREACHABLE, "615") == (outage.problem, await scene.value())
        assert "Connect call failed" in outage.reason


class TestRotation:
    """
    A bound token that the kubelet replaces.
    """

    async def test_three_swaps(self, scene: Scene, plane: ControlPlane) -> None:
        """
        Each swap costs at most one refused patch, and the label goes on being written.
        """
        await objects.grant(scene.admin, scene.account, PATCH_NODES)
        async with Front(plane, newest=lambda: scene.pod.token) as front:
            scene = attrs.evolve(scene, pod=scene.pod.at(front.url))
            async with scene.labelling():
                for major in (615, 616, 617, 618):
                    scene.state.learn(f"{major}.1", major)
                    await scene.labelled(f"{major}.1")
                    scene.pod.swap(await objects.issue_token(scene.admin, scene.account))

        assert ("618", {"PATCH": 3}, {"PATCH": 4}) == (await scene.value(), front.refused, front.passed)

    async def test_invalid_for_long(self, scene: Scene, plane: ControlPlane) -> None:
        """
        A token that stays invalid is shown no more often than the waits between attempts allow.
        """
        await objects.grant(scene.admin, scene.account, PATCH_NODES)
        async with Front(plane, newest=lambda: "a newer one") as front:
            scene = attrs.evolve(scene, pod=scene.pod.at(front.url))
            async with scene.labelling():
                scene.state.learn("615.43.02", 615)
                await asyncio.sleep(10 * RETRIES.cap)

        assert LabelProblem.UNAUTHORIZED is scene.state.label.problem
        assert 2 <= front.refused["PATCH"] <= 13
