"""The parts of fractiond put together, against a runtime in the same loop."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import attrs
import pytest
from fractiond import app
from fractiond.enforcer import Terms
from fractiond.fencing import Policy
from fractiond.inventory import Sources
from fractiond.metrics import Metrics
from fractiond.records import Records
from fractiond.settings import Settings
from fractiond.turn import Turn
from fractioning_core import names
from fractioning_core.errors import FractioningError, Unavailable
from fractioning_core.injection import Options
from fractioning_core.mapdir import MapDir
from fractioning_core.mapreader import MapReader
from fractioning_core.podannotations import Grammar
from fractioning_core.record import GpuDevice
from fractioning_core.service.backoff import RetryBudget, Schedule
from fractioning_core.testing.builders import a_record, annotations_for
from nri_aio.pb import nri_pb2 as pb
from nri_aio.testing import CreationFailed, FakeRuntime

LogLines = list[MutableMapping[str, Any]]

POD = pb.PodSandbox(
    id="p1", name="job-1", uid="uid-1", namespace="team-a", annotations=annotations_for(limit="1Gi", devices="GPU-a")
)
UNFENCED = pb.Container(id="c0", pod_sandbox_id="p1", name="main", state=pb.CONTAINER_RUNNING)


@pytest.fixture
def chosen(tmp_path: Path) -> Settings:
    """Settings under which everything lies in the test's own directory, and nothing listens."""
    return Settings(
        socket_path=str(tmp_path / "nri.sock"),
        cri_socket=str(tmp_path / "cri.sock"),
        map_dir=str(tmp_path / "map"),
        proc_root=str(tmp_path / "proc"),
        retry_interval_seconds=0.01,
        readiness_port=0,
    )


@asynccontextmanager
async def serving(chosen: Settings) -> AsyncIterator[None]:
    """Run fractiond beside a test, and end it as the first signal does."""
    stop = asyncio.Event()
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(app.serve(chosen, stop))
        try:
            yield
        finally:
            stop.set()


async def logged(log: LogLines, event: str) -> MutableMapping[str, Any]:
    """Wait for a line of the log."""
    while True:
        for line in log:
            if line["event"] == event:
                return line
        await asyncio.to_thread(lambda: None)


class TestServe:
    async def test_a_container_is_fenced_and_recorded(self, chosen: Settings) -> None:
        """From the runtime's question to the answer and the file, all parts work together."""
        async with FakeRuntime(chosen.socket_path) as runtime, serving(chosen):
            await runtime.wait_plugins()
            creation = await runtime.create_container(POD, pb.Container(id="c1", name="main"))

        assert {"NVIDIA_GPU_MEMORY_REQUEST": "1024", "NVIDIA_GPU_MEMORY_LIMIT": "1024"}.items() <= {
            pair.key: pair.value for pair in creation.adjust.env
        }.items()
        assert {
            "c1": a_record(
                pod="job-1",
                namespace="team-a",
                pod_uid="uid-1",
                gpu_devices=(GpuDevice(uuid="GPU-a"),),
                requested_memory_mib=1024,
                container="main",
                memory_request_mib=1024,
                memory_limit_mib=1024,
            )
        } == MapReader(chosen.map_dir).read()[0]

    async def test_bad_annotations_are_refused(self, chosen: Settings) -> None:
        """The refusal reaches whoever wanted the container, with its text."""
        pod = pb.PodSandbox(id="p1", name="job-1", namespace="team-a", annotations=annotations_for(limit="x"))
        async with FakeRuntime(chosen.socket_path) as runtime, serving(chosen):
            await runtime.wait_plugins()
            with pytest.raises(CreationFailed) as caught:
                await runtime.create_container(pod, pb.Container(id="c1", name="main"))

        assert 'container "main" in pod "team-a/job-1": ' in str(caught.value)

    async def test_it_registers_by_its_settings(self, chosen: Settings) -> None:
        """Name and index are what the runtime orders its plugins by."""
        async with (
            FakeRuntime(chosen.socket_path) as runtime,
            serving(attrs.evolve(chosen, plugin_name="other", plugin_idx="07")),
        ):
            await runtime.wait_plugins()
            registered = [peer.name for peer in runtime.plugins]

        assert ["07-other"] == registered

    async def test_it_comes_back_after_the_runtimes_restart(self, chosen: Settings) -> None:
        """A new runtime at the same place gets its plugin without a restart of ours."""
        async with serving(chosen):
            for _ in range(2):
                async with FakeRuntime(chosen.socket_path) as runtime:
                    await runtime.wait_plugins()
                    creation = await runtime.create_container(POD, pb.Container(id="c1", name="main"))

        assert ("10-gpu-fractioning",) == creation.answered

    async def test_the_gpus_of_the_node_are_known_before_the_first_container(
        self, chosen: Settings, tmp_path: Path
    ) -> None:
        """A UUID that the node does not have is refused from the start."""
        file = tmp_path / "proc/driver/nvidia/gpus/0/information"
        file.parent.mkdir(parents=True)
        file.write_text("GPU UUID: \t GPU-bbbb\n")
        async with FakeRuntime(chosen.socket_path) as runtime, serving(chosen):
            await runtime.wait_plugins()
            with pytest.raises(CreationFailed) as caught:
                await runtime.create_container(POD, pb.Container(id="c1", name="main"))

        assert "GPU-a is not on this node" in str(caught.value)


