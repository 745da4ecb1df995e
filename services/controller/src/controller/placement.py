"""
Which nodes each daemon belongs on, as the scheduler sees it and as we count it: both from the rules here.

A daemon belongs on a node that has the labels of the config's selector and `nvidia.com/gpu.deploy.client=true`, is in
no driver upgrade and has no taint that the config does not tolerate. fractiond, which would promise a limit that the
driver does not keep, also stays off nodes with a driver below r615; mpsd does not, since it keeps the label up to date
by which a node with a new driver is known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fractioning_core import names
from fractioning_core.driver import MIN_DRIVER_MAJOR
from fractioning_core.resource import Spec, Toleration

from controller import identifiers
from controller.world import NodeView, Taint

# What the DaemonSet controller adds to the tolerations of every pod without the host's network. So on a node that does
# not answer, which has the first two taints with both effects, pods stay that are there, and none is counted on.
_ALWAYS_TOLERATED = frozenset(
    (f"node.kubernetes.io/{name}", effect)
    for name, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
_REPELLING = frozenset({"NoSchedule", "NoExecute"})
_INTEGER = re.compile(r"-?[0-9]{1,18}")


def node_selector(spec: Spec) -> dict[str, str]:
    """
    Give the node selector of both daemons: the config's, and what makes the GPU Operator wait for them.
    """
    return {**spec.node_selector, identifiers.CLIENT_LABEL: identifiers.CLIENT_VALUE}


def affinity(component: str) -> dict[str, Any]:
    """
    Give the affinity that a node selector cannot express: no driver upgrade, and for fractiond no old driver.
    """
    idle: list[dict[str, Any]] = [
        {"key": identifiers.UPGRADE_LABEL, "operator": "DoesNotExist"},
        {"key": identifiers.UPGRADE_LABEL, "operator": "In", "values": [identifiers.UPGRADE_DONE]},
    ]
    supported: list[dict[str, Any]] = [
        {"key": names.DRIVER_LABEL, "operator": "DoesNotExist"},
        {"key": names.DRIVER_LABEL, "operator": "Gt", "values": [str(MIN_DRIVER_MAJOR - 1)]},
    ]
    # Terms are alternatives, and the expressions of one term hold together: so every pair is a term.
    terms = [[first, second] for first in idle for second in supported]
    if component != identifiers.FRACTIOND:
        terms = [[first] for first in idle]
    required = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def belongs(component: str, node: NodeView, spec: Spec) -> bool:
    """
    Tell whether a daemon should run on a node.
    """
    return (
        is_selected(node, node_selector(spec))
        and not has_upgrade(node)
        and (component != identifiers.FRACTIOND or not is_driver_excluded(node))
        and all(_is_tolerated(taint, spec.tolerations) for taint in node.taints)
    )


def is_selected(node: NodeView, selector: Mapping[str, str]) -> bool:
    """
    Tell whether a node has all labels of a selector.
    """
    return all(node.labels.get(key) == value for key, value in selector.items())


def has_upgrade(node: NodeView) -> bool:
    """
    Tell whether the GPU Operator is upgrading the node's driver.

    An empty value counts: the affinity above keeps the daemons off such a node.
    """
    return node.labels.get(identifiers.UPGRADE_LABEL, identifiers.UPGRADE_DONE) != identifiers.UPGRADE_DONE


def is_driver_excluded(node: NodeView) -> bool:
    """
    Tell whether the driver label keeps fractiond off: below r615, or no number.
    """
    label = node.labels.get(names.DRIVER_LABEL)
    return label is not None and not (_INTEGER.fullmatch(label) and int(label) >= MIN_DRIVER_MAJOR)


def lost_labels(node: NodeView, selector: Mapping[str, str]) -> tuple[str, ...]:
    """
    List the labels of a selector that a node lacks, where that may be an accident.

    A label with another value was set by somebody who meant it; then none counts as lost.
    """
    if any(node.labels.get(key, value) != value for key, value in selector.items()):
        return ()
    return tuple(f"{key}={value}" for key, value in selector.items() if key not in node.labels)


def _is_tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    return (
        taint.effect not in _REPELLING
        or (taint.key, taint.effect) in _ALWAYS_TOLERATED
        or any(_tolerates(toleration, taint) for toleration in tolerations)
    )


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if not toleration.key:
        return toleration.operator == "Exists"
    return toleration.key == taint.key and _compares(
        toleration.operator or "Equal", taint.value, toleration.value or ""
    )


def _compares(operator: str, taint: str, toleration: str) -> bool:
    if operator == "Exists":
        return True
    if operator == "Equal":
        return taint == toleration
    if not (_INTEGER.fullmatch(taint) and _INTEGER.fullmatch(toleration)):
        return False
    return int(taint) < int(toleration) if operator == "Lt" else int(taint) > int(toleration)
