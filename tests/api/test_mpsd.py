"""
mpsd as a program in a pod: a real API server, a mounted ServiceAccount of one right, and the control daemon of Debian
behind simulated r615.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import pytest_asyncio
from apilab import objects
from apilab.controlplane import ControlPlane
from apilab.front import Front
from apilab.place import PATCH_NODES, Place
from fractioning_core import names
from fractioning_core.kube.nodes import Nodes
from fractioning_core.rpc.mpsclient import MpsClient
from fractioning_core.rpc.mpsvalues import LabelStatus
from lab import waiting
from lab.mpsd import Mpsd
from simgpu.state import Machine

# NVML is asked every 10 s.
UPGRADE_SECONDS = 30.0
RSS_BAR_MIB = 64.0
# The text of /proc/driver/nvidia/version.
MODULE = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Sat Aug  1 12:00:00 UTC 2026\n"


@pytest_asyncio.fixture
async def permitted(place: Place) -> Place:
    """
    A place whose account may patch nodes, and nothing else.
    """
    await objects.grant(place.admin, place.account, PATCH_NODES)
    return place


async def label_status(mpsd: Mpsd) -> LabelStatus:
    """
    Ask mpsd itself, as `mpsd status` does.
    """
    async with MpsClient.at(str(mpsd.rpc_socket)) as client:
        return (await client.status()).label


class TestLabel:
    async def test_one_right(self, permitted: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """
        Ready and labelled with the right to patch nodes alone, within the memory that a daemon on every node may take.
        """
        async with permitted.mpsd(tmp_path) as mpsd:
            await mpsd.ready()
            await permitted.labelled("615")
            # mpsd itself knows once the answer to its write is there.
            await mpsd.service.wait_for_log("node_labelled", value="615")
            rss_mib = mpsd.service.usage().rss_kib / 1024
            status = await label_status(mpsd)

            assert ("615", "", 200) == (status.value, status.problem, (await mpsd.get("/readyz")).status)
        with capsys.disabled():
            print(f"\nmpsd in a pod: RSS {rss_mib:.1f} MiB, at most {RSS_BAR_MIB:g}")  # noqa: T201 - to be seen
        assert rss_mib <= RSS_BAR_MIB

    async def test_while_parked(self, permitted: Place, tmp_path: Path) -> None:
        """
        Without the control daemon's program the node is labelled all the same; once it is there, it runs within one
        back-off.
        """
        program = tmp_path / "bin/nvidia-cuda-mps-control"
        program.parent.mkdir()
        async with permitted.mpsd(tmp_path, flags=[f"--mps-binary={program}", "--backoff=5s"]) as mpsd:
            body = await mpsd.not_ready("is not there")
            await permitted.labelled("615")
            own, before = mpsd.service.pid, mpsd.daemons()
            begun = asyncio.get_running_loop().time()
            program.symlink_to(mpsd.driver.control)
            await waiting.until(mpsd.socket.exists, what="the control socket", timeout_seconds=20.0)
            took = asyncio.get_running_loop().time() - begun
            await mpsd.ready()

            assert ([], own, None) == (before, mpsd.service.pid, mpsd.service.exit_code)
            assert str(program) in body
            # Two back-offs would be ten seconds; a start takes its time on a busy machine.
            assert took < 5.0 + 4.0


class TestOutage:
    async def test_gone_at_start(self, permitted: Place, plane: ControlPlane, tmp_path: Path) -> None:
        """
        Without an API server MPS runs and mpsd is ready; the label follows when it returns, and nothing was restarted.

        It lasts some 10 s. One that is longer than the longest wait between attempts, which is a minute, is in
        `test_driver_label`, where that wait is shorter.
        """
        await plane.stop()
        try:
            async with permitted.mpsd(tmp_path) as mpsd:
                await mpsd.ready()
                refusal = await mpsd.service.wait_for_log("node_not_labelled")
                daemon, own = mpsd.daemon(), mpsd.service.pid
                async with _polled(mpsd, "/readyz") as answers:
                    await asyncio.sleep(8.0)
                    await plane.start()
                await permitted.labelled("615", timeout_seconds=40.0)

                assert ("unreachable", {200}) == (refusal["kind"], {answer.status for answer in answers})
                assert (daemon, own, None) == (mpsd.daemon(), mpsd.service.pid, mpsd.service.exit_code)
        finally:
            if not plane.is_running:
                # A test that failed half-way; the tests after it are not to pay for it.
                await plane.start()


class TestDriver:
    async def test_too_old(self, permitted: Place, tmp_path: Path) -> None:
        """
        Below r615 the node is labelled with what it has and MPS is held back with the reason; an upgrade starts it and
        changes the label, without a restart of mpsd.
        """
        async with permitted.mpsd(tmp_path, machine=Machine(driver="580.95.05")) as mpsd:
            await permitted.labelled("580")
            body = await mpsd.not_ready("r580")
            own, before = mpsd.service.pid, mpsd.daemons()
            mpsd.machine.write(Machine(driver="615.43.02"))
            await mpsd.ready(timeout_seconds=UPGRADE_SECONDS)
            await permitted.labelled("615")

            assert "r615 or newer is needed" in body
            assert ([], 1) == (before, len(mpsd.daemons()))
            assert (own, None) == (mpsd.service.pid, mpsd.service.exit_code)

    async def test_half_upgraded(self, permitted: Place, tmp_path: Path) -> None:
        """
        A newer library over a loaded module holds MPS back and leaves the label alone, with both versions in the
        reason; when they match again the label follows and MPS runs, without a restart of mpsd.
        """
        await Nodes(permitted.admin, field_manager="before").patch(permitted.node, labels={names.DRIVER_LABEL: "615"})
        module = tmp_path / "driver/nvidia/version"
        module.parent.mkdir(parents=True)
        module.write_text(MODULE.format("615.43.02"))
        machine = Machine(driver="615.43.02", library="620.10.01", errors={"Init": 18})
        seen = {Path("/proc/driver"): tmp_path / "driver"}
        async with permitted.mpsd(tmp_path, machine=machine, seen=seen) as mpsd:
            body = await mpsd.not_ready("mismatch")
            async with _polled(mpsd, "/readyz") as answers:
                # Further readings after 1, 2 and 4 s find the same.
                await asyncio.sleep(8.0)
            own, before = mpsd.service.pid, mpsd.daemons()
            kept, writers = await permitted.label(), await permitted.label_writers()
            problem = await permitted.driver_problem()
            module.write_text(MODULE.format("620.10.01"))
            mpsd.machine.write(Machine(driver="620.10.01"))
            await mpsd.ready(timeout_seconds=UPGRADE_SECONDS)
            await permitted.labelled("620")

            assert ("615.43.02" in body, "620.10.01" in body) == (True, True)
            assert ({503}, [], "615") == ({answer.status for answer in answers}, before, kept)
            assert ({"before"}, True, "") == (writers, "mismatch" in problem, await permitted.driver_problem())
            assert (own, None, 1) == (mpsd.service.pid, mpsd.service.exit_code, len(mpsd.daemons()))

    async def test_nvml_hangs(self, permitted: Place, tmp_path: Path) -> None:
        """
        While NVML hangs for 30 s, mpsd answers at once, 20 times a second, and MPS runs; then the label is written.
        """
        async with permitted.mpsd(tmp_path, machine=Machine(latency_ms=3_600_000)) as mpsd:
            await waiting.until(mpsd.socket.exists, what="the control socket", timeout_seconds=10.0)
            daemon = mpsd.daemon()
            async with _polled(mpsd, "/healthz") as answers:
                await mpsd.not_ready("driver starting, 30 s", timeout_seconds=40.0)
                up = await mpsd.metric("daemon_up")
                mpsd.machine.write(Machine())
                await mpsd.ready(timeout_seconds=UPGRADE_SECONDS)
            await permitted.labelled("615")

            assert (1.0, daemon, None) == (up, mpsd.daemon(), mpsd.service.exit_code)
            assert {200} == {answer.status for answer in answers}
            assert len(answers) > 200
            # NVML hangs for longer than all of this takes.
            assert max(answer.seconds for answer in answers) < 5.0


@attrs.frozen
class Answer:
    """
    The status of an answer, and how long it took.
    """

    status: int
    seconds: float


@asynccontextmanager
async def _polled(mpsd: Mpsd, path: str) -> AsyncIterator[Sequence[Answer]]:
    """
    Ask for a page every 50 ms while entered; gives the growing list of answers.
    """
    loop = asyncio.get_running_loop()
    answers: list[Answer] = []
    left = asyncio.Event()

    async def poll() -> None:
        while not left.is_set():
            begun = loop.time()
            answer = await mpsd.get(path)
            answers.append(Answer(answer.status, loop.time() - begun))
            await asyncio.sleep(0.05)

    async with asyncio.TaskGroup() as group:
        group.create_task(poll())
        yield answers
        left.set()


class TestToken:
    async def test_invalid(self, permitted: Place, tmp_path: Path) -> None:
        """
        A token that stays invalid is told as 401 by the status at once and by readiness after half a minute, while MPS
        runs; the label follows when a valid one is there.
        """
        valid = permitted.pod.token
        permitted.pod.swap("made-up")
        async with permitted.mpsd(tmp_path) as mpsd:
            await mpsd.ready()
            await mpsd.service.wait_for_log("node_not_labelled", kind="unauthorized")
            status = await label_status(mpsd)
            body = await mpsd.not_ready("node not labelled", timeout_seconds=45.0)
            up = await mpsd.metric("daemon_up")
            attempts = mpsd.service.records()
            permitted.pod.swap(valid)
            # The wait between attempts has grown to half a minute.
            await permitted.labelled("615", timeout_seconds=60.0)
            await mpsd.ready()

            assert "401 from the API server" in status.reason
            assert "401 from the API server" in body
            assert 1.0 == up
            # One line for the whole of it, not one for each attempt.
            assert 1 == len([record for record in attempts if record["event"] == "node_not_labelled"])

    async def test_three_swaps(self, permitted: Place, plane: ControlPlane, tmp_path: Path) -> None:
        """
        Each swap by the kubelet costs at most one refused patch, and the label goes on being written.
        """
        async with Front(plane, newest=lambda: permitted.pod.token) as front:
            place = attrs.evolve(permitted, pod=permitted.pod.at(front.url))
            async with place.mpsd(tmp_path) as mpsd:
                for major in (615, 616, 617, 618):
                    mpsd.machine.write(Machine(driver=f"{major}.1"))
                    await place.labelled(str(major), timeout_seconds=UPGRADE_SECONDS)
                    # The answer to it is through as well, or it would be cut with the old token.
                    await mpsd.service.wait_for_log("node_labelled", value=str(major))
                    place.pod.swap(await objects.issue_token(place.admin, place.account))
                await mpsd.ready()

        assert 4 == front.passed["PATCH"]
        assert front.refused["PATCH"] <= 3