class TestRetroactiveEnforcement:
    @pytest.mark.parametrize(
        ("enforcement", "dry_run", "events"),
        [
            pytest.param(True, False, {"violation_found", "container_not_stopped"}, id="on, and CRI is away"),
            pytest.param(True, True, {"violation_found", "container_would_be_stopped"}, id="dry run"),
            pytest.param(False, False, set(), id="off"),
        ],
    )
    async def test_a_container_that_slipped_through_is_dealt_with_as_set(
        self,
        chosen: Settings,
        log: LogLines,
        enforcement: bool,  # noqa: FBT001  a row of the table
        dry_run: bool,  # noqa: FBT001  a row of the table
        events: set[str],
    ) -> None:
        """What is done about an unfenced container is the settings' choice; fencing goes on in any case."""
        chosen = attrs.evolve(chosen, retroactive_enforcement=enforcement, retroactive_dry_run=dry_run)
        state = [pb.SynchronizeRequest(pods=[POD], containers=[UNFENCED])]
        async with FakeRuntime(chosen.socket_path, state=state) as runtime, serving(chosen):
            await runtime.wait_plugins()
            # The comparison with CRI comes after the audit, so what the audit says is there by then.
            await logged(log, "containers_not_compared")
            for event in events:
                await logged(log, event)
            creation = await runtime.create_container(POD, pb.Container(id="c1", name="main"))

        relevant = {"violation_found", "container_not_stopped", "container_would_be_stopped"}
        assert events == {line["event"] for line in log} & relevant
        assert 1 == len(creation.answered)


class TestHttp:
    async def test_readiness_health_and_metrics_are_served(self, chosen: Settings, unused_tcp_port: int) -> None:
        """Not ready without a runtime, ready with one, and the families are on the page."""
        chosen = attrs.evolve(chosen, readiness_port=unused_tcp_port)
        base = f"http://127.0.0.1:{unused_tcp_port}"
        async with aiohttp.ClientSession() as session, serving(chosen):
            before = await _answer(session, f"{base}/readyz")
            async with FakeRuntime(chosen.socket_path) as runtime:
                await runtime.wait_plugins()
                during = await _answer(session, f"{base}/readyz")
                alive = await _answer(session, f"{base}/healthz")
                page = await _answer(session, f"{base}/metrics")

        assert 503 == before[0]
        assert [(200, "ok"), (200, "ok")] == [during, alive]
        assert all(
            f"gpu_fractioning_fractiond_{name}" in page[1]
            for name in (
                "runtime_connected 1.0",
                "record_queue_depth 0.0",
                "pending_stops 0.0",
                "connections_total 1.0",
            )
        )

    async def test_a_port_that_is_taken_does_not_stop_the_fencing(self, chosen: Settings, log: LogLines) -> None:
        """The probe will fail and tell; containers are fenced meanwhile."""
        with socket.create_server(("", 0)) as taken:
            port = taken.getsockname()[1]
            async with FakeRuntime(chosen.socket_path) as runtime, serving(attrs.evolve(chosen, readiness_port=port)):
                await runtime.wait_plugins()
                creation = await runtime.create_container(POD, pb.Container(id="c1", name="main"))

        assert 1 == len(creation.answered)
        assert f"port {port}" in (await logged(log, "http_not_served"))["error"]


class TestGivingUp:
    async def test_a_spent_budget_ends_it_with_an_expected_error(self, chosen: Settings) -> None:
        """Whoever set a limit of retries gets an exit with the reason, and no traceback."""
        with pytest.raises(ExceptionGroup) as caught:
            await app.serve(attrs.evolve(chosen, max_retries=2), asyncio.Event())

        (error,) = caught.value.exceptions
        assert isinstance(error, Unavailable)
        assert isinstance(error, FractioningError)
        assert "gave up on the runtime after 2 retries" in str(error)


