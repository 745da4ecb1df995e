"""Devices annotations against what the node really holds; the driver's listing is simulated, the rest is real."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab import fractional, waiting
from lab.containerd import Containerd
from lab.cri import Cri
from lab.devices import make_gpus, write_cdi_spec
from lab.errors import CriError
from lab.fractiond import Fractiond

KEY = "nvidia.com/container.main.gpus.devices"
OLD, NEW = "GPU-00000000-0000-0000-0000-00000000001d", "GPU-00000000-0000-0000-0000-00000000002e"


def list_gpus(proc: Path, *uuids: str) -> None:
    """Write what the driver shows under /proc/driver/nvidia/gpus."""
    gpus = proc / "driver/nvidia/gpus"
    for number, uuid in enumerate(uuids):
        directory = gpus / f"0000:{number:02x}:00.0"
        directory.mkdir(parents=True, exist_ok=True)
        text = f"Model: \t\t simulated\nIRQ:   \t\t 64\nGPU UUID: \t {uuid}\nDevice Minor: \t {number}\n"
        (directory / "information").write_text(text)


async def run_on(cri: Cri, devices: str) -> str:
    """Run a fractional container that was assigned these devices."""
    return await fractional.run(cri, "trainer", annotations={KEY: devices})


class TestGpus:
    """UUIDs that the annotation names and the driver does not show."""

    async def test_a_card_that_was_swapped(self, containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
        """The refusal names key, missing and present GPU; nothing is recorded, and retries are logged once."""
        list_gpus(tmp_path / "proc", NEW)
        async with Fractiond(containerd, directory=tmp_path, flags=[f"--proc-root={tmp_path}/proc"]) as fractiond:
            await fractiond.ready()
            pod = await cri.run_pod("trainer", annotations=fractional.ANNOTATIONS | {KEY: f"{NEW},{OLD}"})
            for _ in range(3):
                with pytest.raises(CriError) as refusal:
                    await cri.create_container(pod, "main")
            await fractiond.service.end()
            logged = [record for record in fractiond.service.records() if record["event"] == "container_refused"]

            assert f"{KEY}: {OLD} is not on this node; accepted: a GPU of this node ({NEW})" in refusal.value.message
            assert fractiond.records() == {}
            assert len(logged) == 1

    async def test_a_card_that_came_back(self, containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
        """A refusal makes fractiond look again at once, so that a retry finds the new card."""
        list_gpus(tmp_path / "proc", NEW)
        async with Fractiond(containerd, directory=tmp_path, flags=[f"--proc-root={tmp_path}/proc"]) as fractiond:
            await fractiond.ready()
            pod = await cri.run_pod("early", annotations=fractional.ANNOTATIONS | {KEY: OLD})
            list_gpus(tmp_path / "proc", OLD)
            # Before it looks again by itself, every 10 s.
            with pytest.raises(CriError):
                await cri.create_container(pod, "main")

            async def can_run() -> bool:
                try:
                    await run_on(cri, OLD)
                except CriError:
                    return False
                return True

            await waiting.until_awaited(can_run, what="the new card to be known", timeout_seconds=5)

    async def test_a_node_that_does_not_tell(self, containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
        """Where the driver shows nothing, nothing is refused."""
        async with Fractiond(containerd, directory=tmp_path, flags=[f"--proc-root={tmp_path}/proc"]) as fractiond:
            await fractiond.ready()
            container = await run_on(cri, OLD)
            await fractiond.settled()

            assert (await cri.status(container)).values_of("NVIDIA_VISIBLE_DEVICES") == (OLD,)
            assert fractiond.records()[container]["gpuDevices"] == [{"index": 0, "uuid": OLD}]


class TestCdiSpecs:
    """What CDI mode makes of devices that no spec lists."""

    async def test_a_spec_that_comes_later(self, containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
        """A GPU that is in no spec yet is refused, and accepted soon after its spec is there."""
        gpus = make_gpus(tmp_path / "dev", count=2)
        write_cdi_spec(containerd.cdi_dir, gpus[:1])
        flags = ["--inject-cdi-device", f"--cdi-spec-dirs={containerd.cdi_dir}"]
        async with Fractiond(containerd, directory=tmp_path, flags=flags) as fractiond:
            await fractiond.ready()
            with pytest.raises(CriError) as refusal:
                await run_on(cri, gpus[1].uuid)
            write_cdi_spec(containerd.cdi_dir, gpus)

            async def can_run() -> bool:
                try:
                    await run_on(cri, gpus[1].uuid)
                except CriError:
                    return False
                return True

            await waiting.until_awaited(can_run, what="the new spec to be known", timeout_seconds=30)

        assert f"{gpus[1].uuid} is in no CDI spec; known: {gpus[0].uuid}" in refusal.value.message

    async def test_an_index(self, containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
        """An index that no spec has as a name is refused, naming the key: nothing says which GPU it means there."""
        gpus = make_gpus(tmp_path / "dev", count=2)
        write_cdi_spec(containerd.cdi_dir, gpus)
        flags = ["--inject-cdi-device", f"--cdi-spec-dirs={containerd.cdi_dir}"]
        async with Fractiond(containerd, directory=tmp_path, flags=flags) as fractiond:
            await fractiond.ready()
            with pytest.raises(CriError) as refusal:
                await run_on(cri, "0")

        assert (
            f'{KEY}: "0" is refused: 0 is in no CDI spec; known: {gpus[0].uuid}, {gpus[1].uuid}'
            in refusal.value.message
        )
