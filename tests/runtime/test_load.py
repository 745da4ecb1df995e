"""Many containers at once: nobody waits too long, and nobody gets through."""

from __future__ import annotations

import asyncio
from pathlib import Path

from lab import fractional
from lab.containerd import Containerd
from lab.cri import Cri
from lab.fractiond import Fractiond

PODS, CONTAINERS_EACH = 25, 20


class TestSynchronize:
    """fractiond registers with a runtime that has 500 containers."""

    async def test_500_containers(self, containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
        """The runtime gets its answer before its patience ends; how fast is `scripts/bench nri`'s to say."""
        names = [f"c{number}" for number in range(CONTAINERS_EACH)]
        annotations = {f"nvidia.com/container.{name}.gpu-memory.limit": "1Gi" for name in names}
        loop = asyncio.get_running_loop()
        async with Fractiond(containerd, directory=tmp_path) as fractiond:
            await fractiond.ready()
            for number in range(PODS):
                pod = await cri.run_pod(f"pod-{number}", annotations=annotations)
                for name in names:
                    await cri.create_container(pod, name)
            await fractiond.service.end()
            started = loop.time()
            await fractiond.start()
            await fractiond.ready()
            took = loop.time() - started
            answered = await fractiond.metric("handler_seconds_sum", method="synchronize")
            await fractiond.settled()
            print(f"{containerd.version}: handled in {answered * 1000:.0f} ms, ready {took * 1000:.0f} ms after exec")

            assert len(fractiond.records()) == PODS * CONTAINERS_EACH
            assert await fractiond.metric("connections_total") == 1
            assert await fractiond.metric("violations_total", kind="unfenced") == 0
            assert await fractiond.metric("violations_total", kind="different") == 0


class TestBurst:
    """100 creations, 16 at a time."""

    async def test_all_are_fenced_in_time(self, containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
        """Every container is fenced, and no request runs into a time-out, which would cost the connection."""
        async with Fractiond(containerd, directory=tmp_path) as fractiond:
            await fractiond.ready()
            containers = await fractional.run_many(cri, 100, at_once=16)
            await fractiond.settled()
            in_time, answered = await fractiond.answered_within(0.05)
            print(f"{containerd.version}: {in_time} of {answered} creations answered within 50 ms")

            assert await fractional.unfenced(cri, containers) == set()
            assert fractiond.records().keys() == set(containers)
            assert answered == 100
            assert await fractiond.metric("connections_total") == 1
