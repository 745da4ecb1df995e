"""
The simulated NVML through NVIDIA's own Python binding: what it tells of a machine, and of real processes on it.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from simgpu import processes, programs
from simgpu.processes import Allocation
from simgpu.programs import MissingDriver
from simgpu.reader import Reader
from simgpu.state import Gpu, GpuProcess, Machine, SmSample, StateFile

NOT_SUPPORTED = 3
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
GPU_IS_LOST = 15
COMPUTE = "listed(nvmlDeviceGetComputeRunningProcesses(gpu(0)))"
GRAPHICS = "listed(nvmlDeviceGetGraphicsRunningProcesses(gpu(0)))"
SECONDS = 5.0
MIB = 1 << 20


class Scene:
    """
    A state, and a process that asks the simulated library.
    """

    def __init__(self, directory: Path) -> None:
        try:
            self.driver = programs.locate()
        except MissingDriver as error:
            pytest.fail(str(error), pytrace=False)
        # Processes are found over the whole machine, where other tests may run.
        self.uuid = f"GPU-{secrets.token_hex(8)}"
        self.state = StateFile(directory / "simgpu")
        self.state.write(Machine(devices=(Gpu(self.uuid),), scan_processes=True))
        self.nvml = Reader(self.driver.library, environ=self.state.environ)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """
    A machine with one GPU of a name of its own.
    """
    made = Scene(tmp_path)
    with made.nvml:
        yield made


class TestProcessesOfTheState:
    def test_lists(self, scene: Scene) -> None:
        """
        Compute and graphics processes are listed apart, and memory that NVML does not tell is None.
        """
        compute = (GpuProcess(11, 5 * MIB), GpuProcess(12, None))
        scene.state.write(Machine(devices=(Gpu("GPU-1", processes=compute, graphics_processes=(GpuProcess(11, 3),)),)))

        assert [[11, 5 * MIB], [12, None]] == scene.nvml.ask(COMPUTE)
        assert [[11, 3]] == scene.nvml.ask(GRAPHICS)

    def test_a_list_that_grows(self, scene: Scene) -> None:
        """
        As often as the state says, a list has outgrown the room that was measured for it.
        """
        gpu = Gpu("GPU-1", processes=(GpuProcess(11, 1),), races={"DeviceGetComputeRunningProcesses": 2})
        scene.state.write(Machine(devices=(gpu,)))
        told = [scene.nvml.error_of(COMPUTE) for _ in range(3)]

        assert [INSUFFICIENT_SIZE, INSUFFICIENT_SIZE, 0] == told

    def test_a_list_that_grew_tells_its_size(self, scene: Scene) -> None:
        """
        A call whose room is too small by then tells a larger number, with which the next one succeeds.
        """
        gpu = Gpu("GPU-1", processes=(GpuProcess(11, 1),), races={"DeviceGetComputeRunningProcesses": 1})
        scene.state.write(Machine(devices=(gpu,)))
        call = "pynvml.nvmlLib.nvmlDeviceGetComputeRunningProcesses_v3(gpu(0), byref(count), room)"
        answers = scene.nvml.ask(
            f"[({call}, count.value) for room in [(c_nvmlProcessInfo_v3_t * 9)()] for count in [c_uint(3), c_uint(9)]]"
        )

        assert [[INSUFFICIENT_SIZE, 4], [0, 1]] == answers

    def test_samples(self, scene: Scene) -> None:
        """
        A process that uses the SMs has a sample taken now, and those of the past are told since before their time.
        """
        past = (SmSample(11, 40, timestamp_us=1000), SmSample(11, 999, timestamp_us=2000, memory_percent=7))
        running = (GpuProcess(11, 1, sm_percent=30), GpuProcess(12, 1))
        scene.state.write(Machine(devices=(Gpu("GPU-1", processes=running, samples=past),)))
        since = [scene.nvml.ask(f"samples(0, {when})") for when in (0, 1000, 2000)]

        assert [[[11, 40, 0], [11, 999, 7], [11, 30, 0]], [[11, 999, 7], [11, 30, 0]], [[11, 30, 0]]] == since

    @pytest.mark.parametrize(
        ("gpu", "error"),
        [
            pytest.param(Gpu("GPU-1", processes=(GpuProcess(11, 1),)), NOT_FOUND, id="idle"),
            pytest.param(Gpu("GPU-1", samples=(SmSample(11, 5, timestamp_us=9),)), NOT_FOUND, id="seen before"),
            pytest.param(Gpu("GPU-1", mig=True), NOT_SUPPORTED, id="MIG"),
            pytest.param(Gpu("GPU-1", error=GPU_IS_LOST), GPU_IS_LOST, id="lost"),
        ],
    )
    def test_no_samples(self, scene: Scene, gpu: Gpu, error: int) -> None:
        """
        Without samples since then there is an error, which says why.
        """
        scene.state.write(Machine(devices=(gpu,)))

        assert error == scene.nvml.error_of("samples(0, 9)")

    def test_mig(self, scene: Scene) -> None:
        """
        A GPU tells whether it is split.
        """
        scene.state.write(Machine(devices=(Gpu("GPU-1", mig=True), Gpu("GPU-2"))))

        assert [[1, 1], [0, 0]] == scene.nvml.ask("[nvmlDeviceGetMigMode(gpu(index)) for index in (0, 1)]")

    def test_a_structure_of_another_version(self, scene: Scene) -> None:
        """
        A structure of a version that is not known is refused, also on a GPU that is lost.
        """
        scene.state.write(Machine(devices=(Gpu("GPU-1", error=GPU_IS_LOST),)))

        assert [25, GPU_IS_LOST] == [
            scene.nvml.error_of(f"nvmlDeviceGetMemoryInfo(gpu(0), version={version}).total")
            for version in ("nvmlMemory_v2 + 1", "nvmlMemory_v2")
        ]


class TestLatency:
    @pytest.mark.parametrize(
        ("latency_ms", "least", "most"),
        # Slices of 20 ms would make it 4 s.
        [pytest.param(0, 0.0, 0.2, id="none"), pytest.param(1, 0.2, 2.0, id="one millisecond")],
    )
    def test_many_calls(self, scene: Scene, latency_ms: int, least: float, most: float) -> None:
        """
        Two hundred calls take as long as the state says, and little more.
        """
        scene.state.write(Machine(devices=(Gpu("GPU-1"),), latencies_ms={"DeviceGetIndex": latency_ms}))
        scene.nvml.ask("0")

        def seconds() -> float:
            started = time.monotonic()
            scene.nvml.ask("[nvmlDeviceGetIndex(device) for device in [gpu(0)] for _ in range(200)]")
            return time.monotonic() - started

        # Others have the processor at times.
        assert least <= min(seconds() for _ in range(3)) < most


class TestRealProcesses:
    @pytest.mark.parametrize(
        ("allocation", "compute", "graphics", "sampled"),
        [
            pytest.param(Allocation((), memory="512Mi", sm_percent=30), [512 * MIB], [], [30], id="compute"),
            pytest.param(Allocation((), memory="3", is_graphics=True), [], [3], [], id="graphics"),
            pytest.param(
                Allocation((), memory="2Gi", command=("sleep", "1000")), [2048 * MIB], [], [], id="beside a command"
            ),
        ],
    )
    def test_what_it_holds(
        self, scene: Scene, allocation: Allocation, compute: list[int], graphics: list[int], sampled: list[int]
    ) -> None:
        """
        A process is listed once, by its own PID, with what it was started with.
        """
        with processes.started(attrs.evolve(allocation, gpus=(scene.uuid,)), environ=os.environ) as process:
            listed = (scene.nvml.ask(COMPUTE), scene.nvml.ask(GRAPHICS))
            samples = scene.nvml.ask("samples(0, 0)") if sampled else []
        pid = process.pid

        assert ([[pid, held] for held in compute], [[pid, held] for held in graphics]) == listed
        assert [[pid, percent, 0] for percent in sampled] == samples

    def test_two_gpus(self, scene: Scene) -> None:
        """
        A process may hold memory on several GPUs, by their UUIDs, and is on no other.
        """
        others = [f"{scene.uuid}{suffix}" for suffix in "ab"]
        scene.state.write(Machine(devices=tuple(map(Gpu, [scene.uuid, *others])), scan_processes=True))
        every = "[len(nvmlDeviceGetComputeRunningProcesses(gpu(index))) for index in range(3)]"
        with processes.started(Allocation((others[1], scene.uuid))):
            counts = scene.nvml.ask(every)

        assert [1, 0, 1] == counts

    def test_an_end(self, scene: Scene) -> None:
        """
        A process that ended is not listed, also while nobody has waited for it.
        """
        with processes.started(Allocation((scene.uuid,))) as process:
            process.kill()
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            # What was seen of /proc counts for 10 ms.
            time.sleep(0.02)

            assert [] == scene.nvml.ask(COMPUTE)

    def test_only_where_the_state_says_so(self, scene: Scene) -> None:
        """
        A machine that does not look for processes has those of its state alone.
        """
        scene.state.write(Machine(devices=(Gpu(scene.uuid),)))
        with processes.started(Allocation((scene.uuid,))):
            assert [] == scene.nvml.ask(COMPUTE)

    @pytest.mark.parametrize(
        ("command", "status"),
        [pytest.param((), 0, id="alone"), pytest.param(("sh", "-c", "trap 'exit 7' TERM; read x"), 7, id="command")],
    )
    def test_a_signal(self, scene: Scene, command: tuple[str, ...], status: int) -> None:
        """
        SIGTERM ends it at once, or is passed on to its command, as which it then ends.
        """
        argv = Allocation((scene.uuid,), command=command).argv(str(scene.driver.run))
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            told = process.stdout.readline()
            if command:
                wait_for_trap(process.pid)
            process.send_signal(signal.SIGTERM)

            assert (f"simulated: 0 bytes on {scene.uuid}\n", status) == (told, process.wait(SECONDS))

    @pytest.mark.parametrize(
        ("argument", "told"),
        [
            pytest.param("--memory=512MB", "--memory=512MB", id="suffix"),
            pytest.param("--gpus=all", "--gpus=all", id="option"),
            pytest.param("--graphics", "--gpu=UUID[,UUID]", id="no GPU"),
        ],
    )
    def test_a_command_line_that_is_wrong(self, scene: Scene, argument: str, told: str) -> None:
        """
        A wrong argument is named with the accepted form.
        """
        done = subprocess.run([scene.driver.run, argument], capture_output=True, text=True, check=False)

        assert 2 == done.returncode
        assert done.stderr.startswith(f"simgpu-run: {told} is missing or not understood; usage: simgpu-run --gpu=")


def wait_for_trap(pid: int) -> None:
    """
    Wait until the shell beside a process catches SIGTERM.
    """
    deadline = time.monotonic() + SECONDS
    child = int(Path(f"/proc/{pid}/task/{pid}/children").read_text())
    while not catches(child, signal.SIGTERM):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def catches(pid: int, signum: signal.Signals) -> bool:
    """
    Tell whether a process has a handler for a signal.
    """
    lines = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(lines["SigCgt"], 16) & 1 << signum - 1)
