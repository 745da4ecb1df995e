"""What is read of nodes."""

from __future__ import annotations

from controller import world
from controller.world import NodeCondition, NodeView, Taint
from fractioning_core import names


class TestNode:
    def test_whole(self) -> None:
        """A node keeps the labels that are asked for, our condition, its taints and what mpsd says."""
        manifest = {
            "metadata": {
                "name": "node-a",
                "uid": "1",
                "labels": {"nvidia.com/gpu.present": "true", "other": "x", names.DRIVER_LABEL: "615"},
                "annotations": {names.DRIVER_PROBLEM_ANNOTATION: "mismatch"},
            },
            "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
            "status": {
                "conditions": [
                    {"type": "Ready", "status": "True"},
                    {
                        "type": "gpu-fractioning.nvidia.com/Ready",
                        "status": "False",
                        "reason": "Pending",
                        "message": "m",
                        "lastTransitionTime": "2026-11-29T12:00:00Z",
                        "lastHeartbeatTime": "2026-11-29T12:01:00Z",
                    },
                ]
            },
        }
        keys = world.label_keys({"nvidia.com/gpu.present": "true"})

        expected = NodeView(
            name="node-a",
            labels={"nvidia.com/gpu.present": "true", names.DRIVER_LABEL: "615"},
            condition=NodeCondition("False", "Pending", "m", "2026-11-29T12:00:00Z"),
            taints=(Taint("nvidia.com/gpu", "", "NoSchedule"),),
            driver_problem="mismatch",
        )
        assert expected == NodeView.from_manifest(manifest, keys)

    def test_bare(self) -> None:
        """Whatever a node lacks is absent."""
        assert NodeView("node-a") == NodeView.from_manifest({"metadata": {"name": "node-a"}}, frozenset())
