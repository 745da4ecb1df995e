"""
Whether the GPU Operator is upgrading the driver of a node of ours, for the condition `DriverUpgradeInProgress`.

Nothing is done about it but to say so: node selector and affinity of the DaemonSets drain such a node, and its
condition is removed with the daemons.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.conditions import FALSE, TRUE, Verdict, some
from controller.placement import has_upgrade, is_selected
from controller.world import NodeView

UPGRADING = "DriverUpgrading"
NO_UPGRADE = "NoDriverUpgrade"


def judge(nodes: tuple[NodeView, ...], selector: Mapping[str, str]) -> Verdict:
    """
    Say whether an upgrade is under way, and where.
    """
    upgrading = sorted(node.name for node in nodes if has_upgrade(node) and is_selected(node, selector))
    if not upgrading:
        return Verdict(FALSE, NO_UPGRADE, "")
    told = "a targeted GPU node is undergoing a driver upgrade and its managed daemons are drained"
    return Verdict(TRUE, UPGRADING, f"{told}: {some(upgrading)}")
