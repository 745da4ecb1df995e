"""
Faults of a release: a rollout that cannot go on, and a second release beside the first; see `clusterlab.faults`.

Driver and GPUs are simulated.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import pytest_asyncio
from apilab.helm import NAMESPACE, RELEASE, Helm
from clusterlab import client, faults, sabotage
from clusterlab.client import NODES, Object
from clusterlab.placement import NODE_CONDITION
from clusterlab.release import CONDITIONS, FRACTIOND, MPSD, Release
from fractioning_core.kube.errors import ApiOverloaded
from lab import waiting
from lab.errors import CommandFailed

SECONDS = 60.0
MISSING_TAG = "on-one-worker"
SECOND, OTHER_RELEASE = "second", "other"
HEALTH_PORT = 8081
EVENTS = "/api/v1/namespaces/default/events"


def images_of(pod: Object) -> Sequence[str]:
    """
    List the images of a pod, or of a template of pods.
    """
    return [container["image"] for container in pod["spec"]["containers"]]


async def in_order_of_replacement(release: Release) -> Sequence[str]:
    """
    Wait until fractiond's pod on one of two nodes goes; gives this node, and the other.
    """

    async def going() -> str | None:
        pods = await release.pods(FRACTIOND)
        there = [each["spec"].get("nodeName") for each in pods if "deletionTimestamp" not in each["metadata"]]
        return next((node for node in release.gpu_nodes() if node not in there), None)

    first = await waiting.until_awaited(going, what=f"a pod of {FRACTIOND} to go", timeout_seconds=SECONDS)
    return sorted(release.gpu_nodes(), key=lambda node: node != first)


def second(release: Release, name: str) -> Helm:
    """
    Give helm for a release in the other namespace.
    """
    layout = release.cluster.layout
    directory = layout.base / "helm-second"
    directory.mkdir(exist_ok=True)
    return Helm(layout.kubeconfig, directory=directory, release=name, namespace=SECOND)


async def refusal_of(helm: Helm) -> str:
    """
    Try to install the chart as it is; gives what helm says.
    """
    with pytest.raises(CommandFailed) as refused:
        await helm.install()
    return refused.value.output


async def written(release: Release) -> object:
    """
    Read what tells of every write of the first release's controller: generations, and conditions with their times.
    """
    config = await release.config()
    nodes = [await release.api.get(f"{NODES}/{node}") or {} for node in release.gpu_nodes()]
    return (
        [(await release.daemonset(name))["metadata"]["generation"] for name in (FRACTIOND, MPSD)],
        [client.condition(config, kind) for kind in CONDITIONS],
        [client.condition(node, NODE_CONDITION) for node in nodes],
    )


async def told(release: Release) -> Sequence[str]:
    """
    List what controllers that stand by have told.
    """
    events = await release.api.list(EVENTS, fieldSelector="reason=ServedFromElsewhere")
    return [event["message"] for event in events]


@asynccontextmanager
async def standing_by(release: Release) -> AsyncIterator[Object]:
    """
    Have a second release without a resource of its own while entered; gives its controller's pod, once that has seen
    whose the resource is.
    """
    helm = second(release, OTHER_RELEASE)
    before = len(await told(release))

    async def has_told() -> bool:
        return len(await told(release)) > before

    try:
        await helm.install({"config": {"create": False}})
        await waiting.until_awaited(has_told, what="an event of the second controller", timeout_seconds=SECONDS)
        pods = await release.api.list(f"/api/v1/namespaces/{SECOND}/pods")
        (pod,) = [each for each in pods if "job-name" not in each["metadata"]["labels"]]
        yield pod
    finally:
        await helm.uninstall()


@pytest_asyncio.fixture
async def namespace(release: Release) -> AsyncIterator[None]:
    """
    Remove the other namespace afterwards, which helm makes and leaves.
    """
    yield
    await release.api.delete(f"/api/v1/namespaces/{SECOND}")
    await release.api.until_gone(f"/api/v1/namespaces/{SECOND}", timeout_seconds=SECONDS)


class TestRollout:
    async def test_missing_image(self, release: Release) -> None:
        """
        A rollout that comes to a node without its image stops there and says so, and what was fenced stays so.
        """
        (image, *_) = images_of((await release.daemonset(FRACTIOND))["spec"]["template"])
        tagged = f"{image.rpartition(':')[0]}:{MISSING_TAG}"
        what = "an upgrade of fractiond comes half-way, to a worker that lacks the image; then it is rolled back"
        async with (
            AsyncExitStack() as afterwards,
            faults.suffered(release, name="image missing in a rollout", what=what) as scene,
        ):
            fenced = scene.witness.journal.fenced()
            # Nobody is asked for the image: how long that takes says nothing about us.
            await release.helm().upgrade({"images": {"fractiond": {"tag": MISSING_TAG, "pullPolicy": "Never"}}})
            try:
                first, other = await in_order_of_replacement(release)
                await afterwards.enter_async_context(sabotage.tagged(release.cluster.worker(first), image, tagged))
                said = await sabotage.node_says(release, other, "ErrImageNeverPull")
                await release.node_is(first, "True")
                (replaced,) = await release.pods(FRACTIOND, node=first)
                rollout = await release.condition_is("FractiondReady", "False", reason="PartiallyAvailable")
                assert fenced <= scene.witness.journal.fenced()
            finally:
                scene.over()
                await release.helm().rollback(0)

        assert tagged in images_of(replaced)
        assert "fractiond pod is not ready: ErrImageNeverPull" == said["message"]
        assert ("PartiallyAvailable", "1 of 2 pods ready") == (rollout["reason"], rollout["message"])
        assert scene.outcome.holds, scene.outcome
        assert 0 == scene.outcome.tenants_ended


class TestSecondRelease:
    @pytest.mark.usefixtures("namespace")
    async def test_is_refused(self, release: Release) -> None:
        """
        Helm refuses a second release with the name of what is there; one without a resource of its own stands by and
        says for whom; and the first goes on as if nothing had been.
        """
        what = "the chart is installed once more in another namespace: as it is, and without its resource"
        async with faults.suffered(release, name="second release", what=what) as scene:
            before = await written(release)
            same, other = [await refusal_of(second(release, name)) for name in (RELEASE, OTHER_RELEASE)]
            async with standing_by(release) as pod:
                path = f"/api/v1/namespaces/{SECOND}/pods/{pod['metadata']['name']}:{HEALTH_PORT}/proxy/readyz"
                with pytest.raises(ApiOverloaded) as unready:
                    await release.api.text(path)
                messages = await told(release)
                daemonsets = await release.api.list(f"/apis/apps/v1/namespaces/{SECOND}/daemonsets")
            scene.over()
            after = await written(release)

        assert f'ClusterRole "{RELEASE}" in namespace "" exists and cannot be imported' in same
        assert 'GpuFractioningConfig "default" in namespace "" exists and cannot be imported' in other
        served = f"is served by the controller in namespace '{NAMESPACE}'; the one in '{SECOND}' stands by"
        assert served in messages[-1]
        assert served in str(unready.value)
        assert [] == daemonsets
        assert before == after
        assert scene.outcome.holds, scene.outcome
        assert 0 == scene.outcome.tenants_ended
