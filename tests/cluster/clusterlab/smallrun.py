"""
A worker whose `/run` is a file system of its own, as it is on real nodes, and can be full.

    async with smallrun.on(release, "gpu-1") as run:    # the worker is rebooted for it, and again at the end
        with run.filled():                              # not a byte is left
            ...
"""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import attrs
from lab import waiting

from clusterlab import command
from clusterlab.release import FRACTIOND, Release

SIZE_MIB = 16
# The last is what the file system counts in.
_CHUNKS = (1 << 20, 1 << 12)
_SECONDS = 120.0


@attrs.frozen
class SmallRun:
    """
    The `/run` of a worker, as this machine sees it.
    """

    path: Path

    @contextmanager
    def filled(self) -> Iterator[None]:
        """
        Leave no space while entered.
        """
        filler = self.path / "filler"
        try:
            for size in _CHUNKS:
                _append(filler, bytes(size))
            yield
        finally:
            filler.unlink(missing_ok=True)


@asynccontextmanager
async def on(release: Release, name: str) -> AsyncIterator[SmallRun]:
    """
    Give a worker such a `/run` while entered.
    """
    run = release.cluster.worker(name).files.run
    try:
        await _reboot(release, name, f"size={SIZE_MIB}m")
        yield SmallRun(run)
    finally:
        if run.is_mount():
            # From here; the worker has its own mount of it until it ends.
            await command.run("umount", "--lazy", run)
        await _reboot(release, name)


async def _reboot(release: Release, name: str, options: str = "") -> None:
    before = await _starts(release, name)
    worker = release.cluster.worker(name)
    await worker.stop()
    if options:
        worker.files.run.mkdir()
        await command.run("mount", "-t", "tmpfs", "-o", options, "tmpfs", worker.files.run)
    await release.cluster.start_worker(name)

    async def is_back() -> bool:
        now = await _starts(release, name)
        return bool(now) and before.isdisjoint(now)

    # The API server has old news of the pods at first.
    await waiting.until_awaited(is_back, what=f"fractiond of {name} after a reboot", timeout_seconds=_SECONDS)
    await release.steady()


async def _starts(release: Release, node: str) -> set[str]:
    """
    Name the containers of fractiond's pods on a node.
    """
    pods = await release.pods(FRACTIOND, node=node)
    statuses = [each for pod in pods for each in pod["status"].get("containerStatuses", [])]
    return {each["containerID"] for each in statuses if "running" in each["state"]}


def _append(path: Path, data: bytes) -> None:
    """
    Append the same again and again until there is no space for it.
    """
    try:
        with path.open("ab", buffering=0) as file:
            while True:
                file.write(data)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
