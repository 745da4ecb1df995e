"""
The wall clock of the product's programs, moved while they run.

    async with wallclock.movable(release) as clock:     # all daemons and the controller are started anew for it
        clock.move(86400)                               # a day ahead, at once
        clock.move(0)

The kernel has no namespace for this clock, and other programs of the machine need theirs. So the programs get a library
that answers in the C library's place (`clockshift.c`): what they ask of the clock is shifted; runtime, kubelet and API
server keep the true time. The library reaches the daemons' containers through the simulated NVIDIA runtime, and the
controller's through its Deployment.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import attrs
from lab import waiting

from clusterlab import command, processes
from clusterlab.release import DEPLOYMENT, FRACTIOND, MPSD, PODS, Release
from clusterlab.worker import RunningWorker

DAEMONS = ("fractiond", "metricsd", "mpsd")
CONTROLLER = "controller"
_LIBRARY, _OFFSET = "clockshift.so", "offset"
_SOURCE = Path(__file__).with_name("clockshift.c")
_RUNTIME = Path(__file__).with_name("clockruntime.py")
_VOLUME = "clockshift"
_SECONDS = 120.0


@attrs.frozen
class Clock:
    """
    The wall clock of all programs that have the library of a directory.
    """

    directory: Path

    @property
    def library(self) -> Path:
        """
        What they have.
        """
        return self.directory / _LIBRARY

    def move(self, seconds: int) -> None:
        """
        Let it differ from the true time by so much from now on.
        """
        fresh = self.directory / f"{_OFFSET}.new"
        fresh.write_text(str(seconds))
        fresh.replace(self.directory / _OFFSET)


@asynccontextmanager
async def movable(release: Release) -> AsyncIterator[Clock]:
    """
    Run daemons and controller with a clock that can be moved while entered, and as they were afterwards.
    """
    clock = await _build(release.cluster.layout.base / "clock")
    before = (await release.api.get(DEPLOYMENT) or {})["spec"]["template"]["spec"]
    try:
        with ExitStack() as stack:
            for name in release.gpu_nodes():
                stack.enter_context(_preloading(release.cluster.worker(name), clock.library))
            await _start_anew(release, _preloaded(before, clock))
            await _all_have(release, clock.library, is_there=True)
            yield clock
    finally:
        await _start_anew(release, before)
        await _all_have(release, clock.library, is_there=False)


async def _build(directory: Path) -> Clock:
    clock = Clock(directory)
    directory.mkdir(exist_ok=True)
    await command.run(
        *("cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"),
        *(f'-DOFFSET="{directory / _OFFSET}"', _SOURCE, "-o", clock.library),
    )
    clock.move(0)
    return clock


@contextmanager
def _preloading(worker: RunningWorker, library: Path) -> Iterator[None]:
    """
    Let the worker's runtime give the library to the daemons' containers.
    """
    program = worker.files.etc / "nvidia-container-runtime"
    plain, fresh = program.with_suffix(".plain"), program.with_suffix(".new")
    shutil.copy2(program, plain)
    editing = f'{Path(sys.executable).resolve()} -IS {_RUNTIME} {library} {",".join(DAEMONS)} "$@"'
    fresh.write_text(f'#!/bin/sh\ncase " $* " in *" create "*) {editing} || exit 1 ;; esac\nexec {plain} "$@"\n')
    fresh.chmod(0o755)
    fresh.replace(program)
    try:
        yield
    finally:
        plain.replace(program)


def _preloaded(pod: Mapping[str, Any], clock: Clock) -> Mapping[str, Any]:
    """
    Give the spec of the controller's pods with the library in it.
    """
    directory = str(clock.directory)
    (container,) = pod["containers"]
    mounts = [*container.get("volumeMounts", []), {"name": _VOLUME, "mountPath": directory, "readOnly": True}]
    env = [*container["env"], {"name": "LD_PRELOAD", "value": str(clock.library)}]
    volume = {"name": _VOLUME, "hostPath": {"path": directory}}
    return {
        "containers": [{**container, "env": env, "volumeMounts": mounts}],
        "volumes": [*pod.get("volumes", []), volume],
    }


async def _start_anew(release: Release, controller: Mapping[str, Any]) -> None:
    """
    Replace all pods of the product, the controller's by some with this spec.
    """
    spec = {"containers": controller["containers"], "volumes": controller.get("volumes")}
    await release.api.patch(DEPLOYMENT, {"spec": {"template": {"spec": spec}}})
    for pod in [*await release.pods(FRACTIOND), *await release.pods(MPSD)]:
        await release.api.delete(f"{PODS}/{pod['metadata']['name']}")
        await release.api.until_gone(f"{PODS}/{pod['metadata']['name']}", timeout_seconds=_SECONDS)
    await release.api.until(DEPLOYMENT, _is_rolled_out, what="the new controller", timeout_seconds=_SECONDS)
    await release.steady()


async def _all_have(release: Release, library: Path, *, is_there: bool) -> None:
    """
    Wait until every program of the product has the library or has it not, and the controller's old pods are gone.
    """

    def have() -> bool:
        maps = [
            Path(f"/proc/{pid}/maps").read_text()
            for worker in release.cluster.running_workers()
            for name in (*DAEMONS, CONTROLLER)
            for pid in processes.running(worker, name)
        ]
        expected = len(DAEMONS) * len(release.gpu_nodes()) + 1
        return len(maps) == expected and all((str(library) in text) == is_there for text in maps)

    await waiting.until(have, what=f"{library.name} in all programs or none", timeout_seconds=_SECONDS)


def _is_rolled_out(found: Mapping[str, Any]) -> bool:
    status = found["status"]
    counts = [status.get(each, 0) for each in ("replicas", "updatedReplicas", "availableReplicas")]
    return counts == [1, 1, 1] and status.get("observedGeneration") == found["metadata"]["generation"]
