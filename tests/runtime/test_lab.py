from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from lab import devices, sweep, toolchain
from lab.containerd import Containerd
from lab.cri import Cri
from lab.errors import CriError, Died, MissingToolchain, Overdue
from lab.image import Image
from lab.process import Service, http_get


class TestContainerd:
    async def test_runs_the_version_it_was_asked_for(self, containerd: Containerd, cri: Cri) -> None:
        """
        The runtime that answers is the one whose name the fixture bears.
        """
        version = await cri.version()

        assert version.startswith(f"{containerd.version}.")

    @pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
    async def test_containers_outlive_a_restart(self, containerd: Containerd, cri: Cri, signum: signal.Signals) -> None:
        """
        A container runs on while its containerd is away, and is known to the next one.
        """
        container = await cri.create_container(await cri.run_pod("survivor"), "main")
        await cri.start(container)
        before = await cri.status(container)

        await containerd.stop(signum)
        with pytest.raises(CriError, match="UNAVAILABLE"):
            await cri.version()
        await containerd.start()

        assert before == await cri.status(container)

    async def test_the_request_timeout_can_be_chosen(self) -> None:
        """
        Options reach the configuration file that containerd reads.
        """
        runtime = Containerd("2.3", request_timeout="700ms")

        async with runtime:
            text = runtime.layout.config.read_text()

        assert 'plugin_request_timeout = "700ms"' in text
        assert 'plugin_registration_timeout = "5s"' in text

    async def test_a_missing_toolchain_names_the_command(self) -> None:
        """
        A version that was not made is an error that says how to make it.
        """
        with pytest.raises(MissingToolchain) as caught:
            Containerd("9.9")

        assert str(caught.value).endswith("is not there; make it with: scripts/toolchain 9.9")


class TestLeaving:
    @pytest.mark.parametrize("version", toolchain.VERSIONS)
    async def test_leaves_nothing_when_the_scene_failed(self, version: str) -> None:
        """
        With containers left running and an error on the way out, no process, mount, cgroup, socket or file stays.
        """
        runtime = Containerd(version)
        sockets: list[Path] = []
        with pytest.raises(RuntimeError, match="scene"):
            await self._fail_in(runtime, sockets)

        assert sockets
        assert _remains(runtime, sockets) == []

    @pytest.mark.parametrize("version", toolchain.VERSIONS)
    async def test_leaves_nothing_when_containerd_was_killed(self, version: str) -> None:
        """
        The containers of a containerd that is already dead are removed too.
        """
        async with Containerd(version) as runtime:
            await _run_something(runtime)
            await runtime.stop(signal.SIGKILL)
            running = sweep.cgroup_pids(runtime.cgroup)
            sockets = sweep.shim_sockets(runtime.layout.state)

        assert len(running) == 2
        assert sockets
        assert _remains(runtime, sockets) == []

    async def test_leaves_nothing_when_it_does_not_start(self) -> None:
        """
        A containerd that ends at once is reported with its log, and its directory is gone.
        """
        runtime = Containerd("2.3", request_timeout="soon")
        with pytest.raises(Died, match="soon"):
            async with runtime:
                pass

        assert _remains(runtime, []) == []

    async def _fail_in(self, runtime: Containerd, sockets: list[Path]) -> None:
        async with runtime:
            await _run_something(runtime)
            sockets += sweep.shim_sockets(runtime.layout.state)
            raise RuntimeError("the scene failed")


