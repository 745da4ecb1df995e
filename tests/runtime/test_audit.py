"""Containers that run without what creation would inject: found, said, stopped; and what is left alone."""

from __future__ import annotations

import asyncio
import signal
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest
from lab import fractional, waiting
from lab.containerd import Containerd
from lab.cri import Cri
from lab.fractiond import Fractiond
from lab.wires import Wire

LIMITED = fractional.ANNOTATIONS


async def run(cri: Cri, name: str, annotations: dict[str, str], **options: object) -> str:
    """Run a container named main in a pod of its own, whoever watches."""
    pod = await cri.run_pod(name, annotations=annotations)
    container = await cri.create_container(pod, "main", **options)  # type: ignore[arg-type] # passed on as it is
    await cri.start(container)
    return container


class TestViolators:
    """Containers that were created while there was no fractiond."""

    @pytest.mark.parametrize(
        ("options", "reason"),
        [
            pytest.param({}, "env:NVIDIA_GPU_MEMORY_LIMIT missing", id="nothing at all"),
            pytest.param(
                {"env": [("NVIDIA_GPU_MEMORY_LIMIT", "99999"), ("NVIDIA_GPU_MEMORY_REQUEST", "1024")]},
                'env:NVIDIA_GPU_MEMORY_LIMIT is "99999", expected "1024"',
                id="a limit of its own",
            ),
            pytest.param({"mounts": [("/tmp", "{pipe}")]}, "mount:{pipe} comes from /tmp", id="another pipe directory"),
        ],
    )
    async def test_stopped_with_every_reason(
        self, containerd: Containerd, cri: Cri, tmp_path: Path, options: dict[str, list[tuple[str, str]]], reason: str
    ) -> None:
        """What is there is compared with what creation would inject, by value."""
        pipe = str(tmp_path / "mps")
        mounts = [(source, destination.format(pipe=pipe)) for source, destination in options.get("mounts", [])]
        container = await run(cri, "slipped", LIMITED, env=options.get("env", []), mounts=mounts)
        async with Fractiond(containerd, directory=tmp_path) as fractiond:
            stopped = await fractiond.service.wait_for_log("container_stopped", container_id=container)

            assert reason.format(pipe=pipe) in stopped["reasons"]
            assert (await cri.status(container)).state == "exited"
            assert await fractiond.metric("stops_total", result="stopped") == 1

    async def test_annotations_that_creation_refuses(self, containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
        """A container whose limit cannot be read runs without one, so it is stopped as well."""
        container = await run(cri, "slipped", {"nvidia.com/container.main.gpu-memory.limit": "banana"})
        async with Fractiond(containerd, directory=tmp_path) as fractiond:
            stopped = await fractiond.service.wait_for_log("container_stopped", container_id=container)

            assert "banana" in stopped["reasons"][0]

    async def test_created_but_not_started(self, containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
        """One that was created while nobody looked is refused when it is started."""
        pod = await cri.run_pod("slipped", annotations=LIMITED)
        flags = ["--retroactive-enforcement=false"]
        container = await cri.create_container(pod, "main")
        async with Fractiond(containerd, directory=tmp_path, flags=flags) as fractiond:
            await fractiond.ready()
            with pytest.raises(Exception, match="env:NVIDIA_GPU_MEMORY_LIMIT missing"):
                await cri.start(container)

            assert await fractiond.metric("containers_total", outcome="rejected_at_start") == 1

    async def test_one_after_another(self, containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
        """Stops never overlap, and lie the interval apart; each container is stopped once."""
        containers = [await run(cri, f"slipped-{number}", LIMITED, command=fractional.STUBBORN) for number in range(3)]
        flags = ["--stop-timeout=1s", "--stop-interval=1s"]
        async with Fractiond(containerd, directory=tmp_path, flags=flags) as fractiond:
            ends = [await fractiond.service.wait_for_log("container_stopped", container_id=each) for each in containers]
            times = sorted(datetime.fromisoformat(end["time"]).timestamp() for end in ends)

            # Each takes its second of grace, and the interval comes on top.
            assert [later - earlier >= 1.9 for earlier, later in pairwise(times)] == [True, True]
            assert await fractiond.metric("stops_total", result="stopped") == 3

    async def test_dry_run(self, containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
        """A dry run says and counts what would be stopped, and stops nothing."""
        container = await run(cri, "slipped", LIMITED)
        async with Fractiond(containerd, directory=tmp_path, flags=["--retroactive-dry-run"]) as fractiond:
            await fractiond.service.wait_for_log("container_would_be_stopped", container_id=container)

            assert (await cri.status(container)).state == "running"
            assert await fractiond.metric("stops_total", result="dry_run") == 1
            assert await fractiond.metric("stops_total", result="stopped") == 0

    async def test_switched_off(self, containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
        """Without retroactive enforcement nothing is judged."""
        container = await run(cri, "slipped", LIMITED)
        flags = ["--retroactive-enforcement=false"]
        async with Fractiond(containerd, directory=tmp_path, flags=flags) as fractiond:
            await fractiond.ready()
            await fractiond.service.wait_for_log("synchronized", containers=1)

            assert (await cri.status(container)).state == "running"
            assert await fractiond.metric("violations_total", kind="unfenced") == 0


class TestLeftAlone:
    """Containers that were fenced when they were made."""

    async def test_restart_of_fractiond(self, containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
        """What one fractiond fenced the next one finds in order: both modes, with devices, and unannotated ones."""
        key = "nvidia.com/container.main"
        async with Fractiond(containerd, directory=tmp_path) as fractiond:
            await fractiond.ready()
            containers = [
                await run(cri, "plain", {}),
                await run(cri, "sliced", LIMITED | {f"{key}.gpus.devices": "GPU-1,GPU-2"}),
                await run(cri, "shared", LIMITED | {f"{key}.gpu-compute.mode": "sm-sharing"}),
            ]
            await fractiond.settled()
            records = fractiond.records()
            await fractiond.service.end()
            await fractiond.start()
            await fractiond.ready()
            await fractiond.settled()

            assert fractiond.service.records()[-1]["event"] != "violation_found"
            assert [await fractiond.metric("violations_total", kind=kind) for kind in ("unfenced", "different")] == [
                0,
                0,
            ]
            assert await fractional.states(cri) == dict.fromkeys(containers, "running")
            assert fractiond.records() == records

    async def test_rules_that_became_stricter(self, containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
        """A fenced container whose annotations creation would refuse today is reported and goes on running."""
        mode = {"nvidia.com/container.main.gpu-compute.mode": "sm-sharing"}
        async with Fractiond(containerd, directory=tmp_path) as fractiond:
            await fractiond.ready()
            container = await run(cri, "shared", LIMITED | mode)
        async with Fractiond(containerd, directory=tmp_path, flags=["--support-sm-sharing=false"]) as stricter:
            found = await stricter.service.wait_for_log("violation_found", container_id=container)
            await stricter.ready()

            assert found["kind"] == "tolerated"
            assert (await cri.status(container)).state == "running"


class TestRegistration:
    """A registration waits for whoever is being stopped on the node."""

    async def test_a_long_graceful_stop(self, containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
        """The creation comes through after the stop, one connection is made, and the log names who was stopped."""
        async with Fractiond(containerd, directory=tmp_path) as fractiond, asyncio.TaskGroup() as group:
            await fractiond.ready()
            pod = await cri.run_pod("slow", namespace="team", annotations={})
            stubborn = await cri.create_container(pod, "main", command=fractional.STUBBORN)
            await cri.start(stubborn)
            plain = await cri.run_pod("plain")
            fractiond.service.signal(signal.SIGKILL)
            await fractiond.service.wait()
            stopping = group.create_task(cri.stop(stubborn, grace_seconds=20), name="stop")
            await asyncio.sleep(1)
            await fractiond.start()
            said = await fractiond.service.wait_for_log("synchronize_delayed", timeout_seconds=15)
            unready = await fractiond.get("/readyz")
            container = await cri.create_container(plain, "main")
            await stopping
            await fractiond.ready()
            arrived = await fractiond.service.wait_for_log("synchronize_arrived")

            assert "registered, waiting for the runtime's synchronise" in said["state"]
            assert unready.status == 503
            assert arrived["ended_meanwhile"] == [f"team/slow/main {stubborn[:12]}"]
            assert await fractiond.metric("connections_total") == 1
            assert await fractiond.metric("delayed_synchronizations_total") == 1
            assert (await cri.status(container)).state == "created"

    async def test_not_while_a_stop_of_our_own_is_under_way(
        self, containerd: Containerd, cri: Cri, tmp_path: Path
    ) -> None:
        """After a lost connection fractiond registers only when its own stop has ended."""
        stubborn = await run(cri, "slipped", LIMITED, command=fractional.STUBBORN)
        flags = ["--stop-timeout=4s"]
        async with Fractiond(containerd, directory=tmp_path, flags=flags) as fractiond:
            await fractiond.service.wait_for_log("violation_found", container_id=stubborn)
            await fractiond.ready()
            since = len(fractiond.service.records())
            await asyncio.sleep(0.5)
            await containerd.stop(signal.SIGKILL)
            await containerd.start()
            await fractiond.ready(timeout_seconds=30)
            await waiting.until_awaited(
                lambda: fractional.have_ended(cri, [stubborn]), what="the violator to end", timeout_seconds=30
            )
            events = [record["event"] for record in fractiond.service.records()[since:]]

            assert "runtime_registered" in events


class TestUnreported:
    """A container that the runtime did not tell of when it synchronised us."""

    async def test_found_through_cri(self, containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
        """CRI's list is compared with what NRI told; what NRI missed is judged by its spec, and stopped if unfenced."""
        slipped = await run(cri, "slipped", LIMITED)
        plain = await run(cri, "plain", {})
        async with Wire(tmp_path / "nri.sock", containerd.nri_socket) as wire:
            # The runtime's list now names a container that does not exist in place of the one that does.
            wire.mangle = lambda data: data.replace(slipped.encode(), b"0" * len(slipped))
            async with Fractiond(containerd, directory=tmp_path, nri_socket=tmp_path / "nri.sock") as fractiond:
                said = await fractiond.service.wait_for_log("container_unreported", container_id=slipped)
                stopped = await fractiond.service.wait_for_log("container_stopped", container_id=slipped)

                assert (said["namespace"], said["pod"], said["container"]) == ("default", "slipped", "main")
                assert "env:NVIDIA_GPU_MEMORY_LIMIT missing" in stopped["reasons"]
                assert await fractiond.metric("unreported_containers_total") == 1
                assert await fractional.states(cri) == {slipped: "exited", plain: "running"}
