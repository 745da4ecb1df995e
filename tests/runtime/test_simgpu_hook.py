"""
The hook that applies simulated memory limits: called for made-up containers, and by a real runtime for real ones.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import attrs
import pytest
from lab import gpuprocess, waiting
from lab.containerd import Containerd
from lab.cri import Cri
from lab.devices import Hook, make_gpus, write_cdi_spec
from lab.errors import CriError
from lab.limitscene import OPERATING_SYSTEM, TOTAL_BYTES, LimitScene
from simgpu.limits import LimitsFile
from simgpu.processes import Allocation
from simgpu.state import Gpu, Machine

MIB = 1 << 20
PAIR = ("NVIDIA_GPU_MEMORY_REQUEST=256", "NVIDIA_GPU_MEMORY_LIMIT=512")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[LimitScene]:
    """
    A machine whose cgroup has no limits yet.
    """
    made = LimitScene(tmp_path)
    with made.nvml:
        yield made


class Bundle:
    """
    A made-up container, and the hook as a runtime calls it.
    """

    def __init__(self, scene: LimitScene) -> None:
        self._scene = scene
        self._directory = scene.directory / "bundle"
        self._directory.mkdir()

    def run_hook(
        self, env: Sequence[str], path: str, *options: str, uuid: str = "GPU-1", root: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """
        Call the hook for a container with these variables and this cgroup path.
        """
        spec = {"process": {"env": env}, "linux": {"cgroupsPath": path}}
        (self._directory / "config.json").write_text(json.dumps(spec))
        state = {"ociVersion": "1.2.0", "id": "c1", "pid": 1, "bundle": str(self._directory)}
        return subprocess.run(
            [self._scene.driver.hook, "--uuid", uuid, "--cgroup-root", root or self._scene.root, *options],
            input=json.dumps(state),
            capture_output=True,
            text=True,
            check=False,
            # A runtime gives a hook the variables of its CDI device and no others.
            env=self._scene.state.environ,
        )


@pytest.fixture
def bundle(scene: LimitScene) -> Bundle:
    """
    A container on the scene's GPUs.
    """
    return Bundle(scene)


class TestTheHook:
    @pytest.mark.parametrize(
        ("path", "options", "directory"),
        [
            pytest.param(
                "kubelet-kubepods-besteffort-podU.slice:cri-containerd:ID",
                (),
                "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
                "kubelet-kubepods-besteffort-podU.slice/cri-containerd-ID.scope",
                id="nested slices",
            ),
            pytest.param(
                "kubepods-podU.slice:crio:ID",
                (),
                "kubepods.slice/kubepods-podU.slice/crio-ID.scope",
                id="one slice",
            ),
            pytest.param(":cri-containerd:ID", (), "system.slice/cri-containerd-ID.scope", id="no slice"),
            pytest.param("/kubepods/podU/ID", ("--cgroupfs",), "kubepods/podU/ID", id="cgroupfs"),
        ],
    )
    def test_limits(
        self, scene: LimitScene, bundle: Bundle, path: str, options: tuple[str, ...], directory: str
    ) -> None:
        """
        The driver enforces the container's pair, in bytes, on the cgroup that its path leads to.
        """
        done = bundle.run_hook(PAIR, path, *options)

        assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
        assert [256 * MIB, 512 * MIB, 0] == scene.get(cgroup=scene.root / directory)

    @pytest.mark.parametrize(
        "env",
        [
            pytest.param((), id="neither"),
            pytest.param(PAIR[:1], id="request alone"),
            pytest.param(PAIR[1:], id="limit alone"),
            pytest.param(("NVIDIA_GPU_MEMORY_REQUESTS=1", "NVIDIA_GPU_MEMORY_LIMITS=1"), id="plural names"),
        ],
    )
    def test_nothing_to_do(self, scene: LimitScene, bundle: Bundle, env: tuple[str, ...]) -> None:
        """
        A container without the pair is passed over without a word.
        """
        done = bundle.run_hook(env, "a.slice:b:c")

        assert (0, "", "") == (done.returncode, done.stdout, done.stderr)
        assert () == LimitsFile(scene.state).read()

    @pytest.mark.parametrize(
        ("env", "path", "told"),
        [
            pytest.param(
                ("NVIDIA_GPU_MEMORY_REQUEST=2", "NVIDIA_GPU_MEMORY_LIMIT=1"),
                "a.slice:b:c",
                "NVIDIA_GPU_MEMORY_REQUEST=2 is more than NVIDIA_GPU_MEMORY_LIMIT=1",
                id="request over limit",
            ),
            pytest.param(
                (PAIR[0], "NVIDIA_GPU_MEMORY_LIMIT=1Gi"),
                "a.slice:b:c",
                "NVIDIA_GPU_MEMORY_LIMIT=1Gi is no whole number of MiB",
                id="no number",
            ),
            pytest.param(
                PAIR,
                "/kubepods/podU/ID",
                "cgroupsPath '/kubepods/podU/ID' is not systemd-style, which is SLICE:PREFIX:NAME",
                id="cgroupfs",
            ),
            pytest.param(
                (PAIR[0], "NVIDIA_GPU_MEMORY_LIMIT=1025"),
                "a.slice:b:c",
                "nvmlDeviceSetMemoryLimits_v1 for GPU-1 and {root}/a.slice/b-c.scope: Invalid Argument",
                id="over the card",
            ),
        ],
    )
    def test_refusals(self, scene: LimitScene, bundle: Bundle, env: tuple[str, ...], path: str, told: str) -> None:
        """
        What cannot be enforced is refused with one line that says why.
        """
        done = bundle.run_hook(env, path)

        assert (1, f"simulated: memory limits: {told.format(root=scene.root)}\n") == (done.returncode, done.stderr)
        assert () == LimitsFile(scene.state).read()

    def test_a_machine_without_cgroup_v2(self, scene: LimitScene, bundle: Bundle) -> None:
        """
        A tree without the file that tells cgroup v2 is refused.
        """
        done = bundle.run_hook(PAIR, "a.slice:b:c", root=scene.directory)

        told = f"simulated: memory limits: cgroup v2 needed, and {scene.directory} has no cgroup.controllers\n"
        assert (1, told) == (done.returncode, done.stderr)

    def test_the_end_of_a_container(self, scene: LimitScene, bundle: Bundle) -> None:
        """
        Its directory is taken away with the limits, by the first hook of several.
        """
        bundle.run_hook(PAIR, "a.slice:b:c")
        done = [bundle.run_hook(PAIR, "a.slice:b:c", "--remove", uuid=uuid).returncode for uuid in ("GPU-1", "GPU-2")]

        assert ([0, 0], OPERATING_SYSTEM) == (done, scene.get(cgroup=scene.root / "a.slice/b-c.scope"))


class TestContainers:
    """
    On a real runtime, whose containers are in no tree but that of cgroup v1.
    """

    @pytest.fixture
    async def create(self, scene: LimitScene, containerd: Containerd, cri: Cri) -> Callable[..., Awaitable[str]]:
        """
        Creates containers that are given GPU 0 and the pair, and hold so much of it.
        """
        gpu = make_gpus(scene.directory / "dev", count=1)[0]
        device = Gpu(gpu.uuid, memory_total_bytes=TOTAL_BYTES)
        scene.state.write(Machine(devices=(device,), scan_processes=True))
        hook = Hook(scene.driver.hook, cgroup_root=scene.root, environ=scene.state.environ)
        write_cdi_spec(containerd.cdi_dir, [gpu], hook=hook)

        async def create(memory: str, *, pair: Sequence[str] = PAIR) -> str:
            env = [(name, value) for name, _, value in (text.partition("=") for text in pair)]
            return await cri.create_container(
                await cri.run_pod(f"holds-{memory.lower()}"),
                "main",
                command=gpuprocess.command(Allocation((gpu.uuid,), memory=memory)),
                env=[*env, *gpuprocess.env(scene.state)],
                mounts=gpuprocess.mounts(scene.driver, obeys=scene.state),
                cdi_devices=[gpu.cdi_name],
            )

        return create

    async def test_within_the_limit(self, scene: LimitScene, cri: Cri, create: Callable[..., Awaitable[str]]) -> None:
        """
        A container has its limits once it runs, and what it holds is accounted to it and above; both go with it.
        """
        container = await create("100Mi")
        await cri.start(container)
        await wait_for_memory(scene, (await cri.status(container)).pid)
        (limit,) = LimitsFile(scene.state).read()
        running = scene.get(cgroup=limit.directory)
        above, beside = limit.directory.parent, limit.directory.with_name(container[:12])
        beside.mkdir()
        others = (attrs.evolve(limit, directory=directory, identity="-") for directory in (above, beside))
        LimitsFile(scene.state).put(*others)
        used = [scene.get(cgroup=directory) for directory in (above, beside)]
        await cri.stop(container)
        await cri.remove(container)

        assert container == limit.directory.name
        assert [256 * MIB, 512 * MIB, 100 * MIB] == running
        assert [[256 * MIB, 512 * MIB, 100 * MIB], [256 * MIB, 512 * MIB, 0]] == used
        assert OPERATING_SYSTEM == scene.get(cgroup=limit.directory)

    async def test_beyond_the_limit(self, cri: Cri, create: Callable[..., Awaitable[str]]) -> None:
        """
        A container that asks for more than its hard limit ends.
        """
        container = await create("513Mi")
        await cri.start(container)

        assert 1 == (await cri.wait_for_state(container, "exited")).exit_code

    async def test_a_pair_that_is_refused(self, cri: Cri, create: Callable[..., Awaitable[str]]) -> None:
        """
        A container whose limits cannot be set does not start, and the runtime tells why.
        """
        container = await create("1Mi", pair=("NVIDIA_GPU_MEMORY_REQUEST=2", "NVIDIA_GPU_MEMORY_LIMIT=1"))
        with pytest.raises(CriError) as caught:
            await cri.start(container)

        assert "NVIDIA_GPU_MEMORY_REQUEST=2 is more than NVIDIA_GPU_MEMORY_LIMIT=1" in caught.value.message


async def wait_for_memory(scene: LimitScene, pid: int) -> None:
    """
    Wait until NVML lists a process.
    """
    listed = "[process.pid for process in nvmlDeviceGetComputeRunningProcesses(gpu(0))]"
    await waiting.until(lambda: pid in scene.nvml.ask(listed), what="NVML to list it", timeout_seconds=30)
