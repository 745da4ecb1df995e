"""
What one plan leaves to the next: nothing that a restart may not lose.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import attrs


@attrs.frozen
class Applied:
    """
    A DaemonSet as we left it.
    """

    uid: str
    generation: int
    spec_hash: str


@attrs.frozen
class Memory:
    """
    All of it; begins empty.

    Attributes:
        is_nri: the GPU Operator's mode, as it was last known; None before it was.
        policy_lost_since: when the ClusterPolicy that ran the NRI plugin was first missed; empty while it is there.
        daemonsets: by component, how we left each. Without an entry a DaemonSet is applied once, which changes nothing
            if nobody else did.
        errors: by component, why its DaemonSet could not be applied at the last try.
        lost_since: by node, when it was first seen without a label that it had.
        deleting_since: when the config was first seen deleting.
        stands_by: why nothing is done at all, as it was told; empty while something is.
    """

    is_nri: bool | None = None
    policy_lost_since: str = ""
    daemonsets: Mapping[str, Applied] = attrs.field(factory=dict)
    errors: Mapping[str, str] = attrs.field(factory=dict)
    lost_since: Mapping[str, str] = attrs.field(factory=dict)
    deleting_since: str = ""
    stands_by: str = ""

    def applied(self, component: str, applied: Applied) -> Memory:
        """
        Note that a DaemonSet is as we want it.
        """
        errors = {name: error for name, error in self.errors.items() if name != component}
        return attrs.evolve(self, daemonsets={**self.daemonsets, component: applied}, errors=errors)

    def failed(self, component: str, error: str) -> Memory:
        """
        Note that a DaemonSet could not be applied.
        """
        return attrs.evolve(self, errors={**self.errors, component: error})


def seconds_between(earlier: str, later: str) -> float:
    """
    Give the time between two texts of RFC 3339.
    """
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()
