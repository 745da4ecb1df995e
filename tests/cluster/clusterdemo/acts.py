"""
The steps of the story. Each shows what a user would see, and checks what it claims.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from clusterlab import client, nvidia, sabotage
from clusterlab import pods as pods_of
from clusterlab.metricspage import MEMORY, SM_NORMALIZED
from clusterlab.pods import Container, Pods
from clusterlab.release import CONDITIONS, Release
from demo.screen import Screen

from clusterdemo.prometheus import Prometheus

TRAINER, SERVER, WRONG = "trainer", "server", "wrong"
# 580 is the branch before the one that knows memory limits.
OLD_DRIVER = "580.65.06"


@attrs.frozen
class Story:
    """
    Who is in it.
    """

    release: Release
    pods: Pods
    prometheus: Prometheus
    screen: Screen


async def install(story: Story) -> None:
    """
    Images, helm, and the conditions that follow.
    """
    names = [name for name in await story.release.load_images() if not name.startswith("sha256:")]
    story.screen.say("There is no registry, so the images are loaded: scripts/cluster load .cache/images/*.tar")
    story.screen.lines([f"  {name}" for name in names])
    story.screen.say("helm install gpu-fractioning deploy/helm/gpu-fractioning -n gpu-fractioning --create-namespace")
    await story.release.install()
    await story.release.steady()
    await show_conditions(story)


async def annotate(story: Story) -> None:
    """
    Two pods that ask for parts of a GPU, one as users of KAI do, one with annotations of its own.
    """
    use = f"{pods_of.SHOW}; exec /usr/bin/simgpu-run --gpu=$NVIDIA_VISIBLE_DEVICES"
    trainer = pods_of.manifest(
        TRAINER, Container(script=f"{use} --memory=6Gi --sm=40"), annotations={"gpu-fraction": "0.5"}
    )
    asked = pods_of.memory(request="4Gi", limit="8Gi")
    server = pods_of.manifest(SERVER, Container(script=f"{use} --memory=2Gi --sm=10"), annotations=asked)
    rows = [("POD", "NODE", "GPU (simulated)", "REQUEST MiB", "LIMIT MiB")]
    for pod, expected in ((trainer, ("20480", "20480")), (server, ("4096", "8192"))):
        name = pod["metadata"]["name"]
        node = (await story.pods.run(pod))["spec"]["nodeName"]
        found = await story.pods.environment(name)
        seen = found["NVIDIA_GPU_MEMORY_REQUEST"], found["NVIDIA_GPU_MEMORY_LIMIT"]
        story.screen.expect(f"request and limit of {name}", expected=expected, seen=seen)
        rows.append((name, node, found["NVIDIA_VISIBLE_DEVICES"], *seen))
    story.screen.say(
        "One asks with gpu-fraction, the other with annotations of its own. What the containers were given:"
    )
    story.screen.table(rows)


async def watch(story: Story) -> None:
    """
    The series of both pods, as Prometheus has them.
    """
    story.prometheus.start(await story.release.pods())
    rows = [("POD", "MEMORY USED", "SM USE OF ITS FRACTION")]
    # A container that was not yet seen at work has series of zero.
    memory = _by_pod(await story.prometheus.until(f"{MEMORY} > 0", 2))
    sms = _by_pod(await story.prometheus.until(f"{SM_NORMALIZED} > 0", 2))
    rows += [(pod, f"{int(used) >> 20} MiB", f"{float(sms[pod]):g} %") for pod, used in sorted(memory.items())]
    story.screen.table(rows)
    story.screen.expect("bytes of the pods", expected={TRAINER: 6 << 30, SERVER: 2 << 30}, seen=_whole(memory))


async def mistake(story: Story) -> None:
    """
    A pod that asks for nonsense: refused, and its author is told why.
    """
    await story.pods.create(pods_of.manifest(WRONG, annotations=pods_of.memory(request="lots")))
    reason = await story.pods.refused(WRONG)
    story.screen.say("kubectl get pod wrong shows:")
    story.screen.say(reason, hanging="  ")
    story.screen.expect("the reason names the value", expected=True, seen='"lots"' in reason)
    await story.pods.delete(WRONG)
    await story.pods.run(pods_of.manifest(WRONG, annotations=pods_of.memory(request="1Gi")))
    story.screen.say("With 1Gi in its place it runs.")


async def outdated_driver(story: Story) -> None:
    """
    A node whose driver does not know memory limits: the node and the resource say so, and heal.
    """
    worker = story.release.cluster.worker("gpu-2")
    state = nvidia.state(worker.files)
    state.write(nvidia.machine(worker.worker, driver=OLD_DRIVER))
    told = await sabotage.node_says(story.release, "gpu-2", "GPUDriverVersionUnsupported")
    ready = await story.release.condition_is("Ready", "False")
    story.screen.say(f"The driver of gpu-2 is now {OLD_DRIVER} (simulated). The node's condition:")
    story.screen.say(f"{told['reason']}: {told['message']}", hanging="  ")
    story.screen.say("Ready of the GpuFractioningConfig:")
    story.screen.say(f"{ready['reason']}: {ready['message']}", hanging="  ")
    story.screen.expect("the reason", expected="GPUDriverVersionUnsupported", seen=told["reason"])
    state.write(nvidia.machine(worker.worker))
    await story.release.steady()
    story.screen.say("With the driver of r615 back, nobody has to do anything:")
    await show_conditions(story)


async def show_conditions(story: Story) -> None:
    """
    Show the resource's conditions.
    """
    config = await story.release.config()
    found = [client.condition(config, kind) or {} for kind in CONDITIONS]
    story.screen.table(
        [("CONDITION", "STATUS", "REASON"), *((one["type"], one["status"], one["reason"]) for one in found)]
    )
    story.screen.expect("the conditions", expected=["True"] * 3, seen=[one["status"] for one in found])


def _by_pod(series: Sequence[tuple[dict[str, str], str]]) -> dict[str, str]:
    return {labels["pod"]: value for labels, value in series}


def _whole(values: dict[str, str]) -> dict[str, int]:
    return {name: int(value) for name, value in values.items()}
