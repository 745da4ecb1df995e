"""
The controller as the chart's Deployment would run it.

    async with await Controller.of(deployment, plane=plane, admin=admin, directory=tmp_path) as controller:
        await controller.ready()
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from fractioning_core.kube.transport import Transport
from lab import process, waiting
from lab.errors import Died, LabError
from lab.process import HttpResponse, Service
from prometheus_client.parser import text_string_to_metric_families

from apilab import audit, containers
from apilab.controlplane import ControlPlane, free_port
from apilab.pod import Pod

READY_SECONDS = 20.0
LOCAL_FLAGS = ("--leader-elect=false",)
"""
Without an election, for the many tests that have one controller: a successor need not wait for a lease to end.
"""


class Controller:
    """
    One process of it; enter it.

    Args:
        container: What runs.
        port: Of its health server.
        metrics_port: Of the server of its metrics.
    """

    def __init__(self, container: containers.Started, *, port: int, metrics_port: int) -> None:
        self.service: Service = container.service
        self.pod: Pod = container.pod
        self.token_id = audit.token_id(container.pod.token)
        """
        What the audit log calls it until its token changes.
        """
        self._port = port
        self._metrics_port = metrics_port

    @classmethod
    async def of(
        cls,
        deployment: Mapping[str, Any],
        *,
        plane: ControlPlane,
        admin: Transport,
        directory: Path,
        url: str = "",
        flags: Sequence[str] = LOCAL_FLAGS,
    ) -> Self:
        """
        Make one from the manifest of its Deployment.

        Args:
            deployment: As the chart renders it.
            plane: The cluster.
            admin: The way in, to issue a token.
            directory: Where its files and its output go.
            url: Where it finds the API server; by default where it is.
            flags: Arguments behind those of the manifest.
        """
        port, metrics_port = free_port(), free_port()
        own = [f"--health-probe-bind-address=127.0.0.1:{port}", f"--metrics-bind-address=127.0.0.1:{metrics_port}"]
        container = await containers.prepare(
            deployment["spec"]["template"],
            namespace=deployment["metadata"]["namespace"],
            plane=plane,
            admin=admin,
            directory=directory,
            url=url,
            flags=[*own, *flags],
        )
        return cls(container, port=port, metrics_port=metrics_port)

    async def __aenter__(self) -> Self:
        await self.service.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.service.end()

    async def kill(self) -> None:
        """
        End it without a word, as a node that loses its power.
        """
        self.service.signal(signal.SIGKILL)
        await self.service.wait()

    async def get(self, path: str) -> HttpResponse:
        """
        Fetch a page of its health server.
        """
        return await process.http_get(self._port, path)

    async def ready(self, *, timeout_seconds: float = READY_SECONDS) -> None:
        """
        Wait until it calls itself ready.
        """
        await self._answered("/readyz", 200, "", timeout_seconds)

    async def not_ready(self, reason: str, *, timeout_seconds: float = READY_SECONDS) -> str:
        """
        Wait until it calls itself not ready with a text in the reason; gives the whole.
        """
        return (await self._answered("/readyz", 503, reason, timeout_seconds)).body

    async def metrics(self) -> Mapping[tuple[str, frozenset[tuple[str, str]]], float]:
        """
        Read all samples, by name and labels.
        """
        page = await process.http_get(self._metrics_port, "/metrics")
        families = text_string_to_metric_families(page.body)
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in families
            for sample in family.samples
        }

    async def metric(self, name: str, **labels: str) -> float:
        """
        Read one sample.
        """
        samples = await self.metrics()
        try:
            return samples[name, frozenset(labels.items())]
        except KeyError:
            raise LabError(f"no sample {name} {labels} in {sorted(map(str, samples))}") from None

    async def _answered(self, path: str, status: int, text: str, timeout_seconds: float) -> HttpResponse:
        last = HttpResponse(0, "nothing")

        async def ask() -> HttpResponse | None:
            nonlocal last
            try:
                last = await self.get(path)
            except OSError as error:
                if self.service.exit_code is not None:
                    raise Died(self.service.name, self.service.exit_code, self.service.output()) from error
                return None
            return last if last.status == status and text in last.body else None

        return await waiting.until_awaited(
            ask,
            what=f"{path} of the controller to answer {status} {text}",
            timeout_seconds=timeout_seconds,
            details=lambda: f"last: {last.status} {last.body}\n{self.service.output()}",
        )
