"""
metricsd on the machine's own NVML. Nothing is simulated, so that it runs only where it is asked for: GPU=real.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from lab.metricsd import PREFIX
from lab.program import Program

pytestmark = pytest.mark.skipif(
    os.environ.get("GPU") != "real", reason="needs a GPU and its driver; set GPU=real where there are some"
)


async def test_every_gpu_is_listed(tmp_path: Path) -> None:
    """
    NVML is up, and the page lists the very GPUs that nvidia-smi does.
    """
    uuids = listed_uuids()
    flags = [f"--map-dir={tmp_path / 'map'}", "--metrics-interval=2s"]
    program = Program("metricsd", flags, port_flag="--metrics-address=127.0.0.1:", directory=tmp_path)
    try:
        await program.start()
        # A driver without persistence takes its time.
        await program.ready(timeout_seconds=60.0)
        up = await program.metric(f"{PREFIX}nvml_up")
        page = (await program.get("/metrics")).body
    finally:
        await program.end()

    assert 1.0 == up
    assert uuids != []
    assert [uuid for uuid in uuids if f'gpu_memory_size_known{{gpu_uuid="{uuid}"' not in page] == []


def listed_uuids() -> list[str]:
    argv = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