class TestCri:
    async def test_a_container_runs_and_is_gone_afterwards(self, cri: Cri) -> None:
        """
        A container goes through its whole life, and neither it nor its pod is listed after its removal.
        """
        pod = await cri.run_pod("hello", annotations={"example.com/a": "b"})
        container = await cri.create_container(pod, "main")
        states = [(await cri.status(container)).state]
        await cri.start(container)
        states.append((await cri.status(container)).state)
        said = await cri.exec(container, ["/bin/echo", "hello"])
        await cri.stop(container)
        ended = await cri.wait_for_state(container, "exited")
        await cri.remove(container)
        await cri.remove_pod(pod)

        assert ["created", "running", "exited"] == [*states, ended.state]
        assert ended.exit_code == 128 + signal.SIGKILL
        assert said == "hello\n"
        assert await cri.list_containers() == ()
        assert await cri.list_pods() == ()

    async def test_a_variable_listed_twice_arrives_twice(self, cri: Cri) -> None:
        """
        Duplicates in the environment keep their number and order down to the spec.
        """
        pod = await cri.run_pod("twice")
        container = await cri.create_container(pod, "main", env=[("A", "1"), ("B", "x"), ("A", "2")])

        status = await cri.status(container)

        assert ("1", "2") == status.values_of("A")

    async def test_mounts_and_devices_arrive(self, cri: Cri, tmp_path: Path) -> None:
        """
        What is mounted and passed in is visible in the spec and inside the container.
        """
        (tmp_path / "file").write_text("from the host")
        gpus = devices.make_gpus(tmp_path / "dev")
        container = await cri.create_container(
            await cri.run_pod("mounts"),
            "main",
            mounts=[(str(tmp_path), "/data")],
            devices=[(str(gpus[1].node), "/dev/nvidia1")],
        )
        await cri.start(container)

        status = await cri.status(container)
        assert (str(tmp_path), "/data") in status.mounts
        assert "/dev/nvidia1" in status.devices
        assert await cri.exec(container, ["/bin/cat", "/data/file"]) == "from the host"
        assert await cri.exec(container, ["/bin/stat", "-c", "%t %T", "/dev/nvidia1"]) == "c3 1\n"

    async def test_cdi_devices_are_found_in_the_private_directory(self, containerd: Containerd, cri: Cri) -> None:
        """
        A device published while containerd runs is resolved by its UUID, and an unknown one refused.
        """
        gpus = devices.make_gpus(containerd.layout.base / "dev")
        devices.write_cdi_spec(containerd.cdi_dir, gpus)
        pod = await cri.run_pod("cdi")
        container = await cri.create_container(pod, "main", cdi_devices=[gpus[0].cdi_name])
        status = await cri.status(container)
        with pytest.raises(CriError) as caught:
            await cri.create_container(pod, "other", cdi_devices=[f"{devices.CDI_KIND}=all"])

        assert (gpus[0].uuid,) == status.values_of("CDI_GPU_0")
        assert "/dev/nvidia0" in status.devices
        assert f"{devices.CDI_KIND}=all" in caught.value.message

    async def test_the_environment_of_an_image_comes_first(self) -> None:
        """
        A variable that both an image and its container set is listed twice in the spec, the container's last.
        """
        loud = Image("localhost/loud:1", env=("NVIDIA_GPU_MEMORY_LIMIT=99999", "KEPT=yes"))
        async with Containerd("2.3", images=[loud]) as runtime, runtime.cri() as cri:
            pod = await cri.run_pod("loud")
            own = await cri.create_container(pod, "own", image=loud.name, env=[("NVIDIA_GPU_MEMORY_LIMIT", "1")])
            bare = await cri.create_container(pod, "bare", image=loud.name)
            statuses = [await cri.status(container) for container in (own, bare)]

        assert [("99999", "1"), ("99999",)] == [status.values_of("NVIDIA_GPU_MEMORY_LIMIT") for status in statuses]
        assert [("yes",), ("yes",)] == [status.values_of("KEPT") for status in statuses]

    async def test_the_annotations_of_a_pod_are_not_those_of_its_container(self, cri: Cri) -> None:
        """
        A container's spec holds its own annotations and the names a kubelet gives, never the pod's annotations.
        """
        pod = await cri.run_pod("names", namespace="lab", uid="u-1", annotations={"example.com/pod": "1"})
        container = await cri.create_container(pod, "main", annotations={"example.com/own": "1"})

        annotations = (await cri.status(container)).annotations

        assert "example.com/pod" not in annotations
        assert {
            "io.kubernetes.cri.container-name": "main",
            "io.kubernetes.cri.sandbox-name": "names",
            "io.kubernetes.cri.sandbox-namespace": "lab",
            "io.kubernetes.cri.sandbox-uid": "u-1",
        }.items() <= annotations.items()


class TestService:
    async def test_log_lines_are_waited_for(self, python: Callable[[str], Service]) -> None:
        """
        A record is found by its event and further keys, and text beside the records does no harm.
        """
        program = 'print(\'starting\'); print(\'{"event": "up", "port": 7}\', flush=True); import time; time.sleep(60)'
        async with python(program) as service:
            record = await service.wait_for_log("up", port=7)
            with pytest.raises(Overdue, match="'port': 8"):
                await service.wait_for_log("up", port=8, timeout_seconds=0.05)
            usage = service.usage()

        assert {"event": "up", "port": 7} == record
        assert 0 < usage.pss_kib <= usage.rss_kib
        assert -signal.SIGTERM == service.exit_code

    async def test_a_program_that_ended_is_not_waited_for(self, python: Callable[[str], Service]) -> None:
        """
        The wait for a log line ends with the program, and shows what it said.
        """
        async with python("raise SystemExit('no such socket')") as service:
            with pytest.raises(Died, match="no such socket") as caught:
                await service.wait_for_log("up", timeout_seconds=60)

        assert caught.value.exit_code == 1

    async def test_a_stopped_program_is_ended_too(self, python: Callable[[str], Service]) -> None:
        """
        A program that hangs under SIGSTOP does not outlive its context.
        """
        async with python("import time; time.sleep(60)") as service:
            service.signal(signal.SIGSTOP)

        assert -signal.SIGTERM == service.exit_code

    async def test_pages_are_fetched(self, python: Callable[[str], Service], unused_tcp_port: int) -> None:
        """
        A page's status and body come back from a server on this machine.
        """
        program = (
            "import http.server as h\n"
            f"s = h.HTTPServer(('127.0.0.1', {unused_tcp_port}), h.SimpleHTTPRequestHandler)\n"
            'print(\'{"event": "up"}\', flush=True)\n'
            "s.serve_forever()"
        )
        async with python(program) as service:
            await service.wait_for_log("up")
            answer = await http_get(unused_tcp_port, "/no-such-page")

        assert answer.status == 404
        assert "File not found" in answer.body


@pytest.fixture
def python(tmp_path: Path) -> Callable[[str], Service]:
    return lambda program: Service("program", [sys.executable, "-c", program], directory=tmp_path)


async def _run_something(runtime: Containerd) -> None:
    async with runtime.cri() as cri:
        await cri.start(await cri.create_container(await cri.run_pod("left-behind"), "main"))


def _remains(runtime: Containerd, sockets: Sequence[Path]) -> list[object]:
    base = runtime.layout.base
    return [
        *(socket for socket in sockets if socket.exists()),
        *sweep.cgroup_directories(runtime.cgroup),
        *sweep.shim_pids(runtime.cri_socket),
        *sweep.mounts_below(base),
        *([base] if base.exists() else []),
    ]
