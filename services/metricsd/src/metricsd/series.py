"""
Which series of pods stay though nothing is behind them in this cycle.

A series that was once there stays, at zero, until its pod is gone: one that comes and goes with every process is hard
to compute with. Pods are told apart by UID, since a successor may have the same name; GPUs by UUID, since a driver may
number them anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from metricsd.gpus import Gpus
from metricsd.snapshot import PodOnGpu


def lasting(
    before: Iterable[PodOnGpu], now: Iterable[PodOnGpu], *, active_uids: AbstractSet[str], gpus: Gpus
) -> set[PodOnGpu]:
    """
    Give the keys of all series to show.

    Args:
        before: Those shown last.
        now: Those that this cycle found.
        active_uids: UIDs of the pods that are here.
        gpus: As they are numbered now.
    """
    indices = {device.uuid: index for index, device in gpus.items()}
    kept = {_as_of_now(key, gpus, indices) for key in before if key.pod_uid in active_uids}
    kept.update(now)
    return kept


def _as_of_now(key: PodOnGpu, gpus: Gpus, indices: Mapping[str, int]) -> PodOnGpu:
    if key.gpu_uuid:
        return key._replace(gpu_index=indices.get(key.gpu_uuid, key.gpu_index))
    # A GPU whose UUID was not known at first is shown with it now.
    device = gpus.get(key.gpu_index)
    return key if device is None else key._replace(gpu_uuid=device.uuid)
