"""What a container gets, or why it is refused, through a real containerd and runc."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import nri_aio
import pytest
from lab.containerd import Containerd
from lab.cri import Cri, Status
from lab.devices import make_gpus, write_cdi_spec
from lab.errors import CriError
from lab.fractiond import Fractiond
from nri_aio.pb import nri_pb2 as pb

PREFIX = "nvidia.com/container."
ENFORCED = (
    "NVIDIA_GPU_MEMORY_REQUEST",
    "NVIDIA_GPU_MEMORY_LIMIT",
    "CUDA_MPS_PIPE_DIRECTORY",
    "NVIDIA_VISIBLE_DEVICES",
)


def annotated(name: str = "main", prefix: str = PREFIX, **suffixes: str) -> dict[str, str]:
    """Write annotations; `memory_limit` stands for `.gpu-memory.limit` and so on."""
    keys = {
        "request": ".gpu-memory.request",
        "limit": ".gpu-memory.limit",
        "devices": ".gpus.devices",
        "mode": ".gpu-compute.mode",
    }
    return {f"{prefix}{name}{keys[key]}": value for key, value in suffixes.items()}


def enforced(status: Status) -> dict[str, str]:
    """Give the enforced variables of a container; one that is listed twice fails here."""
    found = {name: status.values_of(name) for name in ENFORCED}
    assert all(len(values) <= 1 for values in found.values()), found
    return {name: values[0] for name, values in found.items() if values}


async def created(cri: Cri, annotations: Mapping[str, str], name: str = "main", **options: object) -> Status:
    """Create and start a container in a pod of its own."""
    pod = await cri.run_pod("trainer", namespace="team", annotations=annotations)
    container = await cri.create_container(pod, name, **options)  # type: ignore[arg-type] # passed on as it is
    await cri.start(container)
    return await cri.status(container)


@pytest.fixture
async def fractiond(containerd: Containerd, tmp_path: Path) -> AsyncIterator[Fractiond]:
    async with Fractiond(containerd, directory=tmp_path) as running:
        await running.ready()
        yield running


class TestInjection:
    """The memory variables, the pipe and the devices of a container."""

    @pytest.mark.parametrize(
        ("suffixes", "request_mib", "limit_mib"),
        [
            pytest.param({"request": "2048Mi", "limit": "4096Mi"}, "2048", "4096", id="both"),
            pytest.param({"request": "2Gi"}, "2048", "2048", id="request only"),
            pytest.param({"limit": "1000M"}, "954", "954", id="limit only, decimal unit rounds up"),
            pytest.param({"request": "1.5Gi", "limit": "2e9"}, "1536", "1908", id="fraction and exponent"),
        ],
    )
    async def test_memory(
        self, fractiond: Fractiond, cri: Cri, suffixes: dict[str, str], request_mib: str, limit_mib: str
    ) -> None:
        """Memory is handed over as whole MiB, the missing one of the two defaulted to the other."""
        status = await created(cri, annotated(**suffixes))

        assert enforced(status) == {
            "NVIDIA_GPU_MEMORY_REQUEST": request_mib,
            "NVIDIA_GPU_MEMORY_LIMIT": limit_mib,
            "CUDA_MPS_PIPE_DIRECTORY": str(fractiond.pipe_dir),
        }

    async def test_the_program_itself_sees_it(self, fractiond: Fractiond, cri: Cri) -> None:
        """A program in the container finds its limit in its environment and the host's pipe directory mounted."""
        (fractiond.pipe_dir / "sentinel").write_text("from the host")
        status = await created(cri, annotated(limit="1Gi"))

        assert "NVIDIA_GPU_MEMORY_LIMIT=1024" in (await cri.exec(status.id, ["/bin/env"])).splitlines()
        assert await cri.exec(status.id, ["/bin/cat", f"{fractiond.pipe_dir}/sentinel"]) == "from the host"

    async def test_sm_sharing(self, fractiond: Fractiond, cri: Cri) -> None:
        """An sm-sharing container gets the shared server's directory, at the fixed place."""
        (fractiond.pipe_dir / "shared/default/sentinel").write_text("shared")
        status = await created(cri, annotated(limit="1Gi", mode="sm-sharing"))

        assert enforced(status)["CUDA_MPS_PIPE_DIRECTORY"] == "/tmp/nvidia-mps"
        assert await cri.exec(status.id, ["/bin/cat", "/tmp/nvidia-mps/sentinel"]) == "shared"

    @pytest.mark.parametrize(
        "devices",
        [pytest.param("GPU-1", id="single"), pytest.param("GPU-1,GPU-2", id="list"), pytest.param("0", id="index")],
    )
    async def test_visible_devices(self, fractiond: Fractiond, cri: Cri, devices: str) -> None:
        """The devices annotation replaces the container's own NVIDIA_VISIBLE_DEVICES, as written."""
        status = await created(cri, annotated(limit="1Gi", devices=devices), env=[("NVIDIA_VISIBLE_DEVICES", "all")])

        assert enforced(status)["NVIDIA_VISIBLE_DEVICES"] == devices

    async def test_two_containers_of_a_pod(self, fractiond: Fractiond, cri: Cri) -> None:
        """Each container of a pod gets its own figures."""
        pod = await cri.run_pod("two", annotations=annotated("a", limit="1Gi") | annotated("b", limit="3Gi"))
        limits = []
        for name in ("a", "b"):
            container = await cri.create_container(pod, name)
            limits.append(enforced(await cri.status(container))["NVIDIA_GPU_MEMORY_LIMIT"])

        assert limits == ["1024", "3072"]

    @pytest.mark.parametrize(
        "annotations",
        [
            pytest.param({}, id="no annotation"),
            pytest.param(annotated("main2", limit="1Gi"), id="a sibling with a longer name"),
            pytest.param(annotated("mai", limit="1Gi"), id="a sibling with a shorter name"),
            pytest.param(annotated(mode="sm-sharing", devices="GPU-1"), id="mode and devices alone"),
            pytest.param({f"{PREFIX}main.gpu-mem.limit": "1Gi"}, id="a near miss"),
        ],
    )
    async def test_untouched(self, fractiond: Fractiond, cri: Cri, annotations: dict[str, str]) -> None:
        """A container without a memory annotation of its own stays as it is, and has no record."""
        before = await fractiond.metric("containers_total", outcome="untouched")
        status = await created(cri, annotations, env=[("NVIDIA_VISIBLE_DEVICES", "all")])

        assert enforced(status) == {"NVIDIA_VISIBLE_DEVICES": "all"}
        assert str(fractiond.pipe_dir) not in [destination for _, destination in status.mounts]
        assert await fractiond.metric("containers_total", outcome="untouched") == before + 1

    async def test_another_prefix(self, containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
        """With a prefix of one's own the default one means nothing."""
        async with Fractiond(containerd, directory=tmp_path, flags=["--annotation-prefix=gpu.example/c."]) as running:
            await running.ready()
            own = await created(cri, annotated(prefix="gpu.example/c.", limit="1Gi"))
            default = await created(cri, annotated(limit="1Gi"))

        assert enforced(own)["NVIDIA_GPU_MEMORY_LIMIT"] == "1024"
        assert enforced(default) == {}


class TestCdi:
    """GPUs as CDI devices, for nodes on which nothing reads NVIDIA_VISIBLE_DEVICES."""

    async def test_each_assigned_gpu_is_requested(self, containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
        """The container has the device nodes of its GPUs, and the record their UUIDs and minors."""
        gpus = make_gpus(tmp_path / "dev", count=3)
        write_cdi_spec(containerd.cdi_dir, gpus)
        flags = ["--inject-cdi-device", f"--cdi-spec-dirs={containerd.cdi_dir}"]
        async with Fractiond(containerd, directory=tmp_path, flags=flags) as running:
            await running.ready()
            status = await created(cri, annotated(limit="1Gi", devices=gpus[1].uuid))
            await running.settled()
            record = running.records()[status.id]

        assert status.values_of("NVIDIA_VISIBLE_DEVICES")[-1] == "void"
        assert [path for path in status.devices if "nvidia" in path] == ["/dev/nvidia1"]
        assert record["gpuDevices"] == [{"index": 0, "uuid": gpus[1].uuid, "minorNumber": 1}]

    @pytest.mark.parametrize(
        "requested", [pytest.param((), id="ours alone"), pytest.param((0,), id="beside one that the kubelet requested")]
    )
    async def test_it_outlives_a_restart(
        self, containerd: Containerd, cri: Cri, tmp_path: Path, requested: tuple[int, ...]
    ) -> None:
        """The audit of the next fractiond finds such a container in order, however its CDI devices are told."""
        gpus = make_gpus(tmp_path / "dev", count=2)
        write_cdi_spec(containerd.cdi_dir, gpus)
        flags = ["--inject-cdi-device", f"--cdi-spec-dirs={containerd.cdi_dir}"]
        async with Fractiond(containerd, directory=tmp_path, flags=flags) as running:
            await running.ready()
            others = [gpus[number].cdi_name for number in requested]
            status = await created(cri, annotated(limit="1Gi", devices=gpus[1].uuid), cdi_devices=others)
            await running.service.end()
            await running.start()
            await running.ready()
            await running.service.wait_for_log("synchronized")

            assert await running.metric("violations_total", kind="different") == 0
            assert await running.metric("violations_total", kind="unfenced") == 0
            assert (await cri.status(status.id)).state == "running"

    async def test_a_gpu_in_no_spec_is_refused(self, containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
        """A UUID that no CDI spec lists is refused by us, naming it and what there is."""
        gpus = make_gpus(tmp_path / "dev", count=1)
        write_cdi_spec(containerd.cdi_dir, gpus)
        flags = ["--inject-cdi-device", f"--cdi-spec-dirs={containerd.cdi_dir}"]
        async with Fractiond(containerd, directory=tmp_path, flags=flags) as running:
            await running.ready()
            with pytest.raises(CriError) as refusal:
                await created(cri, annotated(limit="1Gi", devices="GPU-gone"))

        assert f"GPU-gone is in no CDI spec; known: {gpus[0].uuid}" in refusal.value.message
        assert running.records() == {}

    async def test_all_means_every_gpu_by_name(self, containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
        """`all` is expanded to the specs' GPUs, since their kind has no device of that name."""
        gpus = make_gpus(tmp_path / "dev", count=2)
        write_cdi_spec(containerd.cdi_dir, gpus)
        flags = ["--inject-cdi-device", f"--cdi-spec-dirs={containerd.cdi_dir}"]
        async with Fractiond(containerd, directory=tmp_path, flags=flags) as running:
            await running.ready()
            status = await created(cri, annotated(limit="1Gi", devices="all"))

        assert [path for path in status.devices if "nvidia" in path] == ["/dev/nvidia0", "/dev/nvidia1"]


class TestRefusal:
    """What the user reads when a container is not created."""

    @pytest.mark.parametrize(
        ("suffixes", "said"),
        [
            pytest.param({"limit": "banana"}, ['main.gpu-memory.limit: "banana"', "accepted: "], id="not a quantity"),
            pytest.param({"limit": "4096"}, ['"4096"', "1 MiB"], id="bytes forgotten"),
            pytest.param({"limit": "1Gi", "request": "2Gi"}, ['"1Gi"', '"2Gi"', "below"], id="limit below request"),
            pytest.param({"limit": "1Gi", "mode": "mps"}, ['"mps"', "time-slicing or sm-sharing"], id="unknown mode"),
            pytest.param(
                {"limit": "1Gi", "devices": "GPU-1\nA=b"}, ["main.gpus.devices", "line break"], id="line break"
            ),
        ],
    )
    async def test_the_message(self, fractiond: Fractiond, cri: Cri, suffixes: dict[str, str], said: list[str]) -> None:
        """One line names container, pod, key, value and the accepted form; no container is left and no record."""
        pod = await cri.run_pod("trainer", namespace="team", annotations=annotated(**suffixes))
        with pytest.raises(CriError) as refusal:
            await cri.create_container(pod, "main")

        message = refusal.value.message
        assert 'container "main" in pod "team/trainer": ' in message
        assert [part for part in said if part not in message] == []
        assert "\n" not in message
        assert await cri.list_containers() == ()
        assert fractiond.records() == {}

    async def test_fail_open(self, containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
        """Under fail-open a container with an unusable quantity runs with nothing injected, and is counted."""
        async with Fractiond(containerd, directory=tmp_path, flags=["--fail-open"]) as running:
            await running.ready()
            status = await created(cri, annotated(limit="banana"))

            assert enforced(status) == {}
            assert status.state == "running"
            assert await running.metric("containers_total", outcome="failed_open") == 1

    async def test_retries_are_logged_once(self, fractiond: Fractiond, cri: Cri) -> None:
        """The kubelet's retries of a refused container add nothing to the log."""
        pod = await cri.run_pod("trainer", annotations=annotated(limit="banana"))
        for _ in range(3):
            with pytest.raises(CriError):
                await cri.create_container(pod, "main")
        refused = await fractiond.metric("containers_total", outcome="refused")
        await fractiond.service.end()

        assert refused == 3
        assert len([r for r in fractiond.service.records() if r["event"] == "container_refused"]) == 1


class TestAnotherPlugin:
    """A second NRI plugin that comes after ours and wants other values."""

    async def test_it_does_not_get_its_way(self, fractiond: Fractiond, containerd: Containerd, cri: Cri) -> None:
        """A container whose limit another plugin changed is refused at validation, or at its start."""
        async with meddling(containerd, {"NVIDIA_GPU_MEMORY_LIMIT": "99999"}):
            pod = await cri.run_pod("trainer", annotations=annotated(limit="1Gi"))
            with pytest.raises(CriError) as refusal:
                await cri.start(await cri.create_container(pod, "main"))

        assert 'env:NVIDIA_GPU_MEMORY_LIMIT is "99999", expected "1024"' in refusal.value.message
        outcome = "rejected_at_validation" if containerd.version == "2.3" else "rejected_at_start"
        assert await fractiond.metric("containers_total", outcome=outcome) == 1

    async def test_one_that_minds_its_business(self, fractiond: Fractiond, containerd: Containerd, cri: Cri) -> None:
        """Another plugin's own variables disturb nothing."""
        async with meddling(containerd, {"SOMETHING_ELSE": "1"}):
            status = await created(cri, annotated(limit="1Gi"))

        assert enforced(status)["NVIDIA_GPU_MEMORY_LIMIT"] == "1024"
        assert status.values_of("SOMETHING_ELSE") == ("1",)


class Meddler(nri_aio.Plugin):
    """Takes variables away from whoever set them, and sets its own values."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.active = asyncio.Event()

    def synchronized(self) -> None:
        """Note that the runtime calls us from now on."""
        self.active.set()

    def create_container(self, request: pb.CreateContainerRequest, call: nri_aio.Call) -> pb.CreateContainerResponse:
        """Set the values, for whatever container."""
        response = pb.CreateContainerResponse()
        for key, value in self._env.items():
            response.adjust.env.add(key=f"-{key}")
            response.adjust.env.add(key=key, value=value)
        return response


@asynccontextmanager
async def meddling(containerd: Containerd, env: Mapping[str, str]) -> AsyncIterator[None]:
    """Register a Meddler behind fractiond while the context lasts."""
    plugin = Meddler(env)
    opened = await nri_aio.Connection.open(plugin, name="meddler", index="90", socket_path=str(containerd.nri_socket))
    async with opened:
        async with asyncio.timeout(30):
            await plugin.active.wait()
        yield
