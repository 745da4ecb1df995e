"""
A process that reads the simulated NVML, and the folder in which it finds the library, which a test may exchange.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from simgpu import programs
from simgpu.programs import MissingDriver
from simgpu.state import Machine, StateFile

# Asks NVML what each line of input names, and answers with one line of JSON. `ticks` shows that the loop went on.
READER = """
import asyncio, inspect, json, os, sys, threading
from fractioning_core.nvml.client import Nvml
from fractioning_core.nvml.errors import NvmlError
from fractioning_core.nvml.monitor import NvmlMonitor
from fractioning_core.nvml.samples import LimitsQuery
import attrs

async def ticking(count):
    while True:
        await asyncio.sleep(0.01)
        count.append(1)

def plain(value):
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return attrs.asdict(value) if attrs.has(type(value)) else value

async def main(kind, deadline_seconds):
    if kind == "monitor":
        context = NvmlMonitor.of_driver(interval_seconds=5.0, deadline_seconds=deadline_seconds)
    else:
        context = Nvml.of_driver(deadline_seconds=deadline_seconds)
    count = []
    async with context as nvml:
        ticker = asyncio.get_running_loop().create_task(ticking(count))
        while line := await asyncio.to_thread(sys.stdin.readline):
            what, queries = json.loads(line)
            arguments = [] if queries is None else [[LimitsQuery(*query) for query in queries]]
            count.clear()
            try:
                value = getattr(nvml, what)(*arguments)
                answer = {"value": plain(await value if inspect.isawaitable(value) else value)}
            except NvmlError as error:
                answer = {"error": type(error).__name__, "text": str(error)}
            threads = [thread for thread in threading.enumerate() if thread.name == "nvml"]
            answer |= {"ticks": len(count), "fds": len(os.listdir("/proc/self/fd")), "threads": len(threads)}
            print(json.dumps(answer), flush=True)
        ticker.cancel()

asyncio.run(main(sys.argv[1], float(sys.argv[2])))
"""


class Reader:
    """
    A process that reads NVML, and the folder in which it finds the library.
    """

    def __init__(self, folder: Path, kind: str, *, environ: Mapping[str, str], deadline_seconds: float) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", READER, kind, str(deadline_seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**environ, "LD_LIBRARY_PATH": str(folder)},
        )

    def ask(self, what: str, queries: Sequence[tuple[int, str]] | None = None) -> dict[str, Any]:
        """
        Have it call a method, with limits to ask for where it takes any, and give its answer.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([what, queries]) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def end(self) -> int:
        """
        End its input, and give its exit status.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            return self._process.wait(5)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()


class Scene:
    """
    A library in a folder, the state of the machine, which at first has r615 and no GPU, and readers of it.
    """

    def __init__(self, folder: Path) -> None:
        try:
            self.driver = programs.locate()
        except MissingDriver as error:
            pytest.fail(str(error), pytrace=False)
        self.state = StateFile(folder / "simgpu")
        self.state.write(Machine())
        self.folder = folder / "lib"
        self.folder.mkdir()
        self.readers: list[Reader] = []
        self.install(self.driver.library)

    def install(self, library: Path) -> None:
        """
        Put a library in the place of the one before, as an installer does: a new file under the old name.
        """
        shutil.copy(library, self.folder / "new")
        (self.folder / "new").replace(self.folder / "libnvidia-ml.so.1")

    def reader(self, *, deadline_seconds: float = 10.0) -> Reader:
        """
        Start a process that opens NVML for each reading, as mpsd does.
        """
        return self._start("reader", deadline_seconds)

    def monitor(self, *, deadline_seconds: float = 10.0) -> Reader:
        """
        Start one that keeps it open, as metricsd does.
        """
        return self._start("monitor", deadline_seconds)

    def end(self) -> None:
        """
        End them all.
        """
        while self.readers:
            self.readers.pop().end()

    def _start(self, kind: str, deadline_seconds: float) -> Reader:
        reader = Reader(self.folder, kind, environ=self.state.environ, deadline_seconds=deadline_seconds)
        self.readers.append(reader)
        return reader
