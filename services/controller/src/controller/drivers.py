"""
Why a node's daemons cannot work with its driver: on the node's condition, and summed up on the config's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
from fractioning_core import names
from fractioning_core.driver import MIN_DRIVER_MAJOR, parse_label
from fractioning_core.errors import InvalidDriverVersion, shown

from controller.conditions import FALSE, Verdict, line, some
from controller.world import NodeView

UNSUPPORTED = "GPUDriverVersionUnsupported"
PROBLEM = "GPUDriverProblem"
INVALID = "GPUDriverVersionInvalid"
MISSING = "GPUDriverVersionMissing"

# A pod that has not begun could not have written its label, and blaming the driver would lead astray.
NOT_BEGUN = frozenset({"PodMissing", "Pending", "ContainerCreating", "PodInitializing"})

_MINIMUM = f"minimum supported NVIDIA driver major version is {MIN_DRIVER_MAJOR}"
_BELOW = f"is below minimum supported major version {MIN_DRIVER_MAJOR}"


@attrs.frozen
class Fault:
    """
    What is wrong with one node's driver.

    Attributes:
        reason: for a condition.
        message: for the node's condition.
        value: what is told beside the node's name, where many nodes are told of.
    """

    reason: str
    message: str
    value: str = ""


def refine(verdict: Verdict, node: NodeView) -> Verdict:
    """
    Name the driver where it is why a node is not ready.
    """
    fault = find_fault(node) if verdict.status == FALSE else None
    if fault is None or (fault.reason == MISSING and verdict.reason in NOT_BEGUN):
        return verdict
    return Verdict(FALSE, fault.reason, fault.message)


def find_fault(node: NodeView) -> Fault | None:
    """
    Say what is wrong with a node's driver; None when it is fine.

    The label comes first where it names an old driver; what mpsd says itself is newer than a label that does not.
    """
    fault = _label_fault(node.labels.get(names.DRIVER_LABEL, ""))
    if node.driver_problem and (fault is None or fault.reason != UNSUPPORTED):
        return Fault(PROBLEM, line(node.driver_problem), line(node.driver_problem))
    return fault


def summarize(faulty: Mapping[str, NodeView]) -> Verdict | None:
    """
    Say in one verdict what is wrong with the drivers of nodes; None where nothing is.

    Args:
        faulty: nodes by name whose condition has one of the reasons here.
    """
    faults = {name: fault for name, node in sorted(faulty.items()) if (fault := find_fault(node))}
    for reason, told in _SUMMARIES.items():
        named = [_named(name, fault.value) for name, fault in faults.items() if fault.reason == reason]
        if named:
            return Verdict(FALSE, reason, told(named))
    return None


def _label_fault(label: str) -> Fault | None:
    if not label.strip():
        return Fault(MISSING, f"node label {names.DRIVER_LABEL} is missing; {_MINIMUM}")
    try:
        major = parse_label(label.strip())
    except InvalidDriverVersion:
        told = shown(label)
        return Fault(INVALID, f"node label {names.DRIVER_LABEL} has invalid value {told}; {_MINIMUM}", told)
    if major < MIN_DRIVER_MAJOR:
        return Fault(UNSUPPORTED, f"NVIDIA driver major version {major} {_BELOW}", str(major))
    return None


def _named(name: str, value: str) -> str:
    return f"{name} ({value})" if value else name


def _unsupported(nodes: Sequence[str]) -> str:
    return f"NVIDIA driver major version {_BELOW} on nodes: {some(nodes)}"


def _problem(nodes: Sequence[str]) -> str:
    return f"NVIDIA driver problem on nodes: {some(nodes)}"


def _invalid(nodes: Sequence[str]) -> str:
    return f"label {names.DRIVER_LABEL} is invalid on nodes: {some(nodes)}; {_MINIMUM}"


def _missing(nodes: Sequence[str]) -> str:
    return f"label {names.DRIVER_LABEL} is missing on nodes: {some(nodes)}; {_MINIMUM}"


# The first that some node has is told.
_SUMMARIES = {UNSUPPORTED: _unsupported, PROBLEM: _problem, INVALID: _invalid, MISSING: _missing}
