"""
What metricsd serves on a worker, read through the API server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
from lab import waiting
from prometheus_client.parser import text_string_to_metric_families

from clusterlab.release import FRACTIOND, PODS, Release

MEMORY = "gpu_fractioning_gpu_memory_used_bytes"
SM = "gpu_fractioning_gpu_sm_utilization_percent"
SM_NORMALIZED = "gpu_fractioning_gpu_sm_utilization_percent_normalized"
# A cycle takes 5 s, and fractiond's record has to be there first.
SECONDS = 40.0
# A container has its record until it is removed, which the kubelet may leave to its garbage collection of every minute.
_GONE_SECONDS = 120.0
_PORT = 2112


@attrs.frozen
class Series:
    """
    One sample with its labels.
    """

    labels: Mapping[str, str]
    value: float


@attrs.frozen
class Page:
    """
    The metrics of one worker.
    """

    release: Release
    node: str

    async def text(self) -> str:
        """
        Read the whole page.
        """
        pods = await self.release.pods(FRACTIOND, node=self.node)
        names = [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        return await self.release.api.text(f"{PODS}/{names[0]}:{_PORT}/proxy/metrics")

    async def series(self, name: str, **labels: str) -> Sequence[Series]:
        """
        List the samples of a family that have these labels.
        """
        families = text_string_to_metric_families(await self.text())
        samples = [sample for family in families for sample in family.samples if sample.name == name]
        return [Series(each.labels, each.value) for each in samples if labels.items() <= each.labels.items()]

    async def until(self, name: str, values: Sequence[float], **labels: str) -> Sequence[Series]:
        """
        Wait until the samples that have these labels have exactly these values; gives them.
        """
        seen: Sequence[Series] = ()

        async def have() -> Sequence[Series] | None:
            nonlocal seen
            seen = await self.series(name, **labels)
            return list(seen) if [each.value for each in seen] == list(values) else None

        if not values:
            await waiting.until_awaited(
                lambda: self._none(name, labels), what=f"no {name} {labels}", timeout_seconds=_GONE_SECONDS
            )
            return ()
        return await waiting.until_awaited(
            have, what=f"{name} {labels} to be {values}", timeout_seconds=SECONDS, details=lambda: str(seen)
        )

    async def _none(self, name: str, labels: Mapping[str, str]) -> bool:
        return not await self.series(name, **labels)
