"""
One test's share of the hollow cluster: the chart as installed, its controllers, and a way to start afresh.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
from fractioning_core import resource
from fractioning_core.kube.transport import Request
from lab import waiting

from apilab import audit, policies
from apilab.audit import Call
from apilab.cluster import CONFIGS, DAEMONSETS, EVENTS, FRACTIOND, MPSD, NODES, SOON_SECONDS, Cluster
from apilab.controller import LOCAL_FLAGS, Controller
from apilab.helm import NAMESPACE

# Longer than the controller waits between two passes.
REST_SECONDS = 3.0


@attrs.frozen
class Scene:
    """
    What the tests of the controller work on.

    Args:
        cluster: With the chart installed.
        deployment: The manifest of the controller's Deployment.
        spec: That of the chart's GpuFractioningConfig.
        directory: Where the controllers' files and output go.
    """

    cluster: Cluster
    deployment: Mapping[str, Any]
    spec: Mapping[str, Any]
    directory: Path

    @asynccontextmanager
    async def controller(
        self, *, url: str = "", flags: Sequence[str] = LOCAL_FLAGS, deployment: Mapping[str, Any] | None = None
    ) -> AsyncIterator[Controller]:
        """
        Run one while entered.

        Args:
            url: Where it finds the API server; by default where it is.
            flags: Arguments that win over the manifest's.
            deployment: Another manifest of it.
        """
        made = await Controller.of(
            deployment or self.deployment,
            plane=self.cluster.plane,
            admin=self.cluster.admin,
            directory=self.directory,
            url=url,
            flags=flags,
        )
        async with made:
            self.cluster.programs.append(made.service)
            try:
                yield made
            finally:
                self.cluster.programs.remove(made.service)

    @asynccontextmanager
    async def rolled_out(
        self,
        *nodes: str,
        url: str = "",
        spec: Mapping[str, Any] | None = None,
        flags: Sequence[str] = LOCAL_FLAGS,
    ) -> AsyncIterator[Controller]:
        """
        Run a controller on GPU nodes of these names, from when all is ready.
        """
        for node in nodes:
            await self.cluster.add_node(node)
        await self.cluster.create_config(spec or self.spec)
        async with self.controller(url=url, flags=flags) as controller:
            for node in nodes:
                await self.cluster.node_told(node, "True", "AllDaemonsReady")
            await self.cluster.ready("True", "AllComponentsReady")
            yield controller

    async def clear(self) -> None:
        """
        Remove the resource without its controller, what it brought about, all nodes and policies.
        """
        cluster = self.cluster
        cluster.kubelets.heal()
        if await cluster.config() is not None:
            await cluster.objects.merge_patch(CONFIGS.item_path(resource.NAME), {"metadata": {"finalizers": None}})
            await cluster.objects.delete(CONFIGS.item_path(resource.NAME))
        for name in (FRACTIOND, MPSD):
            await cluster.objects.delete(DAEMONSETS.item_path(name))
        for definition in (policies.policy_definition(), policies.service_version_definition()):
            await cluster.undefine(definition)

        async def is_clear() -> bool:
            return not await cluster.pods() and await cluster.config() is None

        # Kubernetes' own controllers may have to find an API server again that was away.
        await cluster.until(is_clear, what="pods and resource to go", timeout_seconds=60.0)
        await cluster.admin.ask(Request("DELETE", NODES.path))
        await cluster.admin.ask(Request("DELETE", EVENTS.within("default").path))
        await cluster.admin.ask(Request("DELETE", EVENTS.within(NAMESPACE).path))

    async def define_policies(self) -> None:
        """
        Let the cluster know ClusterPolicies and ClusterServiceVersions; there are none yet.
        """
        await self.cluster.define(policies.policy_definition())
        await self.cluster.define(policies.service_version_definition())

    async def apply_policy(self, manifest: Mapping[str, Any]) -> None:
        """
        Make a ClusterPolicy, or make it say something else.
        """
        await self.cluster.objects.apply(policies.POLICIES.item_path(manifest["metadata"]["name"]), manifest)

    def calls(self, controller: Controller, *, since: int = 0) -> Sequence[Call]:
        """
        List what a controller has asked the API server for, from a place in the audit log on.
        """
        calls = audit.read(self.cluster.plane.audit_log, since=since)
        return [call for call in calls if call.token_id == controller.token_id]

    async def at_rest(self, controller: Controller) -> None:
        """
        Wait until a controller has had nothing to ask the API server for a while: all its writes are done, and their
        news has come back.
        """
        loop = asyncio.get_running_loop()
        since, begun = self.audited(), loop.time()

        def is_at_rest() -> bool:
            nonlocal since, begun
            now = self.audited()
            if self.calls(controller, since=since):
                since, begun = now, loop.time()
            return loop.time() - begun >= REST_SECONDS

        await waiting.until(is_at_rest, what="the controller to be at rest", timeout_seconds=SOON_SECONDS)

    def audited(self) -> int:
        """
        Tell the place in the audit log where we are.
        """
        return audit.size(self.cluster.plane.audit_log)
