"""
The writes of a plan, one function for each kind: what is sent to the API server, and which answers are fine.

A node or a resource that is gone needs nothing any more. Everything that we write is under one name, so that the
server can tell our fields from those of others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

import attrs
from fractioning_core import names, resource
from fractioning_core.kube import timestamps
from fractioning_core.kube.errors import Conflict, NotFound
from fractioning_core.kube.nodes import Nodes
from fractioning_core.kube.objects import Objects

from controller import drift, identifiers, manifests
from controller.actions import (
    AddFinalizer,
    ApplyDaemonSet,
    DeleteDaemonSet,
    RemoveFinalizer,
    SetNodeCondition,
    WriteStatus,
)
from controller.configreading import CONFIGS
from controller.memory import Applied
from controller.nodesource import NODES
from controller.sources import DAEMONSETS

FIELD_MANAGER = "gpu-fractioning-controller"

_CONFIG = CONFIGS.item_path(resource.NAME)
# Somebody else writes at the same moment; not at every moment.
_ATTEMPTS = 3


@attrs.frozen
class Writes:
    """
    Sends them.

    Args:
        objects: The API server, which is to know us as `FIELD_MANAGER`.
        nodes: The same, for labels of nodes.
        namespace: Where the DaemonSets are.
        utcnow: Tells the time.
    """

    _objects: Objects
    _nodes: Nodes = attrs.field(kw_only=True)
    _namespace: str = attrs.field(kw_only=True)
    _utcnow: Callable[[], datetime] = attrs.field(kw_only=True)

    async def set_finalizers(self, action: AddFinalizer | RemoveFinalizer) -> Mapping[str, Any]:
        """
        Set the resource's finalizers; give the resource. Raises Conflict when it is another version.
        """
        metadata: dict[str, Any] = {"resourceVersion": action.resource_version, "finalizers": list(action.finalizers)}
        if isinstance(action, AddFinalizer):
            metadata["annotations"] = {resource.NAMESPACE_ANNOTATION: action.namespace}
        return await self._objects.merge_patch(_CONFIG, {"metadata": metadata})

    async def write_status(self, action: WriteStatus) -> Mapping[str, Any]:
        """
        Set the resource's status; give the resource.
        """
        body = resource.write_status(action.conditions, action.observed_generation)
        return await self._objects.apply(CONFIGS.subresource(resource.NAME, "status"), body)

    async def apply_daemonset(self, action: ApplyDaemonSet) -> Applied:
        """
        Make a DaemonSet what the manifest says, and nothing else.
        """
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._apply_daemonset(action)
            except Conflict:
                continue
        return await self._apply_daemonset(action)

    async def delete_daemonset(self, action: DeleteDaemonSet) -> None:
        """
        Delete a DaemonSet, and let its pods follow. One that was made anew under its name is another.

        Not its pods first: one on a node that does not answer never goes, and its name would be taken for as long.
        """
        path = DAEMONSETS.within(self._namespace).item_path(action.name)
        with suppress(Conflict):
            await self._objects.delete(path, uid=action.uid, propagation="Background")

    async def set_node_condition(self, action: SetNodeCondition) -> None:
        """
        Set our condition on a node.
        """
        condition = {
            "type": identifiers.NODE_CONDITION,
            "status": action.condition.status,
            "reason": action.condition.reason,
            "message": action.condition.message,
            "lastTransitionTime": action.condition.last_transition_time,
            "lastHeartbeatTime": timestamps.seconds(self._utcnow()),
        }
        await self._patch_condition(action.node, condition)

    async def remove_node_condition(self, node: str) -> None:
        """
        Remove our condition from a node.
        """
        await self._patch_condition(node, {"type": identifiers.NODE_CONDITION, "$patch": "delete"})

    async def remove_driver_marks(self, node: str) -> None:
        """
        Remove what mpsd wrote on a node.
        """
        labels, annotations = {names.DRIVER_LABEL: None}, {names.DRIVER_PROBLEM_ANNOTATION: None}
        with suppress(NotFound):
            await self._nodes.patch(node, labels=labels, annotations=annotations)

    async def _apply_daemonset(self, action: ApplyDaemonSet) -> Applied:
        path = DAEMONSETS.within(self._namespace).item_path(action.manifest["metadata"]["name"])
        found = await self._objects.apply(path, action.manifest)
        if drift.is_foreign(found, manager=FIELD_MANAGER):
            await self._objects.replace(path, drift.replacement(found, action.manifest, manager=FIELD_MANAGER))
            # So that the fields are recorded as applied, and go when a later manifest lacks them.
            found = await self._objects.apply(path, action.manifest)
        return Applied(
            uid=manifests.text(found, "metadata", "uid"),
            generation=manifests.number(found, "metadata", "generation"),
            spec_hash=action.spec_hash,
        )

    async def _patch_condition(self, node: str, condition: Mapping[str, str]) -> None:
        path = NODES.subresource(node, "status")
        # A strategic patch finds the condition by its type and leaves those of others alone.
        with suppress(NotFound):
            await self._objects.strategic_patch(path, {"status": {"conditions": [condition]}})
