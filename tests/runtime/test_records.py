"""Records on disks that are full, read-only, or were left by a fractiond that died."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab import fractional, waiting
from lab.containerd import Containerd
from lab.cri import Cri
from lab.fractiond import Fractiond


@contextmanager
def small_disk(at: Path) -> Iterator[Path]:
    """Mount a file system of 64 KiB."""
    at.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "small", str(at)], check=True)
    try:
        yield at
    finally:
        subprocess.run(["umount", str(at)], check=True)


def remount(at: Path, option: str) -> None:
    """Make a mounted file system `ro` or `rw`."""
    subprocess.run(["mount", "-o", f"remount,{option}", str(at)], check=True)


async def wait_for_records(fractiond: Fractiond, containers: set[str]) -> None:
    """Wait until exactly these containers have a record."""
    await waiting.until(
        lambda: fractiond.records().keys() == containers,
        what=f"records of {len(containers)} containers",
        timeout_seconds=20,
        details=fractiond.service.output,
    )


async def test_full_disk(containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
    """Containers are fenced though no record fits; once there is room all records are there, whole."""
    with small_disk(tmp_path / "map") as disk:
        async with Fractiond(containerd, directory=tmp_path) as fractiond:
            await fractiond.ready()
            filler = disk / "filler"
            _fill(filler)
            containers = [await fractional.run(cri, f"pod-{number}") for number in range(3)]
            await fractiond.service.wait_for_log("record_failed")
            while_full = fractiond.records()
            errors = await fractiond.metric("record_errors_total")
            filler.unlink()
            await wait_for_records(fractiond, set(containers))
            await fractiond.settled()

            assert await fractional.unfenced(cri, containers) == set()
            assert while_full == {}
            assert errors >= 1
            assert await fractiond.metric("record_queue_depth") == 0
            assert sorted(path.name for path in disk.iterdir()) == sorted(f"{name}.json" for name in containers)


async def test_read_only_disk(containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
    """The same where the file system is read-only for a while, removals included."""
    with small_disk(tmp_path / "map") as disk:
        async with Fractiond(containerd, directory=tmp_path) as fractiond:
            await fractiond.ready()
            early = await fractional.run(cri, "early")
            await wait_for_records(fractiond, {early})
            remount(disk, "ro")
            late = await fractional.run(cri, "late")
            await cri.remove(early)
            await fractiond.service.wait_for_log("record_failed", container_id=early)
            while_read_only = set(fractiond.records())
            remount(disk, "rw")
            await wait_for_records(fractiond, {late})

            assert await fractional.unfenced(cri, [late]) == set()
            assert while_read_only == {early}


async def test_a_writer_that_died(containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
    """After a kill -9 the records are those of the containers that exist: stale and half-written files are gone."""
    async with Fractiond(containerd, directory=tmp_path) as fractiond:
        await fractiond.ready()
        kept = await fractional.run(cri, "kept")
        gone = await fractional.run(cri, "gone")
        await wait_for_records(fractiond, {kept, gone})
        fractiond.service.signal(signal.SIGKILL)
        await fractiond.service.wait()
        await cri.remove(gone)
        (fractiond.map_dir / ".gpu-fractioning-half.tmp").write_text('{"schemaVersion":1,"po')
        await fractiond.start()
        await fractiond.ready()
        await waiting.until(
            lambda: [path.name for path in fractiond.map_dir.iterdir()] == [f"{kept}.json"],
            what="nothing but the one record",
            timeout_seconds=30,
        )

        assert fractiond.records().keys() == {kept}


async def test_the_last_one_gone_while_nobody_looked(containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
    """A runtime that lists no container at all is believed only when CRI says the same; then stale records go."""
    async with Fractiond(containerd, directory=tmp_path) as fractiond:
        await fractiond.ready()
        only = await fractional.run(cri, "only")
        await wait_for_records(fractiond, {only})
        await fractiond.service.end()
        await cri.remove_all_pods()
        assert fractiond.records().keys() == {only}
        await fractiond.start()
        await wait_for_records(fractiond, set())


def _fill(path: Path) -> None:
    """Write until nothing more fits."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 512)
