"""
The machine that the simulated driver shows: values, and the file that it reads them from.

    state = StateFile(tmp_path / "simgpu")
    state.write(Machine(devices=(Gpu("GPU-1"),)))
    start(environ=state.environ)
    state.write(Machine(driver="620.10.01"))            # an upgrade, under a program that runs

The file is replaced atomically and read anew at every call, so that a write counts at once. Functions of NVML are named
without `nvml` and version, such as `Init` and `SystemGetDriverVersion`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

VARIABLE = "SIMGPU_STATE"
_NOT_TOLD = 2**64 - 1


@attrs.frozen
class GpuProcess:
    """
    A process on a GPU.

    Args:
        pid: In the PID namespace of whoever reads NVML; it need not exist.
        memory_used_bytes: None where NVML does not tell.
        sm_percent: One sample of so much, taken at each reading; a process that uses none has no sample.
    """

    pid: int
    memory_used_bytes: int | None
    sm_percent: int = 0


@attrs.frozen
class SmSample:
    """
    A sample of the past in the driver's buffer, beside those of the processes; told to whoever asks since before it.
    """

    pid: int
    sm_percent: int
    timestamp_us: int
    memory_percent: int = 0


@attrs.frozen
class Gpu:
    """
    One simulated device.

    Args:
        uuid: As NVML gives it.
        minor: Of /dev/nvidiaN; the device's index where None.
        name: What it is sold as.
        memory_total_bytes: Of the card.
        memory_used_bytes: By everybody.
        processes: Those that compute.
        graphics_processes: Those that draw; a process may be in both.
        samples: Of SM use, in this order.
        mig: Whether it is split into instances, which have no memory limits and no samples.
        races: By function, how many lists grow between being measured and being read, after each write of the state.
        cgroup_used_bytes: What the driver accounts to cgroups whose processes it cannot find, by directory.
        error: What every call about it returns; 0 is none.
        errors: The same for one function.
    """

    uuid: str
    minor: int | None = None
    name: str = "Simulated GPU"
    memory_total_bytes: int = 80 << 30
    memory_used_bytes: int = 0
    processes: tuple[GpuProcess, ...] = ()
    graphics_processes: tuple[GpuProcess, ...] = ()
    samples: tuple[SmSample, ...] = ()
    mig: bool = False
    races: Mapping[str, int] = attrs.field(factory=dict)
    cgroup_used_bytes: Mapping[Path, int] = attrs.field(factory=dict)
    error: int = 0
    errors: Mapping[str, int] = attrs.field(factory=dict)


@attrs.frozen
class Mps:
    """
    How the simulated control daemon behaves beyond what the real one does by itself.

    Args:
        clients: Processes that count as attached clients while they live and nobody terminates them.
        latency_ms: Before every command is answered.
        error: What every command says before it ends with status 1.
        hangs: No command is ever answered.
        ignores_quit: `quit` waits for ever, as for a client that never leaves.
        terminate_ms: How long the termination of a client takes, by PID.
        start_ms: Before the daemon starts.
        start_error: What the daemon says instead of starting.
    """

    clients: tuple[int, ...] = ()
    latency_ms: int = 0
    error: str = ""
    hangs: bool = False
    ignores_quit: bool = False
    terminate_ms: Mapping[int, int] = attrs.field(factory=dict)
    start_ms: int = 0
    start_error: str = ""


@attrs.frozen
class Machine:
    """
    All that is simulated.

    Args:
        driver: Version of the loaded driver; empty means that none is loaded.
        library: Version of the NVML library; the driver's, or that of an older one in the stale library, where None.
        cuda: CUDA version as NVML counts it.
        devices: The GPUs by index.
        scan_processes: Whether processes of simgpu-run are on the GPUs they name, beside those of the devices.
        memory_limits: Whether limits are supported; a driver before r615 has none in any case.
        error: What every NVML call returns; 0 is none.
        errors: The same for one function.
        latency_ms: How long every NVML call takes.
        latencies_ms: The same for one function.
        mps: The control daemon.
    """

    driver: str = "615.43.02"
    library: str | None = None
    cuda: int = 13040
    devices: tuple[Gpu, ...] = ()
    scan_processes: bool = False
    memory_limits: bool = True
    error: int = 0
    errors: Mapping[str, int] = attrs.field(factory=dict)
    latency_ms: int = 0
    latencies_ms: Mapping[str, int] = attrs.field(factory=dict)
    mps: Mps = Mps()


class StateFile:
    """
    The file through which a test tells the simulated driver what to show.

    Args:
        path: Where it is; its neighbours of the same name with a further ending are the driver's.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def environ(self) -> Mapping[str, str]:
        """
        The variable that leads a program to it.
        """
        return {VARIABLE: str(self.path)}

    def write(self, machine: Machine) -> None:
        """
        Show this machine from now on.
        """
        new = self.path.with_name(f"{self.path.name}.new")
        new.write_text(render(machine))
        new.replace(self.path)


def render(machine: Machine) -> str:
    """
    Give the text of a state file: lines of `key = value`.
    """
    return "".join(f"{key} = {value}\n" for key, value in _iter_entries(machine))


def _iter_entries(machine: Machine) -> Iterator[tuple[str, object]]:
    if machine.driver:
        yield "driver", machine.driver
    if machine.library is not None:
        yield "library", machine.library
    yield "cuda", machine.cuda
    yield "scan_processes", int(machine.scan_processes)
    yield "memory_limits", int(machine.memory_limits)
    yield "error", machine.error
    yield "latency_ms", machine.latency_ms
    yield from _named("error", machine.errors)
    yield from _named("latency_ms", machine.latencies_ms)
    for index, gpu in enumerate(machine.devices):
        for key, value in _iter_gpu(gpu):
            yield f"device.{index}.{key}", value
    yield from _iter_mps(machine.mps)


def _iter_gpu(gpu: Gpu) -> Iterator[tuple[str, object]]:
    yield "uuid", gpu.uuid
    yield "name", gpu.name
    yield "memory_total", gpu.memory_total_bytes
    yield "memory_used", gpu.memory_used_bytes
    yield "error", gpu.error
    yield "mig", int(gpu.mig)
    yield from _named("error", gpu.errors)
    yield from _named("race", gpu.races)
    if gpu.minor is not None:
        yield "minor", gpu.minor
    for process in gpu.processes:
        yield "process", _process(process)
    for process in gpu.graphics_processes:
        yield "graphics_process", _process(process)
    for sample in gpu.samples:
        yield "sample", f"{sample.pid} {sample.sm_percent} {sample.timestamp_us} {sample.memory_percent}"
    for directory, used_bytes in gpu.cgroup_used_bytes.items():
        yield "cgroup_used", f"{used_bytes} {directory.resolve()}"


def _process(process: GpuProcess) -> str:
    used_bytes = _NOT_TOLD if process.memory_used_bytes is None else process.memory_used_bytes
    return f"{process.pid} {used_bytes} {process.sm_percent}"


def _iter_mps(mps: Mps) -> Iterator[tuple[str, object]]:
    yield "mps.latency_ms", mps.latency_ms
    yield "mps.start_ms", mps.start_ms
    yield from _named("mps.terminate_ms", mps.terminate_ms)
    for pid in mps.clients:
        yield "mps.client", pid
    if mps.hangs:
        yield "mps.hang", 1
    if mps.ignores_quit:
        yield "mps.ignores_quit", 1
    if mps.error:
        yield "mps.error", mps.error
    if mps.start_error:
        yield "mps.start_error", mps.start_error


def _named(prefix: str, values: Mapping[str, int] | Mapping[int, int]) -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        yield f"{prefix}.{name}", value
