"""
Sees what really runs on the workers and whether its fence is there, without asking daemons, runtime or API server.

    witness = Witness(cluster)
    task = group.create_task(witness.run())         # looks every quarter of a second, until it is cancelled
    witness.fenced_pods()                           # whose containers ran fenced at the last look
    witness.journal                                 # everything since the first, see `spells`

It reads the kernel's tree of cgroups and /proc. A container that is to be fenced says so itself, by variables of its
pod's own (`marks`), and has its fence when these three are there:

    environment     request and limit in the process, and the directory of the MPS pipe
    mount           the worker's own pipe directory at that place
    driver          the limit in the simulated driver, for the container's cgroup and its GPU

A container that runs for less than a quarter of a second may be missed. One that is refused never runs its program.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import attrs
from fractioning_core import names
from simgpu.limits import LimitsFile

from clusterlab import nvidia, processes
from clusterlab.cluster import Cluster
from clusterlab.spells import Journal
from clusterlab.worker import RunningWorker

Identity = tuple[int, int]
LOOK_SECONDS = 0.25
_POD, _LIMIT_MIB, _GPU = "WITNESS_POD", "WITNESS_LIMIT_MIB", "WITNESS_GPU"
# That of v2, and one of those of v1: a worker's cgroups are in either.
_HIERARCHIES = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/memory"))
_FRACTIOND_LOGS = "pods/*-fractiond-*/fractiond/*.log"


def marks(pod: str, *, limit_mib: int, gpu: str) -> list[dict[str, str]]:
    """
    Give the variables by which a container of a pod is known as one that is to have this limit on this GPU.
    """
    values = {_POD: pod, _LIMIT_MIB: str(limit_mib), _GPU: gpu}
    return [{"name": name, "value": value} for name, value in values.items()]


@attrs.frozen
class Seen:
    """
    A running container that is to be fenced.

    Args:
        pod: Of which pod, by name.
        lacks: What of the fence is missing, of what does not change while it runs.
        driver_key: Where the driver has its limit.
        limit_bytes: What that is to be.
    """

    pod: str
    lacks: tuple[str, ...]
    driver_key: tuple[str, Path]
    limit_bytes: int

    def missing(self, limits: Mapping[tuple[str, Path], int]) -> tuple[str, ...]:
        """
        Tell all that is missing of its fence, given the hard limits that the driver has.
        """
        has = limits.get(self.driver_key)
        return self.lacks if has == self.limit_bytes else (*self.lacks, f"driver: {has}, not {self.limit_bytes}")


@attrs.define
class Witness:
    """
    Looks at the workers with GPUs again and again.
    """

    cluster: Cluster
    journal: Journal = attrs.field(factory=Journal)
    synchronized: dict[str, list[float]] = attrs.field(factory=dict)
    """
    When each worker's fractiond was, as its log tells; nothing else is taken from there.
    """
    _seen: dict[tuple[str, int], Seen] = attrs.field(factory=dict)
    _pods: dict[str, str] = attrs.field(factory=dict)
    _offsets: dict[Path, int] = attrs.field(factory=dict)

    async def run(self) -> None:
        """
        Look for ever.
        """
        while True:
            started = time.monotonic()
            await asyncio.to_thread(self.look)
            await asyncio.sleep(max(0.0, started + LOOK_SECONDS - time.monotonic()))

    def look(self) -> None:
        """
        Look once.
        """
        for worker in self.cluster.running_workers():
            if worker.worker.gpus:
                self._look_at(worker)

    def fenced_pods(self) -> set[str]:
        """
        Name the pods of containers that had their fence at the last look.
        """
        return {self._pods[container] for container in self.journal.fenced()}

    def containers(self, pod: str) -> set[str]:
        """
        List the containers of a pod that ran at the last look, fenced or not.
        """
        return {container for container in self.journal.running() if self._pods[container] == pod}

    def pod_of(self, container_id: str) -> str:
        """
        Name the pod of a container that was seen.
        """
        return self._pods[container_id]

    def _look_at(self, worker: RunningWorker) -> None:
        # In this order: a container that is alive afterwards was alive when the records were listed.
        records = {path.stem for path in (worker.files.run / "gpu-fractioning" / "map").glob("*.json")}
        # Before and after: a container may start or end in between, and its limit with it.
        limits = _limits(worker)
        seen = dict(self._iter_containers(worker))
        limits |= _limits(worker)
        self._pods |= {container: each.pod for container, each in seen.items()}
        found = {container: each.missing(limits) for container, each in seen.items()}
        self.journal.note(worker.worker.name, time.time(), found, records=records)
        times = self.synchronized.setdefault(worker.worker.name, [])
        times += [at for log in worker.files.log.glob(_FRACTIOND_LOGS) for at in self._new_synchronizes(log)]

    def _iter_containers(self, worker: RunningWorker) -> Iterator[tuple[str, Seen]]:
        pipes = _identity(worker.files.run / Path(names.MPS_PIPE_DIR).name)
        for cgroup in _iter_cgroups(worker.cgroup.lstrip("/")):
            found = (self._process(cgroup, pid, pipes) for pid in _pids(cgroup / "cgroup.procs"))
            each = next(filter(None, found), None)
            if each is not None:
                yield cgroup.name, each

    def _process(self, cgroup: Path, pid: int, pipes: Identity | None) -> Seen | None:
        """
        Look at a process; None where it does not run a marked container's program, or not yet.
        """
        key = (cgroup.name, pid)
        if key not in self._seen:
            environment = processes.environment(pid)
            if _POD not in environment:
                return None
            mounted = _identity(Path(f"/proc/{pid}/root{names.MPS_PIPE_DIR}"))
            if not processes.environment(pid):
                # It ended meanwhile, and what it had mounted went with it.
                return None
            self._seen[key] = _judge(environment, cgroup, has_pipes=mounted is not None and mounted == pipes)
        return self._seen[key]

    def _new_synchronizes(self, log: Path) -> list[float]:
        """
        Read what was written since the last look; a line that is still being written waits for the next.
        """
        try:
            with log.open("rb") as file:
                file.seek(self._offsets.get(log, 0))
                text = file.read()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._offsets[log] = self._offsets.get(log, 0) + len(whole)
        return synchronizes(whole.decode(errors="replace"))


def synchronizes(text: str) -> list[float]:
    """
    Give the times of all Synchronizes that fractiond's log tells, by the clock of the runtime that has written it down.
    """
    lines = [line for line in text.splitlines() if '"event": "synchronized"' in line]
    return [datetime.fromisoformat(line.partition(" ")[0]).timestamp() for line in lines]


def _judge(environment: Mapping[str, str], cgroup: Path, *, has_pipes: bool) -> Seen:
    limit_mib = environment[_LIMIT_MIB]
    expected = {
        names.ENV_MEMORY_REQUEST: limit_mib,
        names.ENV_MEMORY_LIMIT: limit_mib,
        names.ENV_MPS_PIPE_DIRECTORY: names.MPS_PIPE_DIR,
        names.ENV_VISIBLE_DEVICES: environment[_GPU],
    }
    lacks = [
        f"{name}: {environment.get(name)}, not {value}"
        for name, value in expected.items()
        if environment.get(name) != value
    ]
    if not has_pipes:
        lacks.append(f"mount: {names.MPS_PIPE_DIR}")
    return Seen(environment[_POD], tuple(lacks), (environment[_GPU], _seen_at(cgroup)), int(limit_mib) << 20)


def _iter_cgroups(name: str) -> Iterator[Path]:
    """
    Yield the cgroups of a worker's containers, in one hierarchy; others may vanish meanwhile.
    """
    for hierarchy in _HIERARCHIES:
        for parent, _, _ in os.walk(hierarchy / name):
            path = Path(parent)
            if path.parent.name.startswith("pod"):
                yield path


def _seen_at(cgroup: Path) -> Path:
    """
    Give the path by which the simulated driver knows a cgroup: where managers of v2 see it.
    """
    hierarchy = next(each for each in reversed(_HIERARCHIES) if cgroup.is_relative_to(each))
    return _HIERARCHIES[0] / cgroup.relative_to(hierarchy)


def _limits(worker: RunningWorker) -> dict[tuple[str, Path], int]:
    return {limit.key: limit.hard_bytes for limit in LimitsFile(nvidia.state(worker.files)).read()}


def _pids(procs: Path) -> Sequence[int]:
    try:
        return [int(line) for line in procs.read_text().split()]
    except OSError:
        # The cgroup has gone (ENOENT, ENODEV).
        return []


def _identity(path: Path) -> Identity | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
