"""
A real Prometheus in the cluster's network. Debian's is built without discovery of Kubernetes, so it is told the pods.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import attrs
from clusterlab import command, network
from clusterlab.client import Object
from clusterlab.cluster import Cluster
from clusterlab.programs import program
from lab import toolchain, waiting
from lab.errors import CommandFailed

PART = "prometheus"
_ADDRESS = "127.0.0.1:9090"
_SECONDS = 60.0
_ANNOTATION = "prometheus.io/"


@attrs.frozen
class Prometheus:
    """
    The one of a cluster.
    """

    cluster: Cluster

    def start(self, pods: Sequence[Object]) -> None:
        """
        Start it for the pods whose annotations ask to be scraped; it ends with the cluster.
        """
        layout = self.cluster.layout
        configuration = layout.base / "prometheus.json"
        configuration.write_text(json.dumps(_configuration(pods)))
        flags = [
            f"--config.file={configuration}",
            f"--storage.tsdb.path={layout.base / 'prometheus'}",
            f"--web.listen-address={_ADDRESS}",
            "--log.level=warn",
        ]
        self.cluster.parts.spawn(PART, [*network.inside(self.cluster.plane.gateway_pid), program(PART), *flags])

    async def query(self, expression: str) -> list[tuple[dict[str, str], str]]:
        """
        Evaluate an expression now; gives labels and value of each series.
        """
        inside = network.inside(self.cluster.plane.gateway_pid)
        promtool = toolchain.PROGRAMS / PART / "promtool"
        text = await command.run(*inside, promtool, "query", "instant", "-o", "json", f"http://{_ADDRESS}", expression)
        return [(one["metric"], one["value"][1]) for one in json.loads(text)]

    async def until(self, expression: str, count: int) -> Sequence[tuple[dict[str, str], str]]:
        """
        Wait until an expression gives so many series.
        """

        async def look() -> list[tuple[dict[str, str], str]] | None:
            try:
                found = await self.query(expression)
            except CommandFailed:
                # It does not serve yet.
                return None
            return found if len(found) == count else None

        return await waiting.until_awaited(
            look, what=f"{count} series of {expression} in Prometheus", timeout_seconds=_SECONDS
        )


def _configuration(pods: Sequence[Object]) -> Object:
    jobs = [_job(pod) for pod in pods if pod["metadata"].get("annotations", {}).get(f"{_ANNOTATION}scrape") == "true"]
    return {"global": {"scrape_interval": "2s", "scrape_timeout": "2s"}, "scrape_configs": jobs}


def _job(pod: Object) -> Object:
    annotations = pod["metadata"]["annotations"]
    target = f"{pod['status']['podIP']}:{annotations[f'{_ANNOTATION}port']}"
    return {
        "job_name": pod["metadata"]["name"],
        "honor_labels": True,
        "metrics_path": annotations[f"{_ANNOTATION}path"],
        "static_configs": [{"targets": [target], "labels": {"node": pod["spec"]["nodeName"]}}],
    }