class TestTheEnd:
    async def test_it_ends_while_nobody_answers(self, chosen: Settings) -> None:
        """Without a runtime, a CRI or a map directory the first signal is obeyed all the same."""
        async with serving(chosen):
            pass

        assert not Path(chosen.map_dir).exists()

    async def test_the_runtime_sees_the_plugin_go(self, chosen: Settings) -> None:
        """The connection is closed, so that the next creation does not run into a dead plugin."""
        async with FakeRuntime(chosen.socket_path) as runtime:
            async with serving(chosen):
                await runtime.wait_plugins()
            await runtime.wait_plugins(0)

        assert [] == runtime.plugins

    @pytest.mark.looptime
    async def test_unwritten_records_hold_it_up_for_two_seconds_at_most(self, metrics: Metrics, log: LogLines) -> None:
        """A stuck disk is told, and left to the next fractiond."""
        records = Records(MapDir("/nowhere"), metrics=metrics, log_events=False)
        records.put("c1", a_record())

        await app._drain(records, Turn())

        assert 2.0 == asyncio.get_running_loop().time()
        assert [("left_unfinished", 1, False)] == [
            (each["event"], each["records"], each["stop_under_way"]) for each in log
        ]

    @pytest.mark.looptime
    async def test_a_stop_under_way_does_too(self, metrics: Metrics, log: LogLines) -> None:
        """A graceful stop of ten minutes is not waited for."""
        turn = Turn()
        async with turn:
            await asyncio.create_task(app._drain(Records(MapDir("/nowhere"), metrics=metrics, log_events=False), turn))

        assert 2.0 == asyncio.get_running_loop().time()
        assert [("left_unfinished", 0, True)] == [
            (each["event"], each["records"], each["stop_under_way"]) for each in log
        ]

    @pytest.mark.looptime
    async def test_nothing_left_costs_nothing(self, metrics: Metrics, log: LogLines) -> None:
        """An idle fractiond ends at once, without a word."""
        await app._drain(Records(MapDir("/nowhere"), metrics=metrics, log_events=False), Turn())

        assert (0.0, []) == (asyncio.get_running_loop().time(), log)


class TestSettingsToParts:
    def test_policy(self) -> None:
        """How annotations are read and what is injected comes from five settings."""
        chosen = Settings(
            annotation_prefix="x/", support_sm_sharing=False, pipe_dir="/p", inject_cdi_device=True, fail_open=True
        )

        assert Policy(Grammar("x/", sm_sharing=False), Options("/p", inject_cdi=True), fail_open=True) == app._policy(
            chosen
        )

    @pytest.mark.parametrize(
        ("inject", "directories"),
        [pytest.param(True, (Path("/a"),), id="with CDI"), pytest.param(False, (), id="without, nobody looks")],
    )
    def test_sources(
        self,
        inject: bool,  # noqa: FBT001  a row of the table
        directories: tuple[Path, ...],
    ) -> None:
        """CDI specs are read only where their devices are requested."""
        chosen = Settings(proc_root="/host/proc", cdi_spec_dirs=("/a",), inject_cdi_device=inject)

        assert Sources(proc_root=Path("/host/proc"), cdi_spec_dirs=directories) == app._sources(chosen)

    def test_terms(self) -> None:
        """How stops are done comes from three settings."""
        chosen = Settings(stop_timeout_seconds=7.0, stop_interval_seconds=3.0, retroactive_dry_run=True)

        assert Terms(grace_seconds=7.0, interval_seconds=3.0, dry_run=True) == app._terms(chosen)

    def test_budget(self) -> None:
        """Waits begin at the interval and stay at a minute."""
        chosen = Settings(retry_interval_seconds=2.0, stable_threshold_seconds=9.0, max_retries=4)

        assert RetryBudget(4, 9.0, Schedule(first=2.0, cap=60.0)) == app._budget(chosen)


class TestMain:
    @pytest.mark.parametrize(
        ("argv", "status", "out", "err"),
        [
            pytest.param(["--help"], 0, "--pipe-dir", "", id="help"),
            pytest.param(["--version"], 0, "fractiond ", "", id="version"),
            pytest.param(["--max-retries=x"], 2, "", "--max-retries: ", id="bad flag"),
        ],
    )
    def test_questions_and_mistakes_end_before_anything_begins(
        self,
        argv: list[str],
        status: int,
        out: str,
        err: str,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """Help and version go to stdout with 0, mistakes to stderr with 2."""
        monkeypatch.setattr(sys, "argv", ["fractiond", *argv])

        with pytest.raises(SystemExit) as caught:
            app.main()

        said = capsys.readouterr()
        assert status == caught.value.code
        assert out in said.out
        assert err in said.err

    def test_a_malformed_variable_ends_it_too(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A typo in the environment must not quietly unfence a node."""
        monkeypatch.setattr(sys, "argv", ["fractiond"])
        monkeypatch.setenv("RETROACTIVE_ENFORCEMENT", "maybe")

        with pytest.raises(SystemExit) as caught:
            app.main()

        assert 2 == caught.value.code
        assert "RETROACTIVE_ENFORCEMENT: " in capsys.readouterr().err


class TestContract:
    def test_what_the_chart_and_the_controller_agree_on(self) -> None:
        """Port, map directory and pipe directory are the library's constants, which other programs use as well."""
        chosen = Settings()

        assert (names.READINESS_PORT, names.MAP_DIR, names.MPS_PIPE_DIR) == (
            chosen.readiness_port,
            chosen.map_dir,
            chosen.pipe_dir,
        )


async def _answer(session: aiohttp.ClientSession, url: str) -> tuple[int, str]:
    """Ask until somebody listens."""
    while True:
        try:
            async with session.get(url) as response:
                return response.status, await response.text()
        except aiohttp.ClientConnectorError:
            await asyncio.to_thread(lambda: None)
