"""
NVML as NVIDIA's own Python binding has it, in a process of its own that finds the simulated library.

    with Reader(driver.library, environ=state.environ) as nvml:
        nvml.ask("nvmlDeviceGetUUID(gpu(0))")
        nvml.ask("limits(0, '/tree/kubepods/pod1')")        # [soft, hard, used]

What is asked is an expression over the names of pynvml and those below. NVML is started anew for each.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import attrs

_PROGRAM = """
import json, sys
import pynvml
from pynvml import *

gpu = nvmlDeviceGetHandleByIndex

def listed(processes):
    return [[process.pid, process.usedGpuMemory] for process in processes]

def samples(index, since):
    return [[one.pid, one.smUtil, one.memUtil] for one in nvmlDeviceGetProcessUtilization(gpu(index), since)]

def set_limits(index, path, soft, hard):
    limits = c_nvmlSetMemoryLimits_v1_t(path.encode(), soft, hard)
    nvmlDeviceSetMemoryLimits_v1(gpu(index), limits)

def limits(index, path):
    limits = c_nvmlGetMemoryLimits_v1_t(path.encode())
    nvmlDeviceGetMemoryLimits_v1(gpu(index), limits)
    return [limits.softLimit, limits.hardLimit, limits.currentUsed]

for line in sys.stdin:
    try:
        nvmlInit()
        try:
            answer = {"value": eval(line)}
        finally:
            nvmlShutdown()
    except NVMLError as error:
        answer = {"error": error.value}
    print(json.dumps(answer), flush=True)
"""


@attrs.frozen
class NvmlFailed(Exception):  # noqa: N818 - what NVML did
    """
    NVML returned this error.
    """

    code: int


class Reader:
    """
    A process that asks NVML.

    Args:
        library: Which of the simulated ones.
        environ: Its variables, which lead to the state.
    """

    def __init__(self, library: Path, *, environ: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**environ, "LD_LIBRARY_PATH": str(library.parent)},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, expression: str) -> Any:  # noqa: ANN401 - whatever the expression gives, by way of JSON
        """
        Have an expression evaluated.

        Raises:
            NvmlFailed: A function in it returned an error.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{expression}\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise NvmlFailed(answer["error"])
        return answer["value"]

    def error_of(self, expression: str) -> int:
        """
        Give the error that an expression meets; 0 for none.
        """
        try:
            self.ask(expression)
        except NvmlFailed as error:
            return error.code
        return 0
