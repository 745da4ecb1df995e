"""A CRI socket that is missing, slow or refusing: the audit says what it could not do and tries again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from lab import fractional, waiting
from lab.containerd import Containerd
from lab.cri import Cri
from lab.fractiond import Fractiond
from lab.wires import Wire, untouched


async def slip_through(cri: Cri) -> str:
    """Run a fractional container while there is no fractiond."""
    return await fractional.run(cri, "slipped")


async def test_missing(containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
    """Without a socket injection works and the violator is named; when the socket appears, it is stopped."""
    slipped = await slip_through(cri)
    socket = tmp_path / "cri.sock"
    async with Fractiond(containerd, directory=tmp_path, cri_socket=socket) as fractiond:
        await fractiond.ready()
        said = await fractiond.service.wait_for_log("container_not_stopped", container_id=slipped)
        fenced = await fractional.run(cri, "fenced")
        pending = await fractiond.metric("pending_stops")
        socket.symlink_to(containerd.cri_socket)
        await fractiond.service.wait_for_log("container_stopped", container_id=slipped, timeout_seconds=20)

        assert "No such file or directory" in said["error"]
        assert said["reasons"][0] == "env:NVIDIA_GPU_MEMORY_REQUEST missing"
        assert pending == 1
        assert await fractional.unfenced(cri, [fenced]) == set()
        assert (await fractional.states(cri))[slipped] == "exited"
        assert await fractiond.metric("stops_total", result="failed") >= 1
        assert await fractiond.metric("stops_total", result="stopped") == 1


def refuse(data: bytes) -> None:
    """Cut the connection at the runtime's first word."""


def stay_silent(data: bytes) -> bytes:
    """Pass nothing on."""
    return b""


@pytest.mark.parametrize("mangle", [refuse, stay_silent], ids=["refusing", "silent"])
async def test_refusing_or_silent(
    containerd: Containerd, cri: Cri, tmp_path: Path, mangle: Callable[[bytes], bytes | None]
) -> None:
    """A socket that cuts or never answers is tried again until it works; meanwhile injection goes on."""
    slipped = await slip_through(cri)
    async with Wire(tmp_path / "cri.sock", containerd.cri_socket) as wire:
        wire.mangle = mangle
        flags = ["--stop-timeout=1s"]
        async with Fractiond(
            containerd, directory=tmp_path, cri_socket=tmp_path / "cri.sock", flags=flags
        ) as fractiond:
            await fractiond.ready()
            await fractiond.service.wait_for_log("containers_not_compared", timeout_seconds=20)
            await fractiond.service.wait_for_log("container_not_stopped", timeout_seconds=30)
            fenced = await fractional.run(cri, "fenced")
            wire.mangle = untouched
            wire.cut()
            await waiting.until_awaited(
                lambda: fractional.have_ended(cri, [slipped]), what="the violator to end", timeout_seconds=60
            )

            assert await fractional.unfenced(cri, [fenced]) == set()
            assert (await fractional.states(cri))[fenced] == "running"


async def test_slow(containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
    """A socket that takes its time delays the stop and nothing else."""
    slipped = await slip_through(cri)
    async with Wire(tmp_path / "cri.sock", containerd.cri_socket) as wire:
        wire.delay_seconds = 0.5
        async with Fractiond(containerd, directory=tmp_path, cri_socket=tmp_path / "cri.sock") as fractiond:
            await fractiond.ready()
            fenced = await fractional.run(cri, "fenced")
            await fractiond.service.wait_for_log("container_stopped", container_id=slipped, timeout_seconds=30)

            assert await fractional.unfenced(cri, [fenced]) == set()
            assert await fractional.have_ended(cri, [slipped])
