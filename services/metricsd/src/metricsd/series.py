"""
Which series of pods stay though nothing is behind them in this cycle.

A series that was once there stays, at zero, until its pod is gone: one that comes and goes with every process is hard
to compute with. Pods are told apart by UID, since a successor may have the same name.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from metricsd.snapshot import PodOnGpu


def lasting(before: Iterable[PodOnGpu], now: Iterable[PodOnGpu], active_uids: AbstractSet[str]) -> set[PodOnGpu]:
    """
    Give the keys of all series to show.

    Args:
        before: Those shown last.
        now: Those that this cycle found.
        active_uids: UIDs of the pods that are here.
    """
    kept = {key for key in before if key.pod_uid in active_uids}
    kept.update(now)
    nameless = [key for key in kept if not key.gpu_uuid]
    if nameless:
        # A GPU whose UUID was not known at first is now shown with it.
        named = {_place(key) for key in kept if key.gpu_uuid}
        kept.difference_update(key for key in nameless if _place(key) in named)
    return kept


def _place(key: PodOnGpu) -> tuple[str, int]:
    return key.pod_uid, key.gpu_index
