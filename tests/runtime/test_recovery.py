"""What happens when the runtime or fractiond itself dies or hangs in the middle of work."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from lab import fractional, waiting
from lab.containerd import Containerd
from lab.cri import Cri
from lab.errors import CriError
from lab.fractiond import Fractiond

REQUIRED = {"required-plugins.noderesource.dev": '["gpu-fractioning"]'}


class TestRuntimeRestart:
    """containerd goes and comes back under 50 fractional containers."""

    @pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL], ids=lambda signum: signum.name)
    async def test_nothing_is_lost_and_nothing_stopped(
        self, containerd: Containerd, cri: Cri, tmp_path: Path, signum: signal.Signals
    ) -> None:
        """It reconnects by itself; containers go on running and keep their records."""
        async with Fractiond(containerd, directory=tmp_path) as fractiond:
            await fractiond.ready()
            containers = [await fractional.run(cri, f"pod-{number}") for number in range(50)]
            await fractiond.settled()
            before = fractiond.records()
            await containerd.stop(signum)
            await fractiond.service.wait_for_log("runtime_connection_ended")
            await fractiond.not_ready("not connected to the runtime")
            await containerd.start()
            await fractiond.ready()
            await fractiond.settled()

            assert before.keys() == set(containers)
            assert fractiond.records() == before
            assert await fractional.states(cri) == dict.fromkeys(containers, "running")
            assert await fractiond.metric("stops_total", result="stopped") == 0


class TestOwnDeath:
    """fractiond is killed while 200 containers are being created."""

    async def test_a_restart_under_the_defaults(self, containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
        """What slips through while the kubelet restarts it is stopped within 10 s, at the default pace."""
        loop = asyncio.get_running_loop()
        async with Fractiond(containerd, directory=tmp_path) as fractiond:
            await fractiond.ready()
            fractiond.service.signal(signal.SIGKILL)
            await fractiond.service.wait()
            started = [await fractional.run(cri, "first")]
            async with asyncio.TaskGroup() as group:
                group.create_task(_create(cri, 20, started), name="create")
                await fractiond.start()
                restarted = loop.time()
                await fractiond.ready()
            slipped = await fractional.unfenced(cri, started)
            await waiting.until_awaited(
                lambda: fractional.have_ended(cri, slipped), what="those to end", timeout_seconds=10
            )
            print(f"{containerd.version}: {len(slipped)} of {len(started)} slipped, {loop.time() - restarted:.1f} s")

            assert started[0] in slipped
            assert slipped != set(started)
            assert loop.time() - restarted < 10

    async def test_what_slipped_through_is_stopped(self, containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
        """Within 10 s of the restart every container that started unfenced has ended; no fenced one is touched."""
        async with Fractiond(containerd, directory=tmp_path, flags=["--stop-interval=20ms"]) as fractiond:
            await fractiond.ready()
            started: list[str] = []
            async with asyncio.TaskGroup() as group:
                creating = group.create_task(_create(cri, 200, started), name="create")
                await waiting.until(lambda: len(started) >= 50, what="50 containers", timeout_seconds=120)
                fractiond.service.signal(signal.SIGKILL)
                await fractiond.service.wait()
                before = len(started)
                await waiting.until(lambda: len(started) >= before + 8, what="8 to slip through", timeout_seconds=60)
                slipped = await fractional.unfenced(cri, list(started))
                await fractiond.start()
                restarted = asyncio.get_running_loop().time()
                await waiting.until_awaited(
                    lambda: fractional.have_ended(cri, slipped), what="those to end", timeout_seconds=10
                )
                took = asyncio.get_running_loop().time() - restarted
                await creating
            # Some were created while fractiond was starting.
            slipped |= await fractional.unfenced(cri, started)
            await waiting.until_awaited(
                lambda: fractional.have_ended(cri, slipped), what="the last to end", timeout_seconds=10
            )
            print(f"{containerd.version}: {len(slipped)} of {len(started)} slipped through, stopped {took:.1f} s later")
            now = await fractional.states(cri)
            # Those that were created unfenced, and refused when they were to start, are stopped as well.
            unfenced = await fractional.unfenced(cri, now)

            async def all_are_stopped() -> bool:
                return await fractiond.metric("stops_total", result="stopped") == len(unfenced)

            await waiting.until_awaited(all_are_stopped, what=f"{len(unfenced)} stops", timeout_seconds=30)

            assert len(slipped) >= 8
            assert slipped <= unfenced
            assert {now[container] for container in set(started) - slipped} == {"running"}


class TestHanging:
    """fractiond is stopped in its tracks for 5 s while containers are being created."""

    async def test_the_runtimes_validator_covers_the_whole_time(self, tmp_path: Path) -> None:
        """Where the runtime validates and a pod names fractiond as required, none starts unfenced."""
        async with Containerd("2.3", has_validator=True) as containerd, containerd.cri() as cri:
            async with Fractiond(containerd, directory=tmp_path) as fractiond:
                await fractiond.ready()
                before = await fractional.run(cri, "before", annotations=REQUIRED)
                since = len(fractiond.service.records())
                started = await _create_while_hanging(cri, fractiond, annotations=REQUIRED)
                # It may call itself ready until it has noticed that the runtime dropped it.
                await fractiond.service.wait_for_log("synchronized", since=since)
                after = await fractional.run(cri, "after", annotations=REQUIRED)

                assert started == []
                assert await fractional.unfenced(cri, [before, after]) == set()

    async def test_without_it_they_are_stopped_afterwards(
        self, containerd: Containerd, cri: Cri, tmp_path: Path
    ) -> None:
        """Without the validator those that started unfenced are stopped once fractiond is back."""
        async with Fractiond(containerd, directory=tmp_path, flags=["--stop-interval=20ms"]) as fractiond:
            await fractiond.ready()
            started = await _create_while_hanging(cri, fractiond, annotations={})
            slipped = await fractional.unfenced(cri, started)
            await fractiond.ready()
            await waiting.until_awaited(
                lambda: fractional.have_ended(cri, slipped), what="the unfenced to end", timeout_seconds=10
            )

            assert slipped, "none slipped through: the test proves nothing"
            assert slipped == set(started)

    async def test_our_validation_covers_the_creation_under_way(self, tmp_path: Path) -> None:
        """The creation that meets the hanging fractiond is refused where the runtime validates."""
        async with Containerd("2.3") as containerd, containerd.cri() as cri:
            async with Fractiond(containerd, directory=tmp_path) as fractiond:
                await fractiond.ready()
                pod = await cri.run_pod("pod", annotations=fractional.ANNOTATIONS)
                fractiond.service.signal(signal.SIGSTOP)
                with pytest.raises(CriError) as refusal:
                    await cri.create_container(pod, "main")
                fractiond.service.signal(signal.SIGCONT)

        assert "validator plugin 10-gpu-fractioning failed" in refusal.value.message


async def _create(cri: Cri, count: int, started: list[str]) -> None:
    for number in range(count):
        container = await fractional.run_if_let(cri, f"pod-{number}")
        if container is not None:
            started.append(container)


async def _create_while_hanging(cri: Cri, fractiond: Fractiond, *, annotations: dict[str, str]) -> list[str]:
    """Create containers for as long as fractiond hangs; give those that were let start."""
    loop = asyncio.get_running_loop()
    started, number = [], 0
    fractiond.service.signal(signal.SIGSTOP)
    until = loop.time() + 5
    while loop.time() < until:
        number += 1
        container = await fractional.run_if_let(cri, f"hanging-{number}", annotations=annotations)
        if container is not None:
            started.append(container)
    fractiond.service.signal(signal.SIGCONT)
    return started
