"""
The questions that metricsd asks NVML in a cycle, asked by nvidia-ml-py's own functions, as anybody would write it.

    metrics_loop.py CYCLES PAUSE_MS < queries      a query is a line: GPU index, space, cgroup directory

Prints the seconds of each cycle, a line each. It attributes nothing: it does what the C program beside it does.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import pynvml

WINDOW_US = 5_000_000


def cycle(queries: Sequence[tuple[int, bytes]]) -> None:
    """
    Ask everything once.
    """
    since_us = time.time_ns() // 1000 - WINDOW_US
    pynvml.nvmlSystemGetDriverVersion()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    for handle in handles:
        pynvml.nvmlDeviceGetUUID(handle)
        pynvml.nvmlDeviceGetMinorNumber(handle)
        pynvml.nvmlDeviceGetMemoryInfo(handle)
        pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
        pynvml.nvmlDeviceGetGraphicsRunningProcesses(handle)
        pynvml.nvmlDeviceGetProcessUtilization(handle, since_us)
    for index, cgroup in queries:
        pynvml.nvmlDeviceGetMemoryLimits_v1(handles[index], pynvml.c_nvmlGetMemoryLimits_v1_t(nameSpace=cgroup))


def main() -> None:
    """
    Ask again and again, and print how long it took.
    """
    cycles, pause_seconds = int(sys.argv[1]), int(sys.argv[2]) / 1000
    lines = (line.rstrip("\n").partition(" ") for line in sys.stdin)
    queries = [(int(index), cgroup.encode()) for index, _, cgroup in lines]
    pynvml.nvmlInit()
    for _ in range(cycles):
        began = time.perf_counter()
        cycle(queries)
        print(f"{time.perf_counter() - began:.9f}", flush=True)
        time.sleep(pause_seconds)


if __name__ == "__main__":
    main()
