"""
The memory limits that the simulated driver keeps, read and changed behind its back.

    limits = LimitsFile(state)
    limits.put(Limit("GPU-1", directory, soft_bytes=0, hard_bytes=1 << 30))      # as somebody else's hook might
    limits.remove("GPU-1", directory)                                            # as a bug of the driver's might

The file lies beside the state. What is put here holds for a directory of that name, which need not be there yet; what
the driver itself was told holds for the very directory that was there.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import attrs

from simgpu.state import StateFile

MAX = 2**64 - 1
"""
The hard limit that is none.
"""
_ANY_IDENTITY = "-"


def _without_links(path: Path) -> Path:
    # The driver knows a cgroup by its own path.
    return path.resolve()


@attrs.frozen
class Limit:
    """
    What a cgroup has on one GPU.

    Args:
        uuid: Of the GPU.
        directory: Of the cgroup, without links.
        soft_bytes: What is guaranteed.
        hard_bytes: The most that can be allocated.
        identity: Which directory of that name it holds for; any when left out.
    """

    uuid: str
    directory: Path = attrs.field(converter=_without_links)
    soft_bytes: int
    hard_bytes: int
    identity: str = attrs.field(default=_ANY_IDENTITY, eq=False)

    @property
    def key(self) -> tuple[str, Path]:
        """
        What has one limit at a time.
        """
        return (self.uuid, self.directory)


class LimitsFile:
    """
    The file that belongs to a state.
    """

    def __init__(self, state: StateFile) -> None:
        self.path = state.path.with_name(f"{state.path.name}.limits")

    def read(self) -> tuple[Limit, ...]:
        """
        List what is set, also for directories that are gone.
        """
        try:
            text = self.path.read_text()
        except FileNotFoundError:
            return ()
        return tuple(_parse(line) for line in text.splitlines())

    def put(self, *limits: Limit) -> None:
        """
        Set limits, in the place of those which the same cgroups had on the same GPUs.
        """
        new = {limit.key: limit for limit in limits}
        with self._locked():
            self._write({limit.key: limit for limit in self.read()} | new)

    def remove(self, uuid: str, directory: Path) -> None:
        """
        Forget the limit that a cgroup has on a GPU, if any.
        """
        key = (uuid, directory.resolve())
        with self._locked():
            self._write({limit.key: limit for limit in self.read() if limit.key != key})

    def _write(self, limits: Mapping[tuple[str, Path], Limit]) -> None:
        new = self.path.with_name(f"{self.path.name}.new")
        new.write_text("".join(map(_render, limits.values())))
        new.replace(self.path)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self.path.with_name(f"{self.path.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _parse(line: str) -> Limit:
    uuid, soft, hard, identity, directory = line.split(" ", 4)
    return Limit(uuid, Path(directory), soft_bytes=int(soft), hard_bytes=int(hard), identity=identity)


def _render(limit: Limit) -> str:
    return f"{limit.uuid} {limit.soft_bytes} {limit.hard_bytes} {limit.identity} {limit.directory}\n"
