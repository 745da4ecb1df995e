"""
The show itself: its steps in order. Whatever happens, nothing is left of it, unless it is told to keep the cluster.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable

from clusterlab.client import Client
from clusterlab.cluster import Cluster
from clusterlab.pods import Pods
from clusterlab.release import Release
from demo.screen import Screen
from lab.errors import LabError

from clusterdemo import acts
from clusterdemo.acts import Story
from clusterdemo.prometheus import Prometheus

KEEP = "--keep"
STEPS: tuple[tuple[str, Callable[[Story], Awaitable[None]]], ...] = (
    ("Install", acts.install),
    ("Annotate pods", acts.annotate),
    ("Watch them in Prometheus", acts.watch),
    ("Ask for nonsense, read the reason, repair", acts.mistake),
    ("Break a node, read the reason, repair", acts.outdated_driver),
)


def main() -> None:
    """
    Run the demo as a program.
    """
    keeps = KEEP in sys.argv[1:]
    cluster = Cluster.at()
    try:
        raise SystemExit(asyncio.run(_run(cluster, keeps=keeps)))
    except LabError as error:
        sys.exit(f"demo: {error}")
    except KeyboardInterrupt:
        print("\ndemo: interrupted; everything is removed", flush=True)
        raise SystemExit(130) from None


async def _run(cluster: Cluster, *, keeps: bool) -> int:
    screen = Screen(sys.stdout, steps=len(STEPS) + 1)
    started = time.monotonic()
    # Raises before anything of somebody else's could be removed.
    with screen.step("Make a Kubernetes of three workers"):
        await cluster.up(lambda line: screen.lines([f"  {line}"]))
    try:
        async with cluster.admin() as api:
            story = Story(Release(cluster, Client(api)), Pods(Client(api)), Prometheus(cluster), screen)
            for title, act in STEPS:
                with screen.step(title):
                    await act(story)
    except BaseException:
        await cluster.down()
        raise
    if keeps:
        screen.say("The cluster is kept: scripts/cluster kubectl get pods -A; remove it with scripts/cluster down")
    else:
        await cluster.down()
        screen.expect("what is left of the cluster", expected=[], seen=cluster.remains())
    failures = len(screen.checks.failures)
    screen.say(
        f"{screen.checks.held} claims held, {failures} did not; {time.monotonic() - started:.0f} s. GPUs, driver and "
        "NVIDIA's runtime were simulated, and the scheduler is a stand-in for KAI; the rest was real."
    )
    return 1 if failures else 0
