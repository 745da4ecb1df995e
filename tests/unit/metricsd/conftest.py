"""What the tests of metricsd's shell share: a log to look into, and a snapshot that has one of everything."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any, TypeAlias

import pytest
import structlog
from metricsd.snapshot import (
    ContainerInPodOnGpu,
    ContainerUse,
    Enforcement,
    Gpu,
    PodOnGpu,
    PodUse,
    SilentGpu,
    Snapshot,
    Unattributed,
)

LogLines: TypeAlias = list[MutableMapping[str, Any]]

GIB = 2**30


@pytest.fixture
def log() -> Iterator[LogLines]:
    """Collect what is logged, whatever the level."""
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest.fixture
def snapshot() -> Snapshot:
    """
    A node with two GPUs, one of which does not tell its size: a pod that is held to its limits, and one that is not.
    """
    return Snapshot(
        pods=(
            PodUse(PodOnGpu("team-a", "train-0", "uid-1", "GPU-1", 0), 3 * GIB, 25.0, 50.0),
            PodUse(PodOnGpu("team-b", "idle-0", "uid-2", "GPU-2", 1), 0, 0.0, 0.0),
        ),
        containers=(
            ContainerUse(
                key=ContainerInPodOnGpu("team-a", "train-0", "uid-1", "main", "GPU-1", 0),
                memory_bytes=3 * GIB,
                request_bytes=4 * GIB,
                limit_bytes=8 * GIB,
                soft_limit_bytes=4 * GIB,
                hard_limit_bytes=8 * GIB,
                accounted_bytes=2 * GIB,
                enforcement=Enforcement.ENFORCED,
            ),
            ContainerUse(
                key=ContainerInPodOnGpu("team-b", "idle-0", "uid-2", "main", "GPU-2", 1),
                memory_bytes=0,
                request_bytes=None,
                limit_bytes=8 * GIB,
                soft_limit_bytes=0,
                hard_limit_bytes=None,
                accounted_bytes=0,
                enforcement=Enforcement.NO_LIMIT,
            ),
        ),
        containers_left_out=3,
        gpus=(Gpu(0, "GPU-1", 16 * GIB), Gpu(1, "GPU-2", None)),
        silent=(SilentGpu(2, "GPU-3", "NVML does not list it any more"),),
        processes_seen=6,
        processes_attributed=2,
        processes_unattributed={
            Unattributed.HOST: 1,
            Unattributed.UNANNOTATED: 0,
            Unattributed.NO_RECORD: 2,
            Unattributed.VANISHED: 1,
        },
        records=2,
        records_unreadable=1,
        driver_version="615.43.02",
    )
